"""Shared tiles end with the terms that are read: the same results, terms without tests."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np
import pytest

from codegen.cuda.build import prepare
from codegen.cuda.passes.end_tiles import end_tiles
from codegen.cuda.passes.narrow_guards import narrow_guards
from codegen.passes.simplify import simplify
from sketch.dag.dag import ComputeDAG
from sketch.lower import lower
from sketch.nest.interpreter import run_nest
from sketch.nest.loopnest import LoopKind, LoopNest, Scope
from sketch.nest.walk import stores
from sketch.oracle.interpret import interpret
from sketch.rules.generate import generate
from sketch.schedule.steps import SplitReduce
from sketch.target.gpu_targets import cuda_target
from tests.support.cuda_programs import feasible_nests, feasible_rows, row_of
from tests.support.workloads import conv2d_bare, conv2d_relu, matmul_dag, random_inputs

FEW = replace(cuda_target("h200"), threads=2)


def split_nests(dag: ComputeDAG, tile: Mapping[str, int] | None = None) -> Iterator[LoopNest]:
    """Rows of the sketches with a split reduction, with some decisions replaced."""
    for sketch in generate(dag, FEW):
        if any(isinstance(step, SplitReduce) for step in sketch.steps):
            rows = feasible_rows(sketch, 1, np.random.default_rng(0))
            for n in range(rows.count):
                yield lower(sketch, rows.row(n) | row_of(tile or {}, sketch))


def test_terms_of_parts_with_tails_are_not_tested() -> None:
    """Parts of 25 terms in tiles of 8, each by blocks of its own."""
    tile = {"C.local.rf.local.k_chunk@1": 2, "C.local.rf.local.k_chunk@2": 4}
    tile |= {f"C.local.rf.k_part@{level}": 1 for level in range(1, 5)}
    nests = list(split_nests(matmul_dag(16, 32, 200), tile))
    assert nests
    for nest in nests:
        for store, _ in stores(prepare(nest).roots[:1]):
            assert store.reducer is None or not store.predicates


@pytest.mark.parametrize(
    "dag", [matmul_dag(9, 8, 37), conv2d_relu(5, 3, 4, 3, 2), conv2d_bare(4, 18, 4)]
)
def test_results_are_the_same(dag: ComputeDAG) -> None:
    inputs = random_inputs(dag, np.random.default_rng(0))
    expected = interpret(dag, inputs)
    rng = np.random.default_rng(1)
    for nest in (*feasible_nests(dag, 1, rng, FEW), *split_nests(dag)):
        found = run_nest(end_tiles(narrow_guards(simplify(nest))), inputs)
        for name, value in expected.items():
            np.testing.assert_allclose(found[name].reshape(value.shape), value, atol=1e-4)


@pytest.mark.parametrize("dag", [conv2d_bare(11, 9, 7, 2), conv2d_relu(11, 9, 7, 3, 2)])
def test_no_end_is_of_one_thread_alone(dag: ComputeDAG) -> None:
    """What one thread reads of a tile is not all that is read of it."""
    for nest in feasible_nests(dag, 8, np.random.default_rng(2), FEW):
        for store, loops in stores(end_tiles(narrow_guards(simplify(nest))).roots):
            if store.targets[0].scope is not Scope.SHARED:
                continue
            filled = {loop.var for loop in loops if loop.var.name.startswith(store.targets[0].name)}
            threads = {p.var for p in loops if p.kind in (LoopKind.THREAD, LoopKind.VTHREAD)}
            for guard in store.predicates:
                assert not {var for var, _ in guard.index.terms} & (threads - filled)
