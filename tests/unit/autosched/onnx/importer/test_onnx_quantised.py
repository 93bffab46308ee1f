"""Importers of quantised operators, against onnx's reference implementation."""

from typing import Any

import numpy as np
import pytest

import autosched as asd
from autosched.graph.ops.conv import Conv
from autosched.graph.ops.matmul import MatMul
from autosched.graph.passes.byte_products import byte_products

onnx = pytest.importorskip("onnx")

from onnx.reference import ReferenceEvaluator  # noqa: E402

from tests.support.onnx_cases import check, node_model, run, values  # noqa: E402

SCALES = np.array([0.5, 0.25, 2.0, 0.125], np.float32)  # powers of two: no rounding but the last


def quantised(*shape: int, dtype: str = "uint8") -> Any:
    limits = np.iinfo(dtype)
    rng = np.random.default_rng(len(shape))
    return rng.integers(limits.min, limits.max, shape, endpoint=True).astype(dtype)


@pytest.mark.parametrize("dtype", ["uint8", "int8", "int16"])
def test_quantize_and_dequantize_by_tensor_and_by_slice(dtype: str) -> None:
    x = [values(2, 4, 3) * 40]
    zeros = np.array([0, 3, 100, 7], dtype)
    check(node_model("QuantizeLinear", x, [SCALES[0], zeros[1]], 21), x)
    check(node_model("QuantizeLinear", x, [SCALES, zeros], 21, axis=-2), x)
    q = [quantised(2, 4, 3, dtype=dtype)]
    check(node_model("DequantizeLinear", q, [SCALES[0], zeros[1]], 21), q)
    check(node_model("DequantizeLinear", q, [SCALES, zeros], 21, axis=1), q)


def test_quantisation_rounds_half_to_even_and_saturates() -> None:
    x = [np.array([0.5, 1.5, 2.5, -0.5, 300.0, -1e9, np.inf], np.float32)]
    (found,) = run(node_model("QuantizeLinear", x, [np.float32(1), np.uint8(0)], 13), x)
    assert found.dtype == np.uint8
    np.testing.assert_array_equal(found, [0, 2, 2, 0, 255, 0, 255])


def test_blocks_and_int32() -> None:
    q = [quantised(3, 8, dtype="int8")]
    scales = np.abs(values(3, 4)) + np.float32(0.1)
    check(node_model("DequantizeLinear", q, [scales], 21, axis=1, block_size=2), q)
    x = [values(3, 8)]
    blocks = [2.0 ** np.arange(6, dtype=np.float32).reshape(3, 2) / 64, np.ones((3, 2), np.int8)]
    check(node_model("QuantizeLinear", x, blocks, 21, axis=1, block_size=4), x)
    wide = [values(3, 8, dtype="int32") * 1000]
    check(node_model("DequantizeLinear", wide, [SCALES[0]], 21), wide)


def test_dynamic_quantisation() -> None:
    x = [values(3, 5) * 3]
    check(node_model("DynamicQuantizeLinear", x, opset=11, outputs=3), x)


NUMBERS = [0, -0.0, 1, 0.5, -1.5, 1e-45, -1e-40, 1e-38, 2e-38, 1e-36, 3e38, -3e38, np.inf, -np.inf]


def test_dynamic_quantisation_of_the_ends_of_floats() -> None:
    """Zeros alone, denormal numbers, ranges beyond float32, what is no number: as onnx does."""
    rng = np.random.default_rng(0)
    model = node_model("DynamicQuantizeLinear", [values(5)], opset=11, outputs=3)
    module = asd.compile(asd.from_onnx(model), effort="none", denormals="keep")
    reference = ReferenceEvaluator(model)
    several = [rng.choice(NUMBERS, 5) for _ in range(60)]
    alone = [np.full(5, number) for number in (*NUMBERS, np.nan)]
    for data in (*several, *alone, [np.nan, 1, 2, -3, np.inf]):
        feed = {"x0": np.asarray(data, np.float32)}
        span = max(float(feed["x0"].max()), 0) - min(float(feed["x0"].min()), 0)
        if 0 < span < 255e-45:
            continue  # the reference divides by zero
        with np.errstate(all="ignore"):
            expected = reference.run(None, feed)
        for found, wanted in zip(module.run(feed).values(), expected, strict=True):
            np.testing.assert_array_equal(found, wanted, err_msg=str(data))


