"""Stores of some lanes: as parts of a vector, and lane indices of several widths in one block."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from codegen.build import emit
from codegen.host import cpu_target
from codegen.llvm.part_stores import lanes_of, parts_of
from sketch.lang.expr import Cast, Const, Expr, Select, binary
from sketch.nest.loopnest import (
    AffineValue,
    Buffer,
    BufferLoad,
    Loop,
    LoopNest,
    LoopVar,
    Predicate,
    Scope,
    Store,
)
from sketch.target.target import Target
from tests.support.cpu_targets import instruction_sets
from tests.support.nests import SERIAL, UNROLLED, VECTORIZED, dense, execute, loop, plus
from tests.support.targets import AVX512

AVX2 = cpu_target("cpu-avx2", 1)


@pytest.mark.parametrize(
    "text, most, parts",
    [
        ("11111110", 8, [(0, 4), (4, 2), (6, 1)]),
        ("01110000", 8, [(1, 2), (3, 1)]),
        ("1111111111111100", 8, [(0, 8), (8, 4), (12, 2)]),
        ("10010000", 8, [(0, 1), (3, 1)]),
        ("0000", 4, []),
    ],
)
def test_parts_cover_the_lanes_that_are_stored(
    text: str, most: int, parts: list[tuple[int, int]]
) -> None:
    lanes = [digit == "1" for digit in text]
    assert list(parts_of(lanes, most)) == parts
    literal = "<" + ", ".join(f"i1 {str(lane).lower()}" for lane in lanes) + ">"
    assert lanes_of(literal) == lanes


def test_a_mask_that_is_computed_has_no_known_lanes() -> None:
    assert lanes_of("%mask") is None and lanes_of(None) is None


def cut(columns: int, lanes: int, dtype: str) -> LoopNest:
    """``y[i, c] = x[i, c]``: the last vector of a row has lanes outside of it."""
    i, c = LoopVar("i"), LoopVar("c")
    x = dense("x", (4, columns), Scope.INPUT, dtype)
    y = dense("y", (4, columns), Scope.OUTPUT, dtype)
    read, inside = BufferLoad(x, (plus(i), plus(c))), (Predicate(plus(c), 0, columns),)
    statement = Store((y,), (plus(i), plus(c)), (read,), None, inside)
    inner = loop(c, lanes, VECTORIZED, statement)
    return LoopNest("cut", (x, y), (), (loop(i, 4, SERIAL, inner),))


@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "bool", "float16"])
@pytest.mark.parametrize("columns", [3, 5, 6, 7, 11, 13])
@pytest.mark.parametrize("target", instruction_sets(), ids=lambda target: target.arch)
def test_parts_are_stored_and_nothing_else(target: Target, columns: int, dtype: str) -> None:
    """Between pages that are not mapped, and where the next row begins in what is left out."""
    nest = cut(columns, 8 if columns < 8 else 16, dtype)
    x = (np.arange(4 * columns) % 2 if dtype == "bool" else np.arange(4 * columns)).astype(dtype)
    (y,) = execute(nest, {"x": x.reshape(4, columns)}, target).values()
    np.testing.assert_array_equal(y, x)


@pytest.mark.parametrize(("target", "masked"), [(AVX2, False), (AVX512, True)])
def test_masked_stores_are_for_processors_that_have_fast_ones(target: Target, masked: bool) -> None:
    text = emit(cut(7, 8, "float32"), target, "f").text
    assert ("masked.store" in text) == masked


def numbered(outer: LoopVar, lanes: int, limit: int | None = None) -> tuple[Buffer, Loop]:
    """``y[i, c] = c``, or 1 where ``i + c < limit``; ``lanes`` columns."""
    c = LoopVar("c")
    y = dense(f"y{lanes}", (4, lanes), Scope.OUTPUT)
    if limit is None:
        value: Expr = Cast(AffineValue(plus(c)), "float32")
    else:
        test = binary("lt", AffineValue(plus(outer, c)), Const(limit, "int64"))
        value = Select(test, Const(1.0, "float32"), Const(0.0, "float32"))
    return y, loop(c, lanes, VECTORIZED, Store((y,), (plus(outer), plus(c)), (value,)))


def test_lane_numbers_of_several_widths_in_one_block() -> None:
    i = LoopVar("i")
    (first, eight), (second, four) = numbered(i, 8), numbered(i, 4)
    nest = LoopNest("widths", (first, second), (), (loop(i, 4, SERIAL, eight, four),))
    for name, found in execute(nest, {}, AVX2).items():
        np.testing.assert_array_equal(found, np.tile(np.arange(int(name[1:])), 4))


def test_positions_are_compared_and_converted_in_lanes_of_four_bytes() -> None:
    i = LoopVar("i")
    y, body = numbered(i, 8, limit=7)
    nest = LoopNest("positions", (y,), (), (loop(i, 4, SERIAL, body),))
    (found,) = execute(nest, {}, AVX2).values()
    expected = np.add.outer(np.arange(4), np.arange(8)) < 7
    np.testing.assert_array_equal(found.reshape(4, 8), expected)
    assert "<8 x i64>" not in emit(nest, AVX2, "f").text


def test_a_line_is_fetched_once() -> None:
    i, v, c = LoopVar("i"), LoopVar("v"), LoopVar("c")
    x = replace(dense("x", (4, 16), Scope.INPUT), ahead=64)
    y, place = dense("y", (4, 16), Scope.OUTPUT), (plus(i), plus(v, c))
    vector = loop(c, 8, VECTORIZED, Store((y,), place, (BufferLoad(x, place),)))
    row = loop(v, 2, UNROLLED, vector, step=8)
    nest = LoopNest("ahead", (x, y), (), (loop(i, 4, SERIAL, row),))
    assert emit(nest, AVX2, "f").text.count("call void @llvm.prefetch") == 1
    values = np.arange(64, dtype=np.float32)
    (found,) = execute(nest, {"x": values.reshape(4, 16)}, AVX2).values()
    np.testing.assert_array_equal(found, values)
