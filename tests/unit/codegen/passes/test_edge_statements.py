"""Several statements in a loop that edges cut: one may have instances where another has none."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from codegen.passes.clip import clip
from codegen.passes.simplify import simplify
from codegen.passes.specialize import specialize
from sketch.lang.affine import UNBOUNDED
from sketch.nest.interpreter import run_nest
from sketch.nest.loopnest import BufferLoad, LoopNest, LoopVar, Node, Predicate, Scope, Store
from sketch.target.target import Target
from tests.support.nests import (
    PARALLEL,
    SERIAL,
    UNROLLED,
    conv_arrays,
    dense,
    loop,
    plus,
    reducer,
)

TARGET = Target("cpu", "invented", vector_bytes=16, registers=16, fma_accumulators=4)
EXTENT, TILE, TAPS = 12, 4, 5


def windows(channels: int, sums: Sequence[tuple[int, int]]) -> LoopNest:
    """``y[i] += x[i + k, c] where least <= i + k``, for each (rows of a tile, least) one such sum,
    all in one loop.
    """
    i, k, c = LoopVar("i"), LoopVar("k"), LoopVar("c")
    x = dense("x", (EXTENT + TAPS, channels), Scope.INPUT)
    outputs, zeros, updates = [], [], []
    for number, (rows, least) in enumerate(sums):
        r, y = LoopVar(f"r{number}"), dense(f"y{number}", (EXTENT,), Scope.OUTPUT)
        at, inside = (plus(i, r),), (Predicate(plus(i, r, k), least, UNBOUNDED),)
        term = BufferLoad(x, (plus(i, r, k), plus(c)))
        outputs.append(y)
        zeros.append(loop(r, rows, UNROLLED, Store((y,), at, (reducer().identity[0],))))
        updates.append(loop(r, rows, UNROLLED, Store((y,), at, (term,), reducer(), inside)))
    added: Node = loop(c, channels, SERIAL, *updates, reduce=True)
    body = (*zeros, loop(k, TAPS, SERIAL, added, reduce=True))
    tiles = loop(i, EXTENT // TILE, PARALLEL, *body, step=TILE)
    return LoopNest("windows", (x, *outputs), (), (tiles,))


@pytest.mark.parametrize("channels", [3, 16])  # taps become straight-line code; or are shared
@pytest.mark.parametrize(
    "sums",
    [[(4, 4), (2, 4)], [(2, 4), (4, 4)], [(4, 4), (4, -9)], [(4, -9), (2, 4)], [(4, 4), (4, 2)]],
)
def test_no_statement_loses_trips_of_another(
    channels: int, sums: list[tuple[int, int]], rng: np.random.Generator
) -> None:
    nest = windows(channels, sums)
    arrays = conv_arrays(nest, rng)
    expected = run_nest(nest, arrays)
    found = run_nest(specialize(clip(simplify(nest)), TARGET), arrays)
    for name, values in expected.items():
        np.testing.assert_allclose(found[name], values, rtol=1e-5, atol=1e-5)