@pytest.mark.parametrize("kept", ["flush", "keep"])
def test_data_too_small_for_a_scale_are_zeros_of_a_scale_that_is_none(kept: Any) -> None:
    data = [np.array([1e-45, 0, -1e-45], np.float32)]
    model = node_model("DynamicQuantizeLinear", data, opset=11, outputs=3)
    module = asd.compile(asd.from_onnx(model), effort="none", denormals=kept)
    found, scale, zero = module.run({"x0": data[0]}).values()
    np.testing.assert_array_equal(found, [0, 0, 0])
    assert (scale, zero) == (np.float32(1) / np.float32(255), 0)


@pytest.mark.parametrize("scale", [0.0, -0.0, np.nan])
@pytest.mark.parametrize("operator", ["QuantizeLinear", "QLinearMatMul", "QLinearConv"])
def test_values_are_divided_by_no_constant_zero(operator: str, scale: float) -> None:
    one, byte = np.float32(1), np.uint8(1)
    data, places = [quantised(1, 1, 2, 2)], {"QLinearMatMul": 5, "QLinearConv": 5}
    constants: list[Any] = [one, byte, quantised(1, 1, 2, 2), one, byte, one, byte]
    if operator == "QuantizeLinear":
        data, constants = [values(2, 2)], [one, byte]
    constants[places.get(operator, 0)] = np.float32(scale)
    with pytest.raises(asd.AutoschedError, match=f"are -?({scale:g}|0)"):
        asd.from_onnx(node_model(operator, data, constants, 10))


def test_integer_products() -> None:
    data = [quantised(4, 5), quantised(5, 3, dtype="int8")]
    check(node_model("MatMulInteger", data, [np.uint8(12), np.int8(-3)], 10), data)
    check(node_model("MatMulInteger", data, opset=10), data)
    rows = np.arange(4, dtype=np.uint8).reshape(4, 1)
    check(node_model("MatMulInteger", data, [rows, np.arange(3, dtype=np.int8)], 10), data)


ZEROS = {
    "one": lambda dtype: dtype(7),
    "each row": lambda dtype: np.arange(4).astype(dtype),
    "each row of all": lambda dtype: np.arange(8).reshape(2, 4, 1).astype(dtype),
    "none": lambda dtype: None,
}


@pytest.mark.parametrize(
    ("zero", "data", "weight", "point"),
    [
        ("one", "uint8", "int8", 0),
        ("each row", "int8", "uint8", 128),
        ("each row of all", "uint8", "uint8", 128),
        ("none", "int8", "int8", 0),
    ],
)
def test_products_with_constants_are_products_of_bytes(
    zero: str, data: str, weight: str, point: int
) -> None:
    x, w = quantised(2, 4, 9, dtype=data), quantised(9, 5, dtype=weight)
    points = [ZEROS[zero](np.dtype(data).type), np.dtype(weight).type(point)]
    model = node_model("MatMulInteger", [x], [w, *points], 10)
    graph = byte_products(asd.from_onnx(model).graph)
    (product,) = [node for node in graph.nodes if isinstance(node.op, MatMul)]
    assert [graph.types[name].dtype for name in product.inputs] == ["uint8", "int8"]
    wide = x.astype(np.int32)
    if points[0] is not None:
        rows = points[0].astype(np.int32)
        wide = wide - (rows.reshape(-1, 1) if rows.ndim == 1 else rows)
    (found,) = run(model, [x])
    np.testing.assert_array_equal(found, wide @ (w.astype(np.int32) - point))


def test_products_that_are_none_of_bytes_stay_exact() -> None:
    """Columns whose zero points leave more than int8, operands that are no constants."""
    x, w = quantised(4, 9), quantised(9, 5)
    check(node_model("MatMulInteger", [x], [w, np.uint8(0), np.uint8(3)], 10), [x])
    check(node_model("MatMulInteger", [x, w], [np.uint8(1), np.uint8(128)], 10), [x, w])


def test_quantised_matrix_product() -> None:
    data = [quantised(4, 6)]
    constants = [
        SCALES[3], np.uint8(120), quantised(6, 3), SCALES[1], np.uint8(130), np.float32(16),
        np.uint8(118),
    ]  # fmt: skip
    model = node_model("QLinearMatMul", data, constants, 10)
    check(model, data)


def test_convolutions_of_integers() -> None:
    data = [quantised(1, 2, 5, 4)]
    weight = quantised(3, 2, 3, 3)
    attributes = {"pads": [1, 0, 1, 1], "strides": [2, 1]}
    check(node_model("ConvInteger", data, [weight, np.uint8(7)], 10, **attributes), data)
    zeros = np.array([1, 2, 3], np.uint8)
    constants = [
        SCALES[3], np.uint8(7), weight, SCALES[:3], np.full(3, 130, np.uint8), np.float32(256),
        np.uint8(100), zeros.astype(np.int32),
    ]  # fmt: skip
    check(node_model("QLinearConv", data, constants, 10, **attributes), data)


