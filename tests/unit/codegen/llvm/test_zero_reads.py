"""What a guarded read gives where its guard fails is 0 already, and is not chosen again."""

from __future__ import annotations

import numpy as np
import pytest

from codegen.build import emit
from codegen.host import host_target
from sketch.lang.expr import Const, Select, binary
from sketch.nest.loopnest import AffineValue, BufferLoad, LoopNest, LoopVar, Scope, Store
from tests.support.nests import SERIAL, VECTORIZED, dense, execute, loop, plus

ROWS, LANES = 6, host_target(1).lanes()  # one vector a row, whatever the machine


def shifted(shift: int, first: int, fill: float) -> LoopNest:
    """``y[i, c] = select(i >= first, x[i - shift, c], fill)``."""
    i, c = LoopVar("i"), LoopVar("c")
    x, y = dense("x", (ROWS, LANES), Scope.INPUT), dense("y", (ROWS, LANES), Scope.OUTPUT)
    test = binary("ge", AffineValue(plus(i)), Const(first, "int64"))
    read = BufferLoad(x, (plus(i, const=-shift), plus(c)))
    statement = Store((y,), (plus(i), plus(c)), (Select(test, read, Const(fill, "float32")),))
    lanes = loop(c, LANES, VECTORIZED, statement)
    return LoopNest("shifted", (x, y), (), (loop(i, ROWS, SERIAL, lanes),))


def choices(nest: LoopNest) -> int:
    """Vectors that are chosen lane by lane."""
    text = emit(nest, host_target(1), "f").text
    return sum(f"select <{LANES} x i1>" in line for line in text.splitlines())


@pytest.mark.parametrize(
    ("shift", "first", "fill", "chosen"),
    [
        (1, 1, 0.0, False),
        (2, 3, 0.0, False),  # the guard is stricter than what the bounds need
        (1, 1, -0.0, True),
        (1, 1, 1.5, True),
        (0, 3, 0.0, True),  # read in any case: no place is outside
    ],
)
def test_zeros_are_chosen_only_where_they_were_not_read(
    shift: int, first: int, fill: float, chosen: bool
) -> None:
    nest = shifted(shift, first, fill)
    x = np.arange(1, 1 + ROWS * LANES, dtype=np.float32).reshape(ROWS, LANES)
    expected = np.full((ROWS, LANES), fill, np.float32)
    expected[first:] = x[first - shift : ROWS - shift]
    result = execute(nest, {"x": x}, host_target(1))["y"].reshape(ROWS, LANES)
    np.testing.assert_array_equal(result, expected)
    np.testing.assert_array_equal(np.signbit(result), np.signbit(expected))
    assert bool(choices(nest)) == chosen


def test_equal_operations_are_written_once_in_a_block() -> None:
    c = LoopVar("c")
    x = dense("x", (LANES,), Scope.INPUT)
    outputs = tuple(dense(name, (LANES,), Scope.OUTPUT) for name in "yz")
    stores = []
    for output in outputs:
        product = binary("mul", BufferLoad(x, (plus(c),)), Const(3.0, "float32"))
        stores.append(Store((output,), (plus(c),), (product,)))
    lanes = loop(c, LANES, VECTORIZED, *stores)
    nest = LoopNest("twice", (x, *outputs), (), (loop(LoopVar("o"), 1, SERIAL, lanes),))
    text = emit(nest, host_target(1), "f").text
    assert text.count("fmul") == 1
    values = np.arange(LANES, dtype=np.float32)
    for result in execute(nest, {"x": values}, host_target(1)).values():
        np.testing.assert_array_equal(result, 3 * values)


def test_a_branch_reuses_what_is_known_outside_of_it() -> None:
    c = LoopVar("c")
    x, y = dense("x", (LANES,), Scope.INPUT), dense("y", (LANES,), Scope.OUTPUT)
    read = BufferLoad(x, (plus(c),))
    rest = binary("trunc_mod", read, Const(3.0, "float32"))  # a function of its own
    test = binary("gt", rest, Const(1.0, "float32"))
    again = binary("sub", binary("mul", rest, rest), BufferLoad(x, (plus(c),)))
    value = Select(test, again, binary("add", rest, read))
    lanes = loop(c, LANES, VECTORIZED, Store((y,), (plus(c),), (value,)))
    nest = LoopNest("shared", (x, y), (), (loop(LoopVar("o"), 1, SERIAL, lanes),))
    text = emit(nest, host_target(1), "f").text
    assert text.count(f"call <{LANES} x float> @near.fmodf") == 1
    values = np.arange(LANES, dtype=np.float32) * 1.75
    left = np.fmod(values, np.float32(3))
    expected = np.where(left > 1, left * left - values, left + values)
    (result,) = execute(nest, {"x": values}, host_target(1)).values()
    np.testing.assert_allclose(result.ravel(), expected, rtol=1e-6)


def test_what_both_branches_need_is_computed_once() -> None:
    """Also where it is a branch of a branch that needs it."""
    c = LoopVar("c")
    x, y, z = (dense(name, (LANES,), Scope.INPUT) for name in "xyz")
    result = dense("result", (LANES,), Scope.OUTPUT)
    one, two = (BufferLoad(buffer, (plus(c),)) for buffer in (x, y))
    rest = binary("trunc_mod", one, two)
    sometimes = BufferLoad(z, (plus(c),))
    positive = binary("gt", one, Const(0.0, "float32"))
    small = binary("lt", two, Const(2.0, "float32"))
    inner = Select(small, binary("mul", rest, sometimes), binary("sub", rest, two))
    value = Select(positive, binary("add", rest, one), inner)
    lanes = loop(c, LANES, VECTORIZED, Store((result,), (plus(c),), (value,)))
    nest = LoopNest("both", (x, y, z, result), (), (loop(LoopVar("o"), 1, SERIAL, lanes),))
    text = emit(nest, host_target(1), "f").text
    assert text.count(f"call <{LANES} x float> @near.fmodf") == 1
    numbers = np.arange(LANES, dtype=np.float32)
    data = {"x": 2.75 * numbers - 9, "y": np.float32(1.5) + numbers % 2, "z": numbers + 3}
    left = np.fmod(data["x"], data["y"])
    expected = np.where(data["y"] < 2, left * data["z"], left - data["y"])
    expected = np.where(data["x"] > 0, left + data["x"], expected)
    (found,) = execute(nest, data, host_target(1)).values()
    np.testing.assert_allclose(found.ravel(), expected, rtol=1e-6)
