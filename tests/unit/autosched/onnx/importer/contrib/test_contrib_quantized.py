"""Quantised operators of onnxruntime's own domain, against onnxruntime."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

import autosched as asd
from autosched.graph.evaluate import evaluate
from autosched.graph.extract import extract
from autosched.graph.ops.conv import Conv
from autosched.graph.ops.matmul import Dense
from autosched.graph.optimize import optimize

onnx = pytest.importorskip("onnx")

from onnx import helper, numpy_helper  # noqa: E402

from autosched.onnx.importer.contrib.channels_last import IMPORT_CHANNELS_LAST  # noqa: E402
from autosched.onnx.importer.contrib.quantized import IMPORT_QUANTIZED  # noqa: E402
from autosched.onnx.importer.contrib.table import IMPORT_CONTRIB  # noqa: E402
from autosched.onnx.importer.table import IMPORTERS  # noqa: E402
from tests.support.onnx_sessions import reference_session  # noqa: E402

Array = Any
DOMAIN = "com.microsoft"
DATA = object()  # stands for the next input of the model
IN, OTHER, OUT = np.float32(0.047), np.float32(0.031), np.float32(0.06)


def integers(*shape: int, dtype: str, seed: int = 0) -> Array:
    limits = np.iinfo(dtype)
    rng = np.random.default_rng(seed + sum(shape))
    return rng.integers(limits.min, limits.max, shape, endpoint=True).astype(dtype)


def model(
    operator: str, inputs: Sequence[Any], data: Sequence[Array], attributes: Mapping[str, Any]
) -> Any:
    """One node; in ``inputs`` are constants, None where nothing is given, and ``DATA``."""
    names = [f"c{n}" for n in range(len(inputs))]
    places = [n for n, value in enumerate(inputs) if value is DATA]
    for number, place in enumerate(places):
        names[place] = f"x{number}"
    given = ["" if v is None else n for n, v in zip(names, inputs, strict=True)]
    node = helper.make_node(operator, given, ["y"], domain=DOMAIN, **attributes)
    kinds = [
        helper.make_tensor_value_info(
            f"x{n}", helper.np_dtype_to_tensor_dtype(array.dtype), array.shape
        )
        for n, array in enumerate(data)
    ]
    constants = [
        numpy_helper.from_array(np.asarray(value), name)
        for name, value in zip(names, inputs, strict=True)
        if value is not None and value is not DATA
    ]
    result = helper.make_tensor_value_info("y", onnx.TensorProto.UNDEFINED, None)
    graph = helper.make_graph([node], "g", kinds, [result], constants)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(DOMAIN, 1)]
    made = helper.make_model(graph, opset_imports=opsets, ir_version=9)
    wanted = data[-1].dtype if operator != "DequantizeLinear" else np.dtype(np.float32)
    if operator == "QuantizeLinear":
        wanted = np.asarray(inputs[2]).dtype
    if operator == "QGemm" and len(inputs) < 8:
        wanted = np.dtype(np.float32)
    made.graph.output[0].type.tensor_type.elem_type = helper.np_dtype_to_tensor_dtype(wanted)
    return made


def of_one(dtype: str, **attributes: Any) -> Any:
    """Operators of a picture."""
    zero = np.dtype(dtype).type(3)
    return [DATA, IN, zero, OUT, zero], [integers(1, 3, 6, 5, dtype=dtype)], attributes


def of_last(dtype: str, **attributes: Any) -> Any:
    """Operators of a picture whose channels are last."""
    inputs, _, _ = of_one(dtype)
    return inputs, [integers(1, 6, 5, 3, dtype=dtype)], {**attributes, "channels_last": 1}


def of_convolution(dtype: str, **attributes: Any) -> Any:
    """Filters have their channels second anyway, and numbers of 7 bits, as those of ``of_gemm``."""
    inputs, data, _ = of_last(dtype) if attributes.get("channels_last") else of_one(dtype)
    filters = integers(4, 3, 3, 2, dtype="int8") // np.int8(2)
    weight = [filters, np.array([0.01, 0.02, 0.015, 0.008], np.float32), np.zeros(4, np.int8)]
    bias = integers(4, dtype="int16").astype(np.int32)
    return [*inputs[:3], *weight, np.float32(0.4), inputs[4], bias], data, attributes


def of_maxima(dtype: str) -> Any:
    return [DATA], [integers(1, 6, 5, 3, dtype=dtype)], WINDOW


def of_softmax(dtype: str, **attributes: Any) -> Any:
    """The scale of results is that of quantisers: onnxruntime's table is for no other."""
    inputs, data, _ = of_one(dtype)
    return [*inputs[:3], np.float32(1 / 256), np.dtype(dtype).type(0)], data, attributes