@pytest.mark.parametrize("place", [0, 1, 5, 6])
def test_maps_of_several_zero_points_are_refused(place: int) -> None:
    """ONNX has one for a map: what a model with more of them means is not said."""
    data = [quantised(1, 2, 5, 4)]
    constants = [
        SCALES[3], np.uint8(7), quantised(2, 2, 3, 3, dtype="int8"), SCALES[0], np.int8(0),
        np.float32(2), np.uint8(1),
    ]  # fmt: skip
    constants[place] = np.repeat(constants[place], 2)
    model = node_model("QLinearConv", data, constants, 10)
    with pytest.raises(asd.AutoschedError, match="maps have one scale and one zero point"):
        asd.from_onnx(model)


@pytest.mark.parametrize(
    ("data", "zero", "weight", "point"),
    [
        ("uint8", 0, "int8", 0),
        ("uint8", 9, "uint8", 128),
        ("int8", -3, "int8", np.zeros(5, np.int8)),
    ],
)
@pytest.mark.parametrize(
    "pads",
    [pytest.param([0, 0, 0, 0], marks=pytest.mark.slow), [1, 0, 2, 1]],
    ids=["whole", "padded"],
)
def test_convolutions_with_constants_are_products_of_bytes(
    data: str, zero: int, weight: str, point: Any, pads: list[int]
) -> None:
    x, w = quantised(1, 6, 5, 4, dtype=data), quantised(5, 6, 3, 3, dtype=weight)
    points = [np.dtype(data).type(zero), np.asarray(point, weight)]
    model = node_model("ConvInteger", [x], [w, *points], 10, pads=pads)
    graph = byte_products(asd.from_onnx(model).graph)
    (product,) = [node for node in graph.nodes if isinstance(node.op, Conv)]
    assert [graph.types[name].dtype for name in product.inputs] == ["uint8", "int8"]
    maps = np.pad(
        x.astype(np.int32) - zero, [(0, 0), (0, 0), (pads[0], pads[2]), (pads[1], pads[3])]
    )
    windows = np.lib.stride_tricks.sliding_window_view(maps[0], (3, 3), (1, 2))
    centered = w.astype(np.int32) - np.asarray(point, np.int32).reshape(-1, 1, 1, 1)
    (found,) = run(model, [x])
    np.testing.assert_array_equal(found[0], np.einsum("chwij,ocij->ohw", windows, centered))


def test_products_are_scaled_once() -> None:
    """125 * -123 * 0.02 * 0.01 / 0.05 is -61.5; the float32 scales make it a little more."""
    constants = [
        np.float32(0.02), np.uint8(120), np.array([[-123]], np.int8), np.float32(0.01),
        np.int8(0), np.float32(0.05), np.uint8(200),
    ]  # fmt: skip
    data = [np.array([[245]], np.uint8)]
    check(node_model("QLinearMatMul", data, constants, 10), data)
    (found,) = run(node_model("QLinearMatMul", data, constants, 10), data)
    factor = np.float32(0.02) * np.float32(0.01) / np.float32(0.05)
    np.testing.assert_array_equal(found, [[200 + np.rint(np.float32(-15375) * factor)]])


@pytest.mark.parametrize("opset", [10, 13, 19])
def test_constants_are_dequantised_in_every_opset(opset: int) -> None:
    """onnx's evaluator, which folds constants, knows this operator from opset 19 on only."""
    data = [values(1, 2, 5, 5)]
    weight = quantised(3, 2, 3, 3, dtype="int8")
    model = node_model("DequantizeLinear", [], [weight, np.float32(0.5), np.int8(3)], opset)
    (made,) = model.graph.output
    model.graph.node.append(onnx.helper.make_node("Conv", ["x", made.name], ["y"]))
    tensor = onnx.helper.make_tensor_value_info
    model.graph.input.append(tensor("x", onnx.TensorProto.FLOAT, data[0].shape))
    del model.graph.output[:]
    model.graph.output.append(tensor("y", onnx.TensorProto.FLOAT, None))
    network = asd.from_onnx(model)
    assert not any(node.op.on_host for node in network.graph.nodes)
    (found,) = asd.compile(network, effort="none").run({"x": data[0]}).values()
    floats = (weight.astype(np.float32) - 3) / 2
    windows = np.lib.stride_tricks.sliding_window_view(data[0][0], (3, 3), (1, 2))
    np.testing.assert_allclose(found[0], np.einsum("chwij,ocij->ohw", windows, floats), 1e-4, 1e-4)
