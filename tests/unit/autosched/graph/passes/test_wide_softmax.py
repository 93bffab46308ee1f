"""16-bit attention: probabilities are not rounded before they weight the values."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import autosched
from autosched.graph.builder import GraphBuilder
from autosched.graph.ir import Graph, Network, Value
from autosched.graph.ops.elementwise import BinaryOp, Where
from autosched.graph.ops.matmul import MatMul
from autosched.graph.ops.softmax import Softmax
from autosched.graph.passes.wide_softmax import widen_softmax

ULP = {"float16": 2.0**-11, "bfloat16": 2.0**-8}
NUMPY = {"float16": np.float16, "bfloat16": ml_dtypes.bfloat16}


def _attention(dtype: str) -> Graph:
    builder = GraphBuilder("attention")
    scores = builder.input(Value("scores", (2, 5, 7), dtype))
    values = builder.input(Value("values", (2, 7, 3), dtype))
    probabilities = builder.add(Softmax(-1), [scores])
    mask = builder.constant("mask", np.arange(7) % 3 == 1)
    nothing = builder.constant("nothing", np.zeros(7, NUMPY[dtype]))
    kept = builder.add(Where(), [mask, nothing, probabilities])
    weighted = builder.add(MatMul(), [kept, values])
    doubled = builder.add(BinaryOp("add"), [weighted, weighted])
    return builder.finish({"y": doubled, "p": kept})


@pytest.mark.parametrize("dtype", ULP)
def test_products_of_probabilities_are_rounded_once(dtype: str) -> None:
    graph = _attention(dtype)
    rng = np.random.default_rng(0)
    inputs = {v.name: rng.standard_normal(v.shape).astype(NUMPY[dtype]) for v in graph.inputs}
    exact = np.exp(inputs["scores"].astype(np.float64))
    exact = np.where(np.arange(7) % 3 == 1, 0, exact / exact.sum(-1, keepdims=True))
    results = autosched.compile(Network("attention", graph)).run(inputs)
    expected = {"p": exact, "y": 2 * (exact @ inputs["values"].astype(np.float64))}
    for name, value in expected.items():
        assert str(results[name].dtype) == dtype
        error = np.abs(results[name].astype(np.float64) - value)
        assert (error <= 1.01 * ULP[dtype] * np.abs(value) + 1e-6).all()


def test_types_of_values_stay_and_float32_is_untouched() -> None:
    graph = _attention("float16")
    widened = widen_softmax(graph)
    assert {name: widened.types[name] for name in graph.types} == dict(graph.types)
    products = [node for node in widened.nodes if isinstance(node.op, MatMul)]
    assert [widened.types[node.output].dtype for node in products] == ["float32"]
    builder = GraphBuilder("plain")
    builder.add(Softmax(-1), [builder.input(Value("x", (2, 3)))], "p")
    plain = builder.finish({"p": "p"})
    assert str(widen_softmax(plain)) == str(plain)
