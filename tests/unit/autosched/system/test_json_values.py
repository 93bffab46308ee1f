"""Readers of JSON values refuse what a damaged file may hold."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import pytest

from autosched.system.json_values import (
    finite_values,
    json_list,
    json_number,
    json_object,
    json_text,
    json_whole,
)


@pytest.mark.parametrize(
    ("read", "right", "wrong"),
    [
        (json_object, [{}, {"a": 1}], [None, [], "a", 3]),
        (json_list, [[], [1, "a"]], [None, {}, "ab", (1,)]),
        (partial(json_list, count=2), [[1, 2]], [[], [1], [1, 2, 3]]),
        (json_text, ["", "a"], [None, 3, ["a"]]),
        (json_number, [3, -0.5, 1e308], [None, True, "3", math.nan, math.inf, 10**400, -(10**400)]),
        (partial(json_whole, most=9), [9, -9], [10, -10, 3.0, True, "3", 10**400]),
    ],
)
def test_values_are_as_they_must_be(read: Any, right: list[Any], wrong: list[Any]) -> None:
    for value in right:
        assert read(value) is value
    for value in wrong:
        with pytest.raises(ValueError, match=r"is no |instead of 2"):
            read(value)


def test_what_json_lacks_becomes_none() -> None:
    value = {"a": [1.0, math.nan, (math.inf,)], "b": {"c": -math.inf, "d": "inf"}}
    assert finite_values(value) == {"a": [1.0, None, [None]], "b": {"c": None, "d": "inf"}}