def of_two(dtype: str) -> Any:
    zero = np.dtype(dtype).type(3)
    data = [integers(2, 3, 5, dtype=dtype), integers(3, 1, dtype=dtype)]
    return [DATA, IN, zero, DATA, OTHER, np.dtype(dtype).type(0), OUT, zero], data, {}


def of_gemm(dtype: str, bias: bool, whole: bool, turned: int) -> Any:
    zero = np.dtype(dtype).type(3)
    # Of 7 bits: without VNNI, onnxruntime sums pairs of larger products wrongly.
    weight = integers(*((4, 7) if turned else (7, 4)), dtype="int8") // np.int8(2)
    scales = np.array([0.01, 0.02, 0.015, 0.008], np.float32)
    constants = [scales, np.zeros(4, np.int8)]
    wide = integers(4, dtype="int16").astype(np.int32) if bias else None
    last = [np.float32(0.4), zero] if whole else []
    inputs = [DATA, IN, zero, weight, *constants, wide, *last]
    return inputs, [integers(3, 7, dtype=dtype)], {"transB": turned}


def of_parts(dtype: str) -> Any:
    zero = np.dtype(dtype).type(3)
    data = [integers(2, 3, dtype=dtype), integers(2, 4, dtype=dtype)]
    inputs = [OUT, zero, DATA, IN, zero, DATA, OTHER, np.dtype(dtype).type(0)]
    return inputs, data, {"axis": 1}


def of_choice(dtype: str) -> Any:
    zero, condition = np.dtype(dtype).type(3), np.array([[True], [False], [True]])
    data = [integers(3, 4, dtype=dtype), integers(3, 4, dtype=dtype, seed=1)]
    return [condition, DATA, IN, zero, DATA, OTHER, zero, OUT, zero], data, {}


WINDOW = {"kernel_shape": [3, 2], "strides": [2, 1], "pads": [1, 0, 1, 1]}
CASES: Mapping[str, tuple[str, Any]] = {
    "add": ("QLinearAdd", of_two),
    "mul": ("QLinearMul", of_two),
    "pool": ("QLinearAveragePool", lambda d: of_one(d, **WINDOW)),
    "pool of zeros": ("QLinearAveragePool", lambda d: of_one(d, **WINDOW, count_include_pad=1)),
    "global pool": ("QLinearGlobalAveragePool", lambda d: of_one(d, channels_last=0)),
    "pool, channels last": ("QLinearAveragePool", lambda d: of_last(d, **WINDOW)),
    "global pool, channels last": ("QLinearGlobalAveragePool", lambda d: of_last(d)),
    "convolution": ("QLinearConv", lambda d: of_convolution(d, **WINDOW)),
    "convolution, channels last": (
        "QLinearConv",
        lambda d: of_convolution(d, **WINDOW, channels_last=1),
    ),
    "maxima, channels last": ("NhwcMaxPool", of_maxima),
    "leaky": ("QLinearLeakyRelu", lambda d: of_one(d, alpha=0.1)),
    "sigmoid": ("QLinearSigmoid", lambda d: of_one(d)),
    "softmax": ("QLinearSoftmax", lambda d: of_softmax(d, axis=3, opset=13)),
    "old softmax": ("QLinearSoftmax", lambda d: of_softmax(d, axis=2, opset=11)),
    "concat": ("QLinearConcat", of_parts),
    "where": ("QLinearWhere", of_choice),
    "gemm": ("QGemm", lambda d: of_gemm(d, bias=True, whole=True, turned=1)),
    "gemm alone": ("QGemm", lambda d: of_gemm(d, bias=False, whole=True, turned=0)),
    "gemm of floats": ("QGemm", lambda d: of_gemm(d, bias=True, whole=False, turned=0)),
    "bytes": (
        "QuantizeLinear",
        lambda d: ([DATA, IN, np.dtype(d).type(3)], [np.linspace(-9, 9, 50, dtype=np.float32)], {}),
    ),
    "floats": (
        "DequantizeLinear",
        lambda d: ([DATA, IN, np.dtype(d).type(3)], [integers(5, 4, dtype=d)], {}),
    ),
}


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
@pytest.mark.parametrize("name", CASES)
def test_results_are_those_of_onnxruntime(name: str, dtype: str) -> None:
    """Within a quantum: some of its kernels look results up, or round more than once."""
    operator, case = CASES[name]
    inputs, data, attributes = case(dtype)
    made = model(operator, inputs, data, attributes)
    feed = {f"x{n}": array for n, array in enumerate(data)}
    (expected,) = reference_session(made.SerializeToString()).run(None, feed)
    network = asd.from_onnx(made)
    for graph in (network.graph, optimize(network.graph)):
        assert not any(node.op.on_host for node in graph)
        (found,) = evaluate(graph, feed).values()
        assert found.shape == expected.shape
        apart = np.abs(found.astype(np.float64) - expected.astype(np.float64))
        if expected.dtype == np.float32:
            np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
        else:
            assert apart.max() <= 1 and (apart > 0).mean() < 0.05


