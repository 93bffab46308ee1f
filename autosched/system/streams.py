"""Text streams, which may be anything that a program put in the place of stdout."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, Final, TextIO

# A disk is full, a reader has gone; a stream is closed, or cannot encode a text.
_TAKES_NOTHING: Final = (OSError, ValueError)


def is_terminal(stream: TextIO) -> bool:
    """Whether somebody looks at it: not where it cannot tell, or is closed."""
    try:
        return stream.isatty()
    except (AttributeError, ValueError, OSError):
        return False


def print_line(text: str, stream: TextIO | None, end: str = "\n") -> None:
    """Print at once what no work depends on; nothing where the stream takes nothing.

    Characters that the encoding of the stream lacks become question marks.

    Args:
        text: to print.
        stream: where to; None, as ``sys.stderr`` may be: nowhere.
        end: is printed after it.
    """
    if stream is None:  # which would be stdout for ``print``
        return
    with suppress(*_TAKES_NOTHING):
        try:
            print(text, end=end, file=stream, flush=True)
        except UnicodeEncodeError:
            plain = text.encode("ascii", "replace").decode("ascii")
            print(plain, end=end, file=stream, flush=True)


class UnfailingStream:
    """A stream that drops what the one below does not take; all else is that one's.

    Args:
        below: where it writes to.
    """

    def __init__(self, below: TextIO) -> None:
        self._below = below

    def write(self, text: str) -> int:
        """The number of characters, written or dropped."""
        print_line(text, self._below, "")
        return len(text)

    def flush(self) -> None:
        """Passed on."""
        with suppress(*_TAKES_NOTHING):
            self._below.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._below, name)
