"""Loops over the terms of a shared tile: written out where that is short, the same results."""

from __future__ import annotations

import numpy as np
import pytest

from codegen.cuda.build import prepare
from sketch.nest.interpreter import run_nest
from sketch.nest.loopnest import Loop, LoopKind, LoopNest
from sketch.nest.walk import stores, walk
from sketch.oracle.interpret import interpret
from sketch.population.written_out_gpu import loads_of, written_out
from tests.support.cuda_programs import MATMUL_ROW, SMALL_ROW, matmul_nest, row_of
from tests.support.workloads import matmul_dag, random_inputs


def serial_loops(nest: LoopNest) -> list[str]:
    loops = (node for node in walk(prepare(nest).roots) if isinstance(node, Loop))
    return [loop.var.name for loop in loops if loop.kind is LoopKind.SERIAL]


@pytest.mark.parametrize(
    ("copies", "loads", "serial", "trips"),
    [
        (64, 16, [8], [8]),
        (64, 16, [17], [1]),
        (64, 16, [4, 4, 2], [4, 4, 1]),
        (64, 16, [4, 8, 2], [4, 1, 1]),
        (8, 9, [64], [64]),
        (8, 9, [128], [1]),  # few results of a thread: each term loads as many elements
    ],
)
def test_loops_are_written_out_from_the_inside(
    copies: int, loads: int, serial: list[int], trips: list[int]
) -> None:
    assert [int(count) for count in written_out(copies, loads, serial)] == trips


def test_loads_are_counted_once_for_copies_that_share_them() -> None:
    """Rows of one operand, columns of the other: 4 and 2 for 8 results."""
    nest = matmul_nest((32, 32, 32))
    store = next(s for s, _ in stores(nest.roots) if s.reducer is not None)
    spatial = {loop.var for _, loops in stores(nest.roots) for loop in loops}
    rows = next(var for var in spatial if var.name == "C.local.i.0")
    columns = next(var for var in spatial if var.name == "C.local.j.0")
    assert loads_of(store, {rows: 4, columns: 2}) == 4 + 2


@pytest.mark.parametrize(("inner", "left"), [(32, 1), (128, 2)])
def test_a_short_tile_has_no_loop_inside(inner: int, left: int) -> None:
    row = {**MATMUL_ROW, **row_of({"C.local.k@1": inner, "C.local.k@2": 2})}
    assert len(serial_loops(matmul_nest((32, 32, 512), row))) == left


def test_a_tile_that_reaches_beyond_its_axis_has_none_either() -> None:
    """Its zeros are multiplied, too."""
    row = {**MATMUL_ROW, **row_of({"C.local.k@1": 4, "C.local.k@2": 2})}
    assert serial_loops(matmul_nest((32, 32, 21), row)) == ["C.local.k.0"]


def test_results_stay(rng: np.random.Generator) -> None:
    dag = matmul_dag(8, 8, 8)
    row = {**SMALL_ROW, **row_of({"C.local.k@1": 4})}
    inputs = random_inputs(dag, rng)
    found = run_nest(prepare(matmul_nest((8, 8, 8), row)), inputs)["C"].reshape(8, 8)
    np.testing.assert_allclose(found, interpret(dag, inputs)["C"], rtol=1e-5, atol=1e-5)