def test_each_operator_has_a_case() -> None:
    assert {operator for operator, _ in CASES.values()} == {
        *IMPORT_QUANTIZED,
        *IMPORT_CHANNELS_LAST,
    }


def test_operators_of_its_domain_are_in_its_table() -> None:
    assert {name for name in IMPORTERS if name.startswith(DOMAIN)} == set(IMPORT_CONTRIB)


BLOCK = """<ir_version: 9, opset_import: ["" : 17, "com.microsoft" : 1]>
g (int8[1,8,6,6] x) => (int8[1,5] y) {
    a = QLinearConv<pads=[1,1,1,1]>(x, s, z, w, ws, wz, s, z, b)
    c = QLinearConv<pads=[1,1,1,1]>(a, s, z, w, ws, wz, s, z, b)
    d = com.microsoft.QLinearAdd(c, s, z, x, s, z, t, z)
    e = com.microsoft.QLinearGlobalAveragePool<channels_last=0>(d, t, z, s, z)
    f = Flatten(e)
    y = com.microsoft.QGemm(f, s, z, v, ws, wz, , t, z)
}"""


def test_kernels_leave_bytes_that_units_read() -> None:
    """Of signed bytes each kernel leaves those that the next one multiplies: 128 higher."""
    made = onnx.parser.parse_model(BLOCK)
    constants = {
        "s": IN, "t": OUT, "z": np.int8(-4), "wz": np.int8(0), "ws": np.float32(0.01),
        "w": integers(8, 8, 3, 3, dtype="int8"), "v": integers(8, 5, dtype="int8"),
        "b": integers(8, dtype="int16").astype(np.int32),
    }  # fmt: skip
    made.graph.initializer.extend(
        numpy_helper.from_array(np.asarray(a), n) for n, a in constants.items()
    )
    found = extract(asd.from_onnx(made))
    types = found.graph.types
    layers = [node for node in found.graph.nodes if isinstance(node.op, Conv | Dense)]
    assert [tuple(types[n].dtype for n in node.inputs[:2]) for node in layers] == [
        ("uint8", "int8")
    ] * 3
    left = [types[call.output].dtype for call in found.calls]
    assert left[:-1].count("int8") == 0 and len(left) <= 7
    feed = {"x": integers(1, 8, 6, 6, dtype="int8")}
    (expected,) = reference_session(made.SerializeToString()).run(None, feed)
    (result,) = evaluate(found.graph, feed).values()
    assert np.abs(result.astype(int) - expected.astype(int)).max() <= 1


def test_sixteen_unsigned_bits() -> None:
    """What the quantiser writes for models of opsets that have no such type."""
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"], domain=DOMAIN),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["d"], domain=DOMAIN),
        helper.make_node("DequantizeLinear", ["W", "s", "z"], ["w"], domain=DOMAIN),
        helper.make_node("MatMul", ["d", "w"], ["y"]),
    ]
    constants = {"s": IN / 256, "z": np.uint16(40000), "W": integers(5, 3, dtype="uint16")}
    initial = [numpy_helper.from_array(np.asarray(a), name) for name, a in constants.items()]
    given = helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [4, 5])
    result = helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [4, 3])
    graph = helper.make_graph(nodes, "g", [given], [result], initial)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(DOMAIN, 1)]
    written = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    data = {"x": np.random.default_rng(0).normal(size=(4, 5)).astype(np.float32) * 9}  # some clip
    (expected,) = reference_session(written.SerializeToString()).run(None, data)
    (found,) = evaluate(asd.from_onnx(written).graph, data).values()
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
