"""Layers between quantised values are computed on integers, exactly."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import autosched as asd
from autosched.graph.builder import GraphBuilder
from autosched.graph.evaluate import evaluate
from autosched.graph.extract import extract
from autosched.graph.ir import Graph, Value
from autosched.graph.ops.conv import Conv
from autosched.graph.ops.einsum import Einsum
from autosched.graph.ops.elementwise import BinaryOp, CastOp, UnaryOp
from autosched.graph.ops.matmul import Dense, MatMul
from autosched.graph.ops.narrow import NarrowMatMul
from autosched.graph.ops.reduce import ReduceOp
from autosched.graph.optimize import optimize
from autosched.graph.passes.integer_products import integer_products

onnx = pytest.importorskip("onnx")

from onnx.reference import ReferenceEvaluator  # noqa: E402

from tests.support.qdq_models import integers, parameters, qdq_model  # noqa: E402

Types = tuple[str, str]


def _run(model: Any, data: Any) -> tuple[Graph, Any]:
    """The optimised graph, whose results are those of the reference, and its results."""
    graph = optimize(asd.from_onnx(model).graph)
    (expected,) = ReferenceEvaluator(model).run(None, {"x": data})
    (found,) = evaluate(graph, {"x": data}).values()
    np.testing.assert_array_equal(found, expected)
    return graph, found


def _layers(graph: Graph) -> list[Types]:
    """Types of data and weights of all layers."""
    return [
        (graph.types[node.inputs[0]].dtype, graph.types[node.inputs[1]].dtype)
        for node in graph.nodes
        if isinstance(node.op, Conv | Dense | MatMul | NarrowMatMul)
    ]


def _stored(model: Any) -> list[str]:
    """Types of what the kernels leave, in order."""
    found = extract(asd.from_onnx(model))
    return [found.graph.types[call.output].dtype for call in found.calls]


def _image(*shape: int) -> Any:
    return (np.random.default_rng(1).integers(-600, 600, shape) / 16).astype(np.float32)


CONV = """g (float[1,4,6,5] x) => (float[1,3,H,W] y) {
    a = Q(x, i) b = D(a, i) w = D(W, w) c = D(B, b)
    z = Conv<ATTRIBUTES>(b, w, c) p = Q(z, o) y = D(p, o)
}"""


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
@pytest.mark.parametrize("zero", [0, 5])
@pytest.mark.parametrize("attributes", ["pads=[1,1,1,1]", "strides=[2,1]"])
def test_convolutions(dtype: str, zero: int, attributes: str) -> None:
    """Scales of one and of each channel, zero points of both kinds, with padding and without."""
    constants = {
        "W": integers(3, 4, 3, 3, most=20), "B": integers(3, dtype="int32", most=900),
        **parameters(i=(0.25, zero, dtype), o=(32, zero - 1 if zero else 0, dtype)),
        "w_s": np.array([0.5, 0.25, 2], np.float32), "w_z": np.zeros(3, np.int8),
        "b_s": np.array([0.125, 0.0625, 0.5], np.float32), "b_z": np.zeros(3, np.int32),
    }  # fmt: skip
    model = qdq_model(CONV.replace("ATTRIBUTES", attributes), constants)
    for node in model.graph.node:
        if node.input[0] in ("W", "B"):
            node.attribute.append(onnx.helper.make_attribute("axis", 0))
    graph, _ = _run(model, _image(1, 4, 6, 5))
    assert _layers(graph) == [("uint8", "int8")]


BYTES, WORDS, FLOATS = ("uint8", "int8"), ("int16", "int16"), ("float32", "float32")


@pytest.mark.parametrize(
    ("dtype", "zero", "taps", "attributes", "kinds"),
    [
        ("uint8", 0, 2, "strides=[2,2]", BYTES),
        ("uint8", 0, 3, "strides=[2,2], pads=[1,1,1,1], output_padding=[1,1]", BYTES),
        ("int8", -128, 4, "strides=[2,2], pads=[1,1,1,1]", BYTES),
        ("uint8", 0, 4, "strides=[3,3], pads=[2,1,1,1], output_padding=[2,1]", BYTES),
        ("int8", 0, 4, "strides=[2,2], pads=[1,1,1,1]", WORDS),
        ("uint8", 5, 3, "strides=[1,1], dilations=[2,2]", WORDS),
        ("uint8", 5, 3, "strides=[2,2], pads=[1,1,1,1], output_padding=[1,1]", FLOATS),
        ("uint8", 0, 3, "strides=[2,2]", FLOATS),  # one row more of even outputs than of odd ones
    ],
)
def test_transposed_convolutions(
    dtype: str, zero: int, taps: int, attributes: str, kinds: Types
) -> None:
    """Bytes where their zeros are zeros, else 16 bits; where phases have one form, if need be with
    zeros around the taps, unless those are too many.
    """
    constants = {
        "W": integers(4, 3, taps, taps, most=20), "B": integers(3, dtype="int32", most=900),
        **parameters(i=(0.25, zero, dtype), o=(32, max(zero, 0), dtype)),
        "w_s": np.array([0.5, 0.25, 2], np.float32), "w_z": np.zeros(3, np.int8),
        "b_s": np.array([0.125, 0.0625, 0.5], np.float32), "b_z": np.zeros(3, np.int32),
    }  # fmt: skip
    text = CONV.replace("= Conv<", "= ConvTranspose<").replace("ATTRIBUTES", attributes)
    model = qdq_model(text, constants)
    for node in model.graph.node:
        if node.input[0] in ("W", "B"):
            axis = 1 if node.input[0] == "W" else 0
            node.attribute.append(onnx.helper.make_attribute("axis", axis))
    graph, _ = _run(model, _image(1, 4, 6, 5))
    assert _layers(graph) == [kinds]


@pytest.mark.parametrize("zero", [0, 9])
def test_transposed_convolutions_with_weights_beyond_int8(zero: int) -> None:
    """What int8 does not hold of them is a sum of the data, of as many taps as an output has."""
    weight = integers(4, 3, 4, 4, dtype="uint8", most=255)
    weight[0] = 0
    constants = {
        "W": weight, "B": integers(3, dtype="int32", most=900),
        **parameters(i=(0.25, zero, "uint8"), o=(64, 3, "uint8"), w=(0.5, 131, "uint8")),
        **parameters(b=(0.125, 0, "int32")),
    }  # fmt: skip
    text = CONV.replace("= Conv<", "= ConvTranspose<")
    model = qdq_model(text.replace("ATTRIBUTES", "strides=[2,2], pads=[1,1,1,1]"), constants)
    graph, _ = _run(model, _image(1, 4, 6, 5))
    assert set(_layers(graph)) == {("int32", "int32"), WORDS if zero else BYTES}


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
@pytest.mark.parametrize("transposed", [False, True])
def test_dense_layers(dtype: str, transposed: bool) -> None:
    text = """g (float[3,8] x) => (float[3,5] y) {
        a = Q(x, i) b = D(a, i) w = D(W, w) c = D(B, b)
        z = Gemm<transB=T>(b, w, c) p = Q(z, o) y = D(p, o)
    }""".replace("T>", f"{int(transposed)}>")
    shape = (5, 8) if transposed else (8, 5)
    constants = {
        "W": integers(*shape), "B": integers(5, dtype="int32", most=900),
        **parameters(i=(0.25, 3, dtype), o=(64, 7, dtype), w=(0.5, 0, "int8")),
        **parameters(b=(0.125, 0, "int32")),
    }  # fmt: skip
    graph, _ = _run(qdq_model(text, constants), _image(3, 8))
    assert _layers(graph) == [("uint8", "int8")]


def test_products_with_matrices_of_uint8_and_a_scale_for_each_column() -> None:
    text = """g (float[2,3,8] x) => (float[2,3,5] y) {
        a = Q(x, i) b = D(a, i) w = D(W, w) z = MatMul(b, w) p = Q(z, o) y = D(p, o)
    }"""
    constants = {
        "W": integers(8, 5, dtype="uint8", most=255),
        **parameters(i=(0.25, 3, "uint8"), o=(64, 7, "uint8")),
        "w_s": np.array([0.5, 0.25, 2, 1, 0.125], np.float32),
        "w_z": np.full(5, 128, np.uint8),
    }
    graph, _ = _run(qdq_model(text, constants), _image(2, 3, 8))
    assert _layers(graph) == [("uint8", "int8")]


BLOCK = """g (float[1,4,6,6] x) => (float[1,4] y) {
    a = Q(x, i) b = D(a, i) w = D(W, w)
    c = Conv<pads=[1,1,1,1]>(b, w) d = Q(c, m) e = D(d, m)
    f = MaxPool<kernel_shape=[3,3], strides=[1,1], pads=[1,1,1,1]>(e) h = Q(f, m) j = D(h, m)
    v = D(V, w) k = Conv(j, v) l = Q(k, m) n = D(l, m)
    o = Add(n, j) r = Relu(o) s = Q(r, t) u = D(s, t)
    q = GlobalAveragePool(u) aa = Q(q, t) bb = D(aa, t) y = Flatten(bb)
}"""


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
def test_residual_blocks_leave_bytes_to_each_other(dtype: str) -> None:
    """Pools, sums, averages: what reads a dequantised value computes it."""
    constants = {
        "W": integers(4, 4, 3, 3, most=9), "V": integers(4, 4, 1, 1, most=9),
        **parameters(i=(0.25, 1, dtype), w=(0.5, 0, "int8"), m=(4, 2, dtype), t=(8, 0, dtype)),
    }  # fmt: skip
    model = qdq_model(BLOCK, constants)
    graph, _ = _run(model, _image(1, 4, 6, 6))
    assert _layers(graph) == [("uint8", "int8")] * 2
    assert any(node.op == ReduceOp("sum", (1, 2), keepdims=True) for node in graph.nodes)
    assert set(_stored(model)[:-1]) == {"uint8"}


PICTURE = """g (float[1,3,7,9] x) => (float[1,3,H,W] y) {
    a = Q(x, i) b = D(a, i) w = D(W, w)
    c = Conv<pads=[1,1,1,1], strides=[2,2]>(b, w) d = Q(c, m) e = D(d, m)
    f = Conv<pads=[1,1,1,1]>(e, w) h = Q(f, m) y = D(h, m)
}"""


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
@pytest.mark.parametrize("zero", [0, 5])
def test_pictures_grow_along_rows_and_other_images_of_few_channels_by_channels(
    dtype: str, zero: int
) -> None:
    """Nothing turns a picture before its bytes are stored: the convolution reads its planes."""
    constants = {
        "W": integers(3, 3, 3, 3, most=20),
        **parameters(i=(0.25, zero, dtype), w=(0.5, 0, "int8"), m=(32, 3, dtype)),
    }
    model = qdq_model(PICTURE, constants)
    graph, _ = _run(model, _image(1, 3, 7, 9))
    weights = [n.inputs[1] for n in graph.nodes if isinstance(n.op, Conv)]
    assert [graph.types[name].shape for name in weights] == [(3, 4, 3, 3), (3, 3, 4, 3)]
    calls = extract(asd.from_onnx(model)).calls
    assert graph.types[calls[0].output].shape == (1, 3, 9, 12)


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
@pytest.mark.parametrize("zero", [0, 5])
@pytest.mark.parametrize("points", [[160, 160, 160], [131, 7, 255]], ids=str)
@pytest.mark.parametrize(
    ("groups", "attributes"),
    [(1, "pads=[1,0,1,2], strides=[2,1]"), (1, "dilations=[2,1]"), (4, "pads=[1,1,1,1], group=4")],
    ids=["padded", "dilated", "groups"],
)
def test_weights_of_uint8_with_any_zero_point(
    dtype: str, zero: int, points: list[int], groups: int, attributes: str
) -> None:
    """Also where these leave numbers that int8 does not hold."""
    points = [*points, points[0]] if groups > 1 else points
    outputs = len(points)
    constants = {
        "W": integers(outputs, 4 // groups, 3, 3, dtype="uint8", most=255),
        "B": integers(outputs, dtype="int32", most=900),
        **parameters(i=(0.25, zero, dtype), o=(256, zero, dtype)),
        "w_s": np.full(outputs, 0.5, np.float32), "w_z": np.array(points, np.uint8),
        "b_s": np.full(outputs, 0.125, np.float32), "b_z": np.zeros(outputs, np.int32),
    }  # fmt: skip
    text = CONV.replace("ATTRIBUTES", attributes).replace("[1,3,H,W]", f"[1,{outputs},H,W]")
    model = qdq_model(text, constants)
    for node in model.graph.node:
        if node.input[0] in ("W", "B"):
            node.attribute.append(onnx.helper.make_attribute("axis", 0))
    graph, _ = _run(model, _image(1, 4, 6, 5))
    layers = [node for node in graph.nodes if isinstance(node.op, Conv) and len(node.inputs) > 2]
    (layer,) = layers
    wanted = ("uint8", "int8" if groups == 1 else "int16")
    assert tuple(graph.types[name].dtype for name in layer.inputs[:2]) == wanted


ATTENTION = """g (float[2,3,4,8] x) => (float[2,4,3,4] y) {
    a = Q(x, q) b = D(a, q) c = Q(x, k) d = D(c, k) e = Transpose<perm=[0,1,3,2]>(d)
    f = MatMul(b, e) h = Q(f, s) i = D(h, s) j = Softmax<axis=-1>(i) l = Q(j, p) m = D(l, p)
    n = Q(x, v) o = D(n, v) u = Slice(o, starts, ends, axes)
    r = MatMul(m, u) t = Q(r, w) z = D(t, w) y = Transpose<perm=[0,2,1,3]>(z)
}"""


@pytest.mark.parametrize("first", ["uint8", "int8"])
@pytest.mark.parametrize("second", ["uint8", "int8"])
@pytest.mark.parametrize("zeros", [(0, 0), (3, 0), (0, -5), (100, 77)], ids=str)
def test_products_of_two_variables(first: str, second: str, zeros: tuple[int, int]) -> None:
    """As of queries and keys, of weights and values: bytes in the order that they are in."""
    left, right = (
        zero + 128 if dtype == "uint8" and zero < 0 else zero
        for zero, dtype in zip(zeros, (first, second), strict=True)
    )
    constants = {
        **parameters(q=(0.25, left, first), k=(0.5, right, second), v=(0.125, right, second)),
        **parameters(s=(16, 9, "int8"), p=(0.0078125, 0, "uint8"), w=(0.0625, left, first)),
        "starts": np.array([0]), "ends": np.array([4]), "axes": np.array([3]),
    }  # fmt: skip
    graph, _ = _run(qdq_model(ATTENTION, constants), _image(2, 3, 4, 8))
    products = [node for node in graph.nodes if isinstance(node.op, Einsum | MatMul)]
    types = [tuple(graph.types[name].dtype for name in node.inputs) for node in products]
    assert types == [("uint8", "int8")] * 2
    assert [graph.types[node.output].dtype for node in products] == ["int32"] * 2


def test_sums_of_two_variables_that_might_not_fit_stay_floats() -> None:
    text = """g (float[1,K] x) => (float[1,1] y) {
        a = Q(x, i) b = D(a, i) e = Transpose<perm=[1,0]>(b) y = MatMul(b, e)
    }""".replace("K", "40000")
    graph = optimize(asd.from_onnx(qdq_model(text, parameters(i=(1, 0, "uint8")))).graph)
    assert _layers(graph) == [("float32", "float32")]


def test_what_is_no_product_of_bytes_stays_as_it_is() -> None:
    """Scales that differ along what is summed, infinite scales."""
    text = """g (float[3,8] x) => (float[3,5] y) {
        a = Q(x, i) b = D(a, i) w = D(W, w) y = MatMul(b, w)
    }"""
    rows = {"w_s": np.arange(1, 9, dtype=np.float32), "w_z": np.zeros(8, np.int8)}
    one = parameters(i=(0.25, 3, "uint8"), w=(0.5, 0, "int8"))
    model = qdq_model(text, {"W": integers(8, 5), **one, **rows})
    for node in model.graph.node:
        if node.input[0] == "W":
            node.attribute.append(onnx.helper.make_attribute("axis", 0))
    assert _layers(_run(model, _image(3, 8))[0]) == [("float32", "float32")]
    huge = qdq_model(text, {"W": integers(8, 5), **one, **parameters(w=(np.inf, 0, "int8"))})
    graph = optimize(asd.from_onnx(huge).graph)
    assert _layers(graph) == [("float32", "float32")]


def test_sums_that_might_not_fit_stay_floats() -> None:
    text = """g (float[1,K] x) => (float[1,1] y) {
        a = Q(x, i) b = D(a, i) w = D(W, w) y = MatMul(b, w)
    }""".replace("K", "70000")
    constants = {"W": np.full((70000, 1), 127, np.int8),
                 **parameters(i=(1, 0, "uint8"), w=(1, 0, "int8"))}  # fmt: skip
    graph = optimize(asd.from_onnx(qdq_model(text, constants)).graph)
    assert _layers(graph) == [("float32", "int32")]  # bytes in words


def test_dequantised_results_and_integers_that_are_results() -> None:
    text = """g (float[3,8] x) => (int8[3,5] y) {
        a = Q(x, i) b = D(a, i) w = D(W, w) z = MatMul(b, w) y = Q(z, o)
    }"""
    scales = parameters(i=(0.25, 3, "int8"), w=(0.5, 0, "int8"), o=(64, 7, "int8"))
    constants = {"W": integers(8, 5), **scales}
    graph, found = _run(qdq_model(text, constants), _image(3, 8))
    assert _layers(graph) == [("uint8", "int8")]
    assert found.dtype == np.int8


def test_an_average_has_the_rank_of_its_value_whatever_the_scale_has() -> None:
    builder = GraphBuilder("average")
    floats = builder.add(CastOp("float32"), [builder.input(Value("x", (2, 3, 4, 4), "uint8"))])
    scale = builder.constant("scale", np.full((1, 1, 1, 1), 0.25, np.float32))
    scaled = builder.add(BinaryOp("mul"), [floats, scale])
    graph = builder.finish({"y": builder.add(ReduceOp("mean", (2, 3), False), [scaled])})
    short = integer_products(graph)
    inputs = {"x": np.arange(96, dtype=np.uint8).reshape(2, 3, 4, 4)}
    assert short is not graph
    np.testing.assert_array_equal(evaluate(short, inputs)["y"], evaluate(graph, inputs)["y"])


def test_bytes_that_are_quantised_again_in_another_shape_stay_what_they_are() -> None:
    builder = GraphBuilder("again")
    value = builder.add(CastOp("float32"), [builder.input(Value("x", (4, 9), "uint8"))])
    small = builder.constant("small", np.asarray(0.5, np.float32))
    large = builder.constant("large", np.full((1, 1, 1), 0.5, np.float32))
    value = builder.add(BinaryOp("mul"), [value, small])
    value = builder.add(UnaryOp("round"), [builder.add(BinaryOp("div"), [value, large])])
    graph = builder.finish({"y": builder.add(CastOp("uint8"), [value])})
    inputs = {"x": np.arange(36, dtype=np.uint8).reshape(4, 9)}
    found = evaluate(integer_products(graph), inputs)["y"]
    np.testing.assert_array_equal(found, inputs["x"][None])
