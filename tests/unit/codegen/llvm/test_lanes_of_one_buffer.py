"""Loops with other numbers of lanes that read the same elements one after the other."""

from __future__ import annotations

import numpy as np
import pytest

from sketch.dag.dag import ComputeDAG
from sketch.lang.expr import cast
from sketch.lang.tensor import compute, placeholder
from sketch.operators.softmax import softmax
from sketch.oracle.reference import reference
from sketch.population.population import sample
from sketch.rules.generate import generate
from sketch.target.target import Target
from tests.support.compiled import run_compiled
from tests.support.cpu_targets import by_kind, instruction_sets, label


@pytest.mark.parametrize("target", by_kind(instruction_sets()), ids=label)
@pytest.mark.parametrize("dtype", ["float64", "float16", "int8"])
def test_a_load_is_of_as_many_lanes_as_its_loop_has(dtype: str, target: Target) -> None:
    """Rows are summed as float32, and read again by a loop of fewer or more lanes."""
    data = placeholder((3, 37), name="x")
    weights = softmax(data)
    dag = ComputeDAG([compute((3, 37), lambda i, j: cast(weights[i, j] * 100.0, dtype), name="y")])
    rng = np.random.default_rng(0)
    inputs = {"x": rng.standard_normal((3, 37), dtype=np.float32)}
    expected = reference(dag, inputs, rng)
    for sketch in generate(dag, target):
        outputs = run_compiled(sketch, sample(sketch, 1, rng).row(0), inputs, target)
        assert expected.check({"y": outputs["y"].reshape(3, 37)}) <= 1e-3, sketch.key
