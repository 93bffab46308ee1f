"""Warnings are those of the user's line, whatever of the library stands between."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from types import FunctionType

import pytest

from autosched.system.user_warnings import AutoschedWarning, notify


def inside(function: FunctionType) -> FunctionType:
    """The same function as if it were of a module of the library."""
    return FunctionType(
        function.__code__, {**globals(), "__name__": "sketch.dag"}, function.__name__
    )


def deep(depth: int) -> None:
    if depth:
        deep(depth - 1)
    else:
        notify(["something"])


@pytest.mark.parametrize("depth", [0, 1])
def test_it_is_told_of_the_line_that_called_the_library(
    depth: int, recwarn: pytest.WarningsRecorder
) -> None:
    ours = inside(deep)
    ours.__globals__["deep"] = ours
    ours(depth)
    line = ours.__code__.co_firstlineno  # below: a line of this function, not of that
    (warning,) = recwarn
    assert warning.filename == __file__ and warning.lineno > line + 5


def test_wrappers_of_the_standard_library_are_passed() -> None:
    @contextmanager
    def entered() -> Iterator[None]:
        notify(["entered"])
        yield

    ours = contextmanager(inside(entered.__wrapped__))
    with pytest.warns(AutoschedWarning, match="entered") as told, ours():
        pass
    assert told[0].filename == __file__


def test_code_without_a_module_is_told() -> None:
    with pytest.warns(AutoschedWarning, match="something"):
        exec("notify(['something'])", {"notify": notify})


def test_each_line_of_a_user_shows_a_text_once() -> None:
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("default")
        for _ in range(2):
            notify(["something"])
        notify(["something"])
    assert len(told) == 2
