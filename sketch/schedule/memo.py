"""Results that depend on a sketch alone, kept as long as the sketch lives."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TypeVar
from weakref import WeakKeyDictionary

from sketch.schedule.sketch import Sketch

_T = TypeVar("_T")


def kept_by_sketch(function: Callable[[Sketch], _T]) -> Callable[[Sketch], _T]:
    """Call ``function`` once for each sketch; its results must not refer to the sketch."""
    kept: WeakKeyDictionary[Sketch, _T] = WeakKeyDictionary()

    @wraps(function)
    def call(sketch: Sketch) -> _T:
        if sketch not in kept:
            kept[sketch] = function(sketch)
        return kept[sketch]

    return call
