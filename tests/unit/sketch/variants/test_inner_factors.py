"""Stages that make elements wider, or round them, are computed where they are multiplied."""

from __future__ import annotations

import numpy as np
import pytest

from sketch.dag.dag import ComputeDAG
from sketch.dag.printer import print_dag
from sketch.lang.expr import cast
from sketch.lang.tensor import compute, placeholder
from sketch.operators.conv import conv
from sketch.operators.factors import factor
from sketch.oracle.interpret import interpret
from sketch.target.gpu_targets import cuda_target
from sketch.variants.implicit_gemm import implicit_gemm
from sketch.variants.inner_factors import with_inner_factors
from sketch.variants.zero_padded import zero_padded
from tests.support.units import on_units, stored

KINDS = (("bfloat16", "float32"), ("float16", "float32"), ("tf32", "tf32"), ("int8", "int32"))


def convolution(kind: str, sums: str) -> ComputeDAG:
    """Of 5 x 7 pixels, as networks have it: stages make the operands wider."""
    data = placeholder((1, 5, 7, 12), stored(kind), "x")
    weight = placeholder((3, 3, 12, 20), stored(kind), "f", constant=True)
    wide = [
        compute(t.shape, lambda *axes, t=t: factor(t[axes], sums), name=f"wide_{t.name}")
        for t in (data, weight)
    ]
    return ComputeDAG([conv(*wide, (1, 1), (1, 1, 1, 1), (1, 1), 1, "y")])


@pytest.mark.parametrize(("kind", "sums"), KINDS)
def test_the_same_results_without_the_stages(kind: str, sums: str) -> None:
    dag, rng = convolution(kind, sums), np.random.default_rng(0)
    inputs = {t.name: rng.integers(-9, 9, t.shape) * 1.0 for t in dag.inputs}
    if kind == "tf32":
        inputs = {name: array * (1 + 2.0**-12) for name, array in inputs.items()}
    typed = {t.name: inputs[t.name].astype(t.dtype) for t in dag.inputs}
    expected = interpret(dag, typed)["y"]
    others = [with_inner_factors(dag), implicit_gemm(dag), zero_padded(dag)]
    for other in others:
        assert other is not None and "wide" not in print_dag(other)
        (found,) = interpret(other, typed).values()
        np.testing.assert_array_equal(found.reshape(expected.shape), expected)


@pytest.mark.parametrize(("kind", "sums"), KINDS)
def test_units_compute_convolutions_with_padding(kind: str, sums: str) -> None:
    target = cuda_target("h200")
    for derived in (implicit_gemm, zero_padded):
        other = derived(convolution(kind, sums))
        assert other is not None and on_units(other, target)


def test_what_else_a_stage_does_stays() -> None:
    x = placeholder((6, 4), "bfloat16", "x")
    for body in (
        lambda i, j: cast(x[i, j], "float32") * 2.0,
        lambda i, j: cast(x[5 - i, j], "float32"),
        lambda i, j: x[i, j],
    ):
        stage = compute((6, 4), body, name="stage")
        dag = ComputeDAG([compute((6, 4), lambda *axes, t=stage: t[axes] + 1.0, name="y")])
        assert with_inner_factors(dag) is dag


def test_an_output_stays() -> None:
    x = placeholder((6,), "bfloat16", "x")
    wide = compute((6,), lambda i: cast(x[i], "float32"), name="wide")
    dag = ComputeDAG([wide, compute((6,), lambda i: wide[i] + 1.0, name="y")])
    assert with_inner_factors(dag) is dag
