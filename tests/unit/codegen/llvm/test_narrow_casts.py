"""Vectors of floats become vectors of integers: LLVM's saturating casts work lane by lane."""

import numpy as np
import pytest

import autosched as asd
from codegen.build import emit
from sketch.dag.dag import ComputeDAG
from sketch.lang.expr import cast
from sketch.lower import lower
from sketch.population.population import sample
from sketch.rules.generate import generate
from tests.support.cpu_targets import runnable


@pytest.mark.parametrize("dtype", ["uint8", "int8", "int16", "int32"])
def test_saturating_casts_of_vectors(dtype: str) -> None:
    x = asd.placeholder((96,), name="x")
    dag = ComputeDAG([asd.compute((96,), lambda i: cast(x[i], dtype), name="y")])
    target = runnable()[0]
    for sketch in generate(dag, target):
        row = sample(sketch, 1, np.random.default_rng(0)).row(0)
        text = emit(lower(sketch, row), target, "f").text
        assert "fptosi <" in text
        assert ".sat." not in text
