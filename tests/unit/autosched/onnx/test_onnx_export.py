"""Networks as ONNX models compute what the graphs compute."""

from __future__ import annotations

import numpy as np
import pytest

from autosched import zoo
from autosched.graph.builder import GraphBuilder
from autosched.graph.errors import GraphError
from autosched.graph.evaluate import evaluate
from autosched.graph.ir import Value
from autosched.graph.ops.base import Op
from autosched.graph.ops.conv import Conv
from autosched.graph.ops.elementwise import BinaryOp, Clip, LeakyRelu, UnaryOp
from autosched.graph.ops.gather import Gather
from autosched.graph.ops.matmul import MatMul
from autosched.graph.ops.norm import Normalize
from autosched.graph.ops.pooling import Pool
from autosched.graph.ops.reduce import ReduceOp
from autosched.graph.ops.shape import Concat, Pad, Reshape, Transpose
from autosched.graph.ops.softmax import Softmax
from tests.support.onnx_sessions import reference_session

pytest.importorskip("onnx")

IMAGE = (1, 4, 6, 6)


def assert_same(graph):
    from autosched.onnx.export import to_onnx

    rng = np.random.default_rng(0)
    feeds = {v.name: rng.standard_normal(v.shape, dtype=np.float32) for v in graph.inputs}
    model = to_onnx(graph).SerializeToString()
    session = reference_session(model)
    names = [value.name for value in graph.outputs]
    expected = evaluate(graph, feeds)
    for name, result in zip(names, session.run(names, feeds), strict=True):
        scale = np.abs(expected[name]).max()
        np.testing.assert_allclose(result, expected[name], atol=1e-5 * scale, rtol=0)


@pytest.mark.parametrize(
    "name", ["mobilenet-v1", "mlp", pytest.param("resnet-18", marks=pytest.mark.slow)]
)
def test_zoo(name):
    assert_same(zoo.build(name, image=32 if name != "mlp" else 8).graph)


@pytest.mark.parametrize(
    "op",
    [
        UnaryOp("sigmoid"),
        UnaryOp("erf"),
        UnaryOp("relu"),
        Clip(0.0, 6.0),
        Clip(None, 0.5),
        LeakyRelu(0.1),
        Pool("max", (3, 3), (2, 2), (1, 1, 1, 1)),
        Pool("avg", (3, 3), (2, 2), (1, 1, 1, 1), count_include_pad=True),
        Softmax(-1),
        ReduceOp("sum", (2, 3)),
        ReduceOp("mean", (1,), keepdims=True),
        Pad((0, 0, 1, 2), (0, 0, 2, 1)),
        Reshape((4, 36)),
        Transpose((0, 2, 3, 1)),
    ],
    ids=str,
)
def test_one_operand(op):
    builder = GraphBuilder("one")
    data = builder.input(Value("data", IMAGE))
    assert_same(builder.finish({"result": builder.add(op, (data,))}))


@pytest.mark.parametrize("op", [BinaryOp("mul"), BinaryOp("max"), Concat(1), MatMul()], ids=str)
def test_two_operands(op):
    builder = GraphBuilder("two")
    operands = builder.input(Value("a", IMAGE)), builder.input(Value("b", IMAGE))
    assert_same(builder.finish({"result": builder.add(op, operands)}))


@pytest.mark.parametrize("inner", [False, True])
def test_layer_norms_are_one_operator(inner):
    from autosched.onnx.export import to_onnx

    builder = GraphBuilder("norm")
    data = builder.input(Value("data", (2, 3, 5)))
    rng = np.random.default_rng(1)
    scale, bias = (
        builder.constant(name, rng.standard_normal(5, dtype=np.float32)) for name in ("g", "b")
    )
    normal = builder.add(Normalize((2,)), (data,))
    scaled = builder.add(BinaryOp("mul"), (scale, normal))
    result = builder.add(BinaryOp("add"), (scaled, bias))
    graph = builder.finish({"y": result, "inner": scaled} if inner else {"y": result})
    further = ["Mul", "Add"] if inner else []
    operators = [node.op_type for node in to_onnx(graph).graph.node]
    assert operators == ["LayerNormalization", *further]
    assert_same(graph)


def test_gather():
    builder = GraphBuilder("gather")
    data = builder.input(Value("data", (4, 5)))
    indices = builder.constant("indices", np.array([[1, 3], [0, 3]]))
    assert_same(builder.finish({"y": builder.add(Gather(0), (data, indices))}))


def test_an_output_may_be_an_inner_value_or_an_input():
    builder = GraphBuilder("outputs")
    data = builder.input(Value("data", IMAGE))
    inner = builder.add(UnaryOp("relu"), (data,))
    last = builder.add(BinaryOp("add"), (inner, data))
    assert_same(builder.finish({"inner": inner, "last": last, "copy": data, "again": last}))


def test_channels_last_has_no_onnx_form():
    from autosched.onnx.export import to_onnx

    builder = GraphBuilder("nhwc")
    data = builder.input(Value("data", (1, 6, 6, 4)))
    weight = builder.constant("w", np.ones((3, 3, 4, 8), np.float32))
    graph = builder.finish({"y": builder.add(Conv(layout="NHWC"), (data, weight))})
    with pytest.raises(GraphError, match="no ONNX form"):
        to_onnx(graph)


@pytest.mark.parametrize(
    ("op", "dtype", "operator"),
    [
        (BinaryOp("pow"), "float32", "Pow"),
        (BinaryOp("trunc_mod"), "float32", "Mod"),
        (ReduceOp("log_sum_exp", (1,)), "float32", "ReduceLogSumExp"),
        (ReduceOp("sum_square", (1,)), "float32", "ReduceSumSquare"),
        (Clip(0.0, None), "float64", "Clip"),
        (Pad((0, 1), (0, 1), 3.0), "int32", "Pad"),
        (Pad((0, 1), (0, 1), 0.5), "float64", "Pad"),
    ],
)
def test_other_types_and_operators(op: Op, dtype: str, operator: str) -> None:
    from autosched.onnx.export import to_onnx

    builder = GraphBuilder("one")
    count = 2 if isinstance(op, BinaryOp) else 1
    values = [builder.input(Value(f"x{n}", (3, 4), dtype)) for n in range(count)]
    graph = builder.finish({"y": builder.add(op, values)})
    model = to_onnx(graph)
    assert [node.op_type for node in model.graph.node] == [operator]
    rng = np.random.default_rng(0)
    feeds = {value.name: (4 * rng.random((3, 4)) + 1).astype(dtype) for value in graph.inputs}
    (found,) = reference_session(model.SerializeToString()).run(None, feeds)
    (expected,) = evaluate(graph, feeds).values()
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_what_has_no_form_is_said() -> None:
    from autosched.onnx.export import to_onnx

    builder = GraphBuilder("one")
    data = builder.input(Value("x", (3, 4)))
    with pytest.raises(GraphError, match="ordinal has no ONNX form") as error:
        to_onnx(builder.finish({"y": builder.add(UnaryOp("ordinal"), (data,), name="bits")}))
    assert "node bits" in str(error.value)
