"""Tapes: replays equal the recorded function, and only what is needed is kept."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from sketch.population.tape import maximum, minimum, record, recordable


@recordable
def _ordered(values: Any, descending: bool) -> Any:
    ordered = np.sort(values)
    return ordered[::-1] if descending else ordered


def _mixed(inputs: Sequence[Any]) -> list[Any]:
    a, b = inputs
    ratio = np.where(b > 2, a / b, 1.0 * a.astype(np.float64))
    table = a[:, None] + b[None]
    return [-(-a // b), ratio, np.sum(table, axis=0), _ordered(b, True), 7, 2 * (a & b) + 0]


def test_a_replay_equals_the_function_for_other_arrays_and_lengths() -> None:
    tape = record(_mixed, 2)
    rng = np.random.default_rng(0)
    for length in (0, 1, 5, 300):
        arrays = [rng.integers(1, 9, length) for _ in range(2)]
        for found, expected in zip(tape.replay(arrays), _mixed(arrays), strict=True):
            np.testing.assert_array_equal(found, expected)
            assert np.asarray(found).dtype == np.asarray(expected).dtype


def test_equal_operations_are_kept_once_and_needless_ones_not_at_all() -> None:
    def function(inputs: Sequence[Any]) -> list[Any]:
        a, b = inputs
        _ = a - b
        return [(a + b) * 2, (b + a) * 2.0]

    tape = record(function, 2)
    assert len(tape.plan.functions) == 3, "one sum, and two products of different types"
    assert len(tape.only([1]).plan.functions) == 2
    found = tape.only([1]).replay([np.array([1, 2]), np.array([3, 4])])
    np.testing.assert_array_equal(found, [[8.0, 12.0]])


def test_neutral_operands_leave_no_operation_unless_they_change_the_type() -> None:
    tape = record(lambda inputs: [1 * inputs[0], inputs[0] + 0, inputs[0] * 1.0], 1)
    assert len(tape.plan.functions) == 1
    integers, again, floats = tape.replay([np.array([1, 2])])
    assert integers.dtype == again.dtype == np.int64
    assert floats.dtype == np.float64


def test_results_that_no_input_enters_are_fixed() -> None:
    tape = record(lambda inputs: [inputs[0], 3.5], 1)
    assert [result.slot is None for result in tape.results] == [False, True]
    assert tape.replay([np.ones(2)])[1] == 3.5


@pytest.mark.parametrize(
    "function",
    [
        lambda inputs: [1.0 if inputs[0] > 1 else 2.0],
        lambda inputs: [np.asarray(inputs[0])],
        lambda inputs: [max(inputs[0], 1)],
    ],
)
def test_a_look_at_the_numbers_is_an_error(function: Any) -> None:
    with pytest.raises(TypeError, match="recorded function"):
        record(function, 1)


def test_a_plan_uses_the_places_of_values_again_and_hands_out_each_result_once_known() -> None:
    def chain(inputs: Sequence[Any]) -> list[Any]:
        values = [inputs[0]]
        for n in range(20):
            values.append(values[-1] * values[-1] % 97 + n)
        return [values[20], values[10], values[10], values[0], 4]

    tape = record(chain, 1)
    array = np.arange(1, 6)
    order = [place for place, _ in tape.varying([array])]
    assert order == [3, 1, 2, 0], "an input first, then in the order of the operations"
    assert sum(value is None for value in tape.plan.slots[1:]) == 1, "one value at a time"
    for found, expected in zip(tape.replay([array]), chain([array]), strict=True):
        np.testing.assert_array_equal(found, expected)
    with pytest.raises(ValueError, match="2 arrays for a tape of 1"):
        tape.replay([array, array])


def test_operations_that_were_noted_before_differ_by_sides_types_and_signs() -> None:
    def function(inputs: Sequence[Any]) -> list[Any]:
        a, b = inputs
        sides = [a - 2, 2 - a, a - b, b - a, a / b, b / a]
        types = [a * 2, a * 2.0, 2 * a, a * 1, a * 1.0, a + 0.0, a / -0.0, a / 0.0]
        return [*sides, *types, minimum(a, b), maximum(2, b), maximum(b, 2.0), minimum(3, 4)] * 2

    tape = record(function, 2)
    arrays = [np.array([1, 2, 5]), np.array([4, 2, 1])]
    with np.errstate(divide="ignore"):
        pairs = zip(tape.replay(arrays), function(arrays), strict=True)
    for found, expected in pairs:
        np.testing.assert_array_equal(found, expected)
        assert np.asarray(found).dtype == np.asarray(expected).dtype
    assert len(tape.plan.functions) == 15


def test_extremes_and_numbers_are_those_of_the_function() -> None:
    def function(inputs: Sequence[Any]) -> list[Any]:
        a, b = inputs
        real = a / 2.0
        both = maximum(real, 1.0) + minimum(0.5, b)
        return [both * 1.0, maximum(2, a), np.maximum(0.0, real[None]), np.where(a > 2, 1.0, real)]

    tape = record(function, 2)
    for length in (0, 1, 7):
        arrays = [np.arange(length), np.arange(length)[::-1] - 2]
        for found, expected in zip(tape.replay(arrays), function(arrays), strict=True):
            np.testing.assert_array_equal(found, expected)
            assert found.dtype == expected.dtype
            assert found.shape == expected.shape


def test_an_operand_that_is_read_twice_is_given_up_once() -> None:
    def function(inputs: Sequence[Any]) -> list[Any]:
        square = (inputs[0] + 1) * (inputs[0] + 1)
        return [square - 3, square * inputs[0] + 5]

    values = [np.arange(4)]
    for found, expected in zip(record(function, 1).replay(values), function(values), strict=True):
        np.testing.assert_array_equal(found, expected)
