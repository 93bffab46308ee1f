"""Sums of bytes that are quantised again are two multiply-adds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import autosched as asd
from autosched.graph.builder import GraphBuilder
from autosched.graph.evaluate import evaluate
from autosched.graph.ir import Value
from autosched.graph.ops.elementwise import BinaryOp, CastOp, UnaryOp
from autosched.graph.optimize import PASSES, optimize
from autosched.graph.passes.reciprocals import multiply_by_reciprocals
from autosched.graph.passes.scaled_sums import fold_scaled_sums

onnx = pytest.importorskip("onnx")

from onnx.reference import ReferenceEvaluator  # noqa: E402

from tests.support.qdq_models import parameters, qdq_model  # noqa: E402

SUM = """g (float[3,8] x, float[3,8] v) => (float[3,8] y) {
    a = Q(x, i) b = D(a, i) c = Q(v, j) d = D(c, j)
    e = Add(b, d) f = Q(e, o) y = D(f, o)
}"""
READ_TWICE = SUM.replace("(float[3,8] y)", "(float[3,8] y, float[3,8] e)")


def _divisions(text: str, **scales: Any) -> int:
    """Divisions before they become products; the optimised graph equals the reference."""
    model = qdq_model(text, parameters(**scales))
    written = asd.from_onnx(model).graph
    graph = optimize(written)
    data = np.random.default_rng(1).integers(-600, 600, (2, 3, 8)).astype(np.float32) / 16
    inputs = {"x": data[0], "v": data[1]}
    expected = ReferenceEvaluator(model).run(None, inputs)
    for found, wanted in zip(evaluate(graph, inputs).values(), expected, strict=True):
        np.testing.assert_array_equal(found, wanted)
    for apply in PASSES[: PASSES.index(multiply_by_reciprocals)]:
        written = apply(written)
    return sum(node.op == BinaryOp("div") for node in written.nodes)


QUANTISED = 2  # both inputs are divided by their scales


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
def test_nothing_is_divided_in_a_residual_sum(dtype: str) -> None:
    scales = {"i": (0.25, 3, dtype), "j": (0.5, 9, dtype), "o": (2, 5, dtype)}
    assert _divisions(SUM, **scales) == QUANTISED


def test_sums_that_something_else_reads_and_steep_ones_stay() -> None:
    """Of a zero point times 4096 float32 has no fraction."""
    i, j = (0.25, 3, "uint8"), (0.5, 9, "uint8")
    assert _divisions(READ_TWICE, i=i, j=j, o=(2, 5, "uint8")) == QUANTISED + 1
    assert _divisions(SUM, i=i, j=j, o=(2**-14, 5, "uint8")) == QUANTISED + 1


def test_constants_of_more_dimensions_than_the_data_give_the_result_its_rank() -> None:
    builder = GraphBuilder("sums")
    factors = [
        builder.constant(name, np.full((1, 1), value, np.float32))
        for name, value in (("c1", 0.3), ("c2", 0.71))
    ]
    scaled = []
    for name, factor in zip("ab", factors, strict=True):
        data = builder.add(CastOp("float32"), [builder.input(Value(name, (5,), "uint8"))])
        scaled.append(builder.add(BinaryOp("mul"), [data, factor]))
    total = builder.add(UnaryOp("round"), [builder.add(BinaryOp("add"), scaled)])
    graph = builder.finish({"y": total})
    inputs = {"a": np.arange(5, dtype=np.uint8), "b": np.arange(90, 95, dtype=np.uint8)}
    short = fold_scaled_sums(graph)
    assert short is not graph
    np.testing.assert_array_equal(evaluate(short, inputs)["y"], evaluate(graph, inputs)["y"])
