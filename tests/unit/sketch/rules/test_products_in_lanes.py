"""Sums of products whose terms lie together and whose results lie apart: lanes of terms."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from codegen.host import host_target
from sketch.dag.dag import ComputeDAG
from sketch.lang import reducers
from sketch.lang.expr import Axis, Expr
from sketch.lang.tensor import compute, placeholder, reduce_axis
from sketch.lower.lower import lower
from sketch.nest.loopnest import LoopKind
from sketch.oracle.reference import reference
from sketch.population.feasible import feasible
from sketch.population.population import sample
from sketch.rules.generate import generate
from sketch.schedule.sketch import Sketch
from sketch.schedule.steps import Rfactor
from sketch.verify import verify
from tests.support.compiled import run_compiled
from tests.support.workloads import random_inputs

TARGET = host_target(threads=2)
_TOLERANCE = 1e-5


def scores(
    heads: int, rows: int, keys: int, width: int, *, apart: bool = True, constant: bool = False
) -> ComputeDAG:
    """``scores[h, r, j] = 0.125 * sum(q[h, r, k] * K[h, j, k])``, or of ``K[h, k, j]``."""
    query = placeholder((heads, rows, width), name="q")
    shape = (heads, keys, width) if apart else (heads, width, keys)
    kept = placeholder(shape, name="K", constant=constant)
    k = reduce_axis(width, "k")

    def product(h: Axis, r: Axis, j: Axis) -> Expr:
        other = kept[h, j, k] if apart else kept[h, k, j]
        return reducers.sum(query[h, r, k] * other, axis=k)

    sums = compute((heads, rows, keys), product, "sums")
    scaled = compute(sums.shape, lambda h, r, j: sums[h, r, j] * 0.125, "scores")
    return ComputeDAG([scaled])


def in_lanes(dag: ComputeDAG) -> list[Sketch]:
    """The sketches that add terms in lanes."""
    found = generate(dag, TARGET)
    return [s for s in found if any(isinstance(step, Rfactor) for step in s.steps)]


def test_scores_of_one_row_are_added_in_lanes_of_terms() -> None:
    (sketch,) = in_lanes(scores(12, 1, 63, 64))
    last = sketch.program.stages[-1]
    partial = next(plan for plan in sketch.program.stages if plan.attach and plan.roles)
    lane = partial.loops()[-1]
    assert partial.kinds[lane] is LoopKind.VECTORIZED
    assert partial.loop_axis(lane).extent == TARGET.lanes(4)
    parallel = [last.loop_axis(x) for x, kind in last.kinds.items() if kind is LoopKind.PARALLEL]
    assert {axis.extent for axis in parallel} >= {12, 63}


@pytest.mark.parametrize(
    "dag",
    [
        scores(12, 1, 63, 64, apart=False),  # vectors of results as they lie
        scores(12, 1, 63, 64, constant=True),  # packed so
        scores(12, TARGET.lanes(4), 63, 64),  # read often
        scores(12, 1, 63, TARGET.lanes(4) - 1),  # no vector of terms
    ],
)
def test_only_where_vectors_of_results_would_be_gathered_for_few_rows(dag: ComputeDAG) -> None:
    assert not in_lanes(dag)


def test_tiles_are_offered_too() -> None:
    assert len(generate(scores(12, 1, 63, 64), TARGET)) > 1


@pytest.mark.parametrize("sizes", [(3, 1, 63, 64), (2, 3, 50, 75), (1, 1, 200, 33)])
def test_results_of_any_sizes(sizes: tuple[int, int, int, int]) -> None:
    rng, dag = np.random.default_rng(7), scores(*sizes)
    inputs = random_inputs(dag, rng)
    expected = reference(dag, inputs, rng)
    (sketch,) = in_lanes(dag)
    rows = sample(sketch, 8, rng)
    assert np.broadcast_to(feasible(sketch, rows.columns()), 8).all()
    for number in range(2):
        row = rows.row(number)
        verify(lower(sketch, row))
        outputs = run_compiled(sketch, row, inputs, TARGET)
        shaped = {name: array.reshape(sizes[:3]) for name, array in outputs.items()}
        assert expected.check(shaped) <= _TOLERANCE


def test_sums_that_nothing_reads_have_a_copy_that_does() -> None:
    query, kept, k = placeholder((64,), name="q"), placeholder((40, 64), name="K"), reduce_axis(64)
    sums = compute((40,), lambda j: reducers.sum(query[k] * kept[j, k], axis=k), "sums")
    assert in_lanes(ComputeDAG([sums]))


def test_one_lane_is_no_vector() -> None:
    found = generate(scores(12, 1, 63, 64), replace(TARGET, vector_bytes=4))
    assert not any(isinstance(step, Rfactor) for sketch in found for step in sketch.steps)
