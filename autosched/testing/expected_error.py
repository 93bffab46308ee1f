"""The assertion that a block raises an error."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def raises(kind: type[Exception]) -> Iterator[None]:
    """A block that must end with an error of a kind.

    Raises:
        AssertionError: the block ended without one; other errors pass.
    """
    try:
        yield
    except kind:
        return
    raise AssertionError(f"no {kind.__name__} was raised")
