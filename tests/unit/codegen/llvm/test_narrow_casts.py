"""Vectors of floats become vectors of integers: LLVM's saturating casts work lane by lane."""

import numpy as np
import pytest

import autosched as asd
from codegen.build import emit
from sketch.dag.dag import ComputeDAG
from sketch.lang.expr import cast
from sketch.lower import lower
from sketch.oracle.interpret import interpret
from sketch.population.population import sample
from sketch.rules.generate import generate
from tests.support.compiled import run_compiled
from tests.support.cpu_targets import runnable

INTEGERS = ("uint8", "int8", "int16", "int32", "int64")


@pytest.mark.parametrize("source", ["float32", "float64"])
@pytest.mark.parametrize("dtype", INTEGERS)
def test_saturating_casts_of_vectors(dtype: str, source: str) -> None:
    x = asd.placeholder((96,), source, name="x")
    dag = ComputeDAG([asd.compute((96,), lambda i: cast(x[i], dtype), name="y")])
    target = runnable()[0]
    for sketch in generate(dag, target):
        row = sample(sketch, 1, np.random.default_rng(0)).row(0)
        text = emit(lower(sketch, row), target, "f").text
        assert "fptosi <" in text
        assert ".sat." not in text


@pytest.mark.parametrize("source", ["float32", "float64"])
@pytest.mark.parametrize("dtype", INTEGERS)
def test_limits_of_integers(dtype: str, source: str) -> None:
    """Next to both limits, far beyond them, of both infinities, NaN, and fractions."""
    limits = [np.array(n, source) for n in (np.iinfo(dtype).min, np.iinfo(dtype).max)]
    near = [np.nextafter(n, toward) for n in limits for toward in (np.inf, -np.inf, 0)]
    others = np.nan, np.inf, -np.inf, -0.0, -0.75, 254.75, -255.5, 1e30, -1e30
    values = np.zeros(96, source)
    some = np.array([*limits, *near, *others], source)
    values[: some.size], values[-some.size :] = some, some
    x = asd.placeholder((96,), source, name="x")
    dag = ComputeDAG([asd.compute((96,), lambda i: cast(x[i], dtype), name="y")])
    expected = interpret(dag, {"x": values})["y"]
    for target in runnable():
        for sketch in generate(dag, target):
            row = sample(sketch, 1, np.random.default_rng(0)).row(0)
            found = run_compiled(sketch, row, {"x": values}, target)["y"]
            np.testing.assert_array_equal(found, expected)


def test_floats_that_are_bytes_for_a_moment_stay_floats() -> None:
    """Limits, fractions, signs of zero and NaN are those of the two casts."""
    x = asd.placeholder((96,), name="x")
    both = asd.compute((96,), lambda i: cast(cast(x[i], "uint8"), "float32"), name="y")
    target = runnable()[0]
    (sketch, *_) = generate(ComputeDAG([both]), target)
    row = sample(sketch, 1, np.random.default_rng(0)).row(0)
    assert "fptosi <" not in emit(lower(sketch, row), target, "f").text
    values = np.linspace(-300, 700, 96).astype(np.float32)
    values[:8] = np.nan, np.inf, -np.inf, -0.0, -0.75, 254.75, 255.5, 1e30
    found = run_compiled(sketch, row, {"x": values}, target)["y"]
    expected = np.trunc(np.nan_to_num(values, nan=0.0, posinf=1e9).clip(0, 255))
    np.testing.assert_array_equal(found, expected)
    assert not np.signbit(found).any()
