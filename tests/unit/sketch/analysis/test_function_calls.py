"""How often programs evaluate functions: what limits count them by."""

from __future__ import annotations

import pytest

import autosched as asd
from sketch.analysis.function_calls import function_calls
from sketch.lang.expr import Expr
from sketch.operators.elementwise import gelu
from sketch.operators.normalization import normalize
from sketch.operators.softmax import softmax


def test_each_stage_counts_its_points() -> None:
    x = asd.placeholder((4, 8), name="x")
    dag = asd.ComputeDAG([softmax(x)])
    assert function_calls(dag.stages) == {"div": 4, "exp": 32}  # a quotient a row
    assert function_calls(asd.ComputeDAG([gelu(x)]).stages) == {"erf": 32}
    assert function_calls(asd.ComputeDAG([normalize(x, [1], 1e-5)]).stages) == {"rsqrt": 4}


def test_terms_of_a_reduction_count_each() -> None:
    x, k = asd.placeholder((4, 8), name="x"), asd.reduce_axis(8, "k")
    total = asd.compute((4,), lambda i: asd.sum(asd.exp(x[i, k]), axis=k), name="total")
    assert function_calls(asd.ComputeDAG([total]).stages) == {"exp": 32}


def test_what_is_read_twice_is_evaluated_once() -> None:
    x = asd.placeholder((4,), name="x")

    def twice(i: Expr) -> Expr:
        power = asd.exp(x[i])
        return power * (power + 1.0) / 3.0

    dag = asd.ComputeDAG([asd.compute((4,), twice, name="y")])
    assert function_calls(dag.stages) == {"exp": 4}


@pytest.mark.parametrize("dtype", ["float64", "int32"])
def test_other_numbers_have_other_functions(dtype: str) -> None:
    x = asd.placeholder((4,), dtype, name="x")
    dag = asd.ComputeDAG([asd.compute((4,), lambda i: x[i] * x[i], name="y")])
    assert function_calls(dag.stages) == {}
    if dtype == "float64":
        powers = asd.compute((4,), lambda i: asd.exp(x[i]), name="y")
        assert function_calls(asd.ComputeDAG([powers]).stages) == {}
