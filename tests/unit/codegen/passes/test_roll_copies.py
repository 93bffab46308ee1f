"""Copies of what is in memory are trips; what registers or shared reads ask for stays straight."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from codegen.host import cpu_target
from codegen.passes.clip import clip
from codegen.passes.roll_copies import roll_copies
from sketch.lang.expr import Expr, binary
from sketch.nest.interpreter import run_nest
from sketch.nest.loopnest import (
    AffineValue,
    Allocate,
    BufferLoad,
    Loop,
    LoopKind,
    LoopNest,
    LoopVar,
    Node,
    Predicate,
    Scope,
    Store,
)
from sketch.nest.walk import stores, walk
from sketch.target.target import Target
from tests.support.nests import (
    PARALLEL,
    SERIAL,
    UNROLLED,
    VECTORIZED,
    dense,
    execute,
    loop,
    plus,
)

TARGET = Target("cpu", "invented", vector_bytes=16, registers=16, fma_accumulators=4)
N, R, V, LANE = (LoopVar(name) for name in ("n", "r", "v", "lane"))
X = dense("x", (9, 8), Scope.INPUT)
B = dense("b", (8,), Scope.INPUT)
OUT = dense("out", (9, 8), Scope.OUTPUT)
ROW, COLUMN = plus(N, R), plus(V, LANE)
READ, BIAS = BufferLoad(X, (ROW, COLUMN)), BufferLoad(B, (COLUMN,))


def rows(value: Expr, vectors: int = 2) -> LoopNest:
    """out[n + r, v + lane] = value, four rows at a time, those of nine that are there."""
    store = Store((OUT,), (ROW, COLUMN), (value,), None, (Predicate(ROW, 0, 9),))
    inside = loop(V, vectors, UNROLLED, loop(LANE, 4, VECTORIZED, store), step=4)
    body = loop(R, 4, UNROLLED, inside)
    return LoopNest("rows", (X, B, OUT), (), (loop(N, 3, PARALLEL, body, step=4),))


def kinds(nest: LoopNest) -> dict[LoopVar, LoopKind]:
    return {node.var: node.kind for node in walk(nest.roots) if isinstance(node, Loop)}


def test_rows_of_what_is_in_memory_are_trips_that_their_end_clips() -> None:
    nest = rows(binary("max", binary("add", READ, BIAS), 0.0))
    after = clip(roll_copies(nest, TARGET))
    assert kinds(after) == {**kinds(nest), R: SERIAL}
    assert not [p for store, _ in stores(after.roots) for p in store.predicates]


@pytest.mark.parametrize(
    "value",
    [
        binary("mul", READ, binary("div", 1.0, BIAS)),  # all rows share the division
        binary("add", READ, BufferLoad(X, (plus(N), COLUMN))),  # one that is read already
        binary("mul", READ, binary("add", AffineValue(ROW), 1)),  # a literal of its row
    ],
    ids=["shared", "read_again", "place"],
)
def test_what_rows_share_or_know_stays_as_it_is(value: Expr) -> None:
    nest = rows(value)
    assert roll_copies(nest, TARGET).roots is nest.roots


def test_a_trip_of_one_statement_stays_a_copy() -> None:
    nest = rows(binary("add", READ, BIAS), vectors=1)
    assert roll_copies(nest, TARGET).roots is nest.roots


def test_registers_stay_straight_line_code() -> None:
    tile = dense("tile", (4, 8), Scope.LOCAL)
    there, k = (plus(R), COLUMN), LoopVar("k")

    def copies(inner: Callable[[], Node]) -> Node:
        return loop(
            R, 4, UNROLLED, loop(V, 2, UNROLLED, loop(LANE, 4, VECTORIZED, inner()), step=4)
        )

    fill = copies(lambda: Store((tile,), there, (BIAS,)))
    back = copies(lambda: Store((OUT,), (ROW, COLUMN), (BufferLoad(tile, there),)))
    body = Allocate(tile, (fill, loop(k, 5, SERIAL, fill), back))
    nest = LoopNest("kept", (X, B, OUT), (), (loop(N, 2, PARALLEL, body, step=4),))
    assert roll_copies(nest, TARGET).roots is nest.roots


def test_rolled_copies_compute_the_same(rng: np.random.Generator) -> None:
    nest = rows(binary("max", binary("add", READ, BIAS), 0.0))
    assert roll_copies(nest, TARGET).roots is not nest.roots
    arrays = {b.name: rng.standard_normal(b.shape).astype("float32") for b in (X, B)}
    expected = np.maximum(arrays["x"] + arrays["b"], 0.0)
    after = run_nest(roll_copies(nest, TARGET), arrays)
    for found in (*after.values(), execute(nest, arrays, cpu_target("cpu", threads=1))["out"]):
        np.testing.assert_array_equal(found.reshape(9, 8), expected)
