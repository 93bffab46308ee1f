"""How many examples property tests draw: a quarter of them in every run, all in the long one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import settings

PROFILES = {"suite": 25, "long": 100}
"""Percent of its examples that a test draws, by hypothesis' profile."""


def examples(count: int, **others: Any) -> Callable[[Any], Any]:
    """Settings of a test that draws ``count`` examples in the long run, which picks it by its mark.

    ``others``: settings of hypothesis.
    """
    drawn = settings(max_examples=-(-count * settings.default.max_examples // 100), **others)
    return lambda test: pytest.mark.drawn(drawn(test))


def half(values: Sequence[Any]) -> list[Any]:
    """Parameters: the first half of ``values`` in every run, the others in the long one."""
    middle = -(-len(values) // 2)
    return [*values[:middle], *(pytest.param(v, marks=pytest.mark.slow) for v in values[middle:])]
