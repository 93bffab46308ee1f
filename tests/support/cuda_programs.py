"""Feasible rows of GPU sketches, lowered, for tests of CUDA code."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache

import numpy as np

from codegen.cuda.build import emit
from codegen.cuda.kernel import CudaSource
from sketch.dag.dag import ComputeDAG
from sketch.lower import lower
from sketch.lower.packing import Preparation, preparations
from sketch.nest.loopnest import LoopNest
from sketch.population.feasible import feasible
from sketch.population.population import Population, sample
from sketch.rules.generate import generate
from sketch.schedule.decision import DecisionId
from sketch.schedule.sketch import Sketch
from sketch.target.gpu_targets import cuda_target
from sketch.target.target import Target
from tests.support.workloads import matmul_dag

GPU = cuda_target("sm_90")


def row_of(printed: Mapping[str, int], sketch: Sketch | None = None) -> dict[DecisionId, int]:
    """Values by decisions as ``sketch`` prints them; None: that of a matrix product."""
    known = _matmul_sketch() if sketch is None else sketch
    return {known.decision(name): value for name, value in printed.items()}


@cache
def _matmul_sketch() -> Sketch:
    return generate(matmul_dag(16, 16, 16), GPU)[0]


# Tails along all axes, virtual threads along i, two levels of k inside a shared tile.
MATMUL = (20, 22, 10)
MATMUL_ROW = row_of({
    "C.i@1": 2, "C.i@2": 4, "C.i@3": 1, "C.i@4": 2,
    "C.j@1": 1, "C.j@2": 4, "C.j@3": 1, "C.j@4": 2,
    "C.local.k@1": 2, "C.local.k@2": 2,
    "C.local.k@tiles": 1, "A.cache.d1@layout": 0, "B.cache.d1@layout": 0,
})  # fmt: skip


# The same structure with 3 x 2 blocks of 4 threads, for what runs element by element.
SMALL = (9, 7, 5)
SMALL_ROW = row_of({
    "C.i@1": 2, "C.i@2": 2, "C.i@3": 1, "C.i@4": 1,
    "C.j@1": 1, "C.j@2": 2, "C.j@3": 1, "C.j@4": 2,
    "C.local.k@1": 1, "C.local.k@2": 2,
    "C.local.k@tiles": 1, "A.cache.d1@layout": 0, "B.cache.d1@layout": 0,
})  # fmt: skip


def matmul_nest(
    shape: tuple[int, int, int] = MATMUL, row: Mapping[DecisionId, int] = MATMUL_ROW
) -> LoopNest:
    """A matrix product ``(m, n, k)`` as sketch generation tiles it."""
    sketch, *_ = generate(matmul_dag(*shape), GPU)  # others split long sums
    return lower(sketch, dict(row))


def feasible_rows(sketch: Sketch, count: int, rng: np.random.Generator) -> Population:
    """Up to ``count`` random feasible rows."""
    population = sample(sketch, 16 * count, rng)
    fits = feasible(sketch, population.columns())
    return population.take(np.flatnonzero(fits)[:count])


def feasible_nests(
    dag: ComputeDAG, count: int, rng: np.random.Generator, target: Target = GPU
) -> Iterator[LoopNest]:
    """Up to ``count`` random feasible rows of every sketch for ``target``, lowered."""
    for sketch in generate(dag, target):
        population = feasible_rows(sketch, count, rng)
        for index in range(population.count):
            yield lower(sketch, population.row(index))


def prepared_sources(
    dag: ComputeDAG, rows: int, target: Target
) -> list[tuple[CudaSource, Mapping[str, Preparation]]]:
    """Random rows of every sketch, and what they want of constants ahead of time."""
    rng, found = np.random.default_rng(0), []
    for sketch in generate(dag, target):
        population = feasible_rows(sketch, rows, rng)
        for row in map(population.row, range(population.count)):
            found.append((emit(lower(sketch, row), target), preparations(sketch, row)))
    return found
