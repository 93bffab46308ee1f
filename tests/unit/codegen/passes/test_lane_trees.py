"""Lanes of a vector are combined by halves."""

from __future__ import annotations

import re

import numpy as np
import pytest

from codegen.build import emit
from codegen.passes.lane_trees import lane_trees
from sketch.dag.dag import ComputeDAG
from sketch.lang import reducers
from sketch.lang.tensor import compute, placeholder, reduce_axis
from sketch.lower import lower
from sketch.nest.loopnest import Loop, LoopKind, LoopNest
from sketch.nest.walk import walk
from sketch.operators import reduction
from sketch.oracle.reference import reference
from sketch.population.population import sample
from sketch.rules.generate import generate
from tests.support.compiled import run_compiled
from tests.support.cpu_targets import runnable
from tests.support.workloads import random_inputs

TARGET = runnable()[0]
REDUCERS = {
    "sum": reducers.sum, "max": reducers.max, "min": reducers.min, "prod": reducers.prod,
}  # fmt: skip


def _of_rows(name: str, columns: int, dtype: str = "float32") -> ComputeDAG:
    """What each row is reduced to, added to all of its elements."""
    data, k = placeholder((5, columns), name="X", dtype=dtype), reduce_axis(columns, "k")
    row = compute((5,), lambda i: REDUCERS[name](data[i, k], k), name="R")
    return ComputeDAG([compute((5, columns), lambda i, j: data[i, j] + row[i], name="Y")])


def _trees(nest: LoopNest) -> int:
    """How many loops of reductions are vectors."""
    loops = [node for node in walk(nest.roots) if isinstance(node, Loop)]
    return sum(n.axis_kind == "reduce" and n.kind is LoopKind.VECTORIZED for n in loops)


def _check(dag: ComputeDAG) -> int:
    rng = np.random.default_rng(3)
    inputs = random_inputs(dag, rng)
    expected = reference(dag, inputs, rng)
    trees = 0
    for sketch in generate(dag, TARGET):
        row = sample(sketch, 1, rng).row(0)
        trees += _trees(lane_trees(lower(sketch, row), TARGET))
        outputs = run_compiled(sketch, row, inputs, TARGET)
        shaped = {t.name: outputs[t.name].reshape(t.shape) for t in dag.outputs}
        assert expected.check(shaped) <= 1e-5, sketch.key
    return trees


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
@pytest.mark.parametrize("name", REDUCERS)
def test_rows_are_reduced_by_trees(name: str, dtype: str) -> None:
    assert _check(_of_rows(name, 150, dtype)) > 0


@pytest.mark.parametrize("rows", [1, 2, 3, 16, 33])
@pytest.mark.parametrize("name", REDUCERS)
def test_lanes_of_several_rows_are_reduced(name: str, rows: int) -> None:
    """Each row has its tree where the loop over them is unrolled."""
    data = placeholder((rows, 8), name="X")
    i, j = reduce_axis(rows, "i"), reduce_axis(8, "j")
    whole = compute((), lambda: REDUCERS[name](data[i, j], (i, j)), name="Y")
    assert _check(ComputeDAG([whole])) > 0


def test_a_position_is_that_of_the_first_maximum() -> None:
    data = placeholder((4, 200), name="X")
    index, top = reduction.argmax(data, 1, True, "R")
    far = compute((4, 200), lambda i, j: data[i, j] - top[i, 0] + index[i, 0], name="Y")
    assert _check(ComputeDAG([far])) > 0


def test_a_nan_reaches_the_maximum_of_its_row() -> None:
    dag = _of_rows("max", 150)
    data = np.random.default_rng(0).standard_normal((5, 150)).astype(np.float32)
    data[1, 37] = data[3, 149] = np.nan
    for sketch in generate(dag, TARGET):
        row = sample(sketch, 1, np.random.default_rng(1)).row(0)
        found = run_compiled(sketch, row, {"X": data}, TARGET)["Y"].reshape(5, 150)
        assert np.isnan(found).all(axis=1).tolist() == [False, True, False, True, False]


def test_what_is_left_of_a_vector_is_moved_down_to_be_combined() -> None:
    dag = _of_rows("max", 150)
    found = []
    for sketch in generate(dag, TARGET):
        nest = lower(sketch, sample(sketch, 1, np.random.default_rng(2)).row(0))
        if _trees(lane_trees(nest, TARGET)):
            text = emit(nest, TARGET, "kernel").text
            halves = re.findall(r"shufflevector .* poison, <\d+ x i32> <i32 [1-9]", text)
            found.append(len(halves))
    assert found
    assert all(found)
