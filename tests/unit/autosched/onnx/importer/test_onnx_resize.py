"""Resize and Upsample of the importer, against the reference of the format."""

from typing import Any

import numpy as np
import pytest

import autosched as asd

onnx = pytest.importorskip("onnx")
from onnx.reference import ReferenceEvaluator  # noqa: E402

from autosched.graph.evaluate import evaluate  # noqa: E402
from tests.support.onnx_cases import check, node_model, values  # noqa: E402

COORDINATES = ("half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners",
               "asymmetric")  # fmt: skip


@pytest.mark.parametrize("coordinates", COORDINATES)
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_resize(coordinates: str, mode: str) -> None:
    data = [values(1, 2, 4, 5)]
    attributes = {"mode": mode, "coordinate_transformation_mode": coordinates}
    for scales in ([1, 1, 2, 1.7], [1, 1, 0.6, 0.55]):
        constants = [None, np.array(scales, np.float32)]
        check(node_model("Resize", data, constants, 19, **attributes), data)
    # onnx's reference takes a single element from elsewhere than the specification
    width = 2 if coordinates == "pytorch_half_pixel" else 1
    sizes = [None, None, np.array([1, 2, 7, width])]
    check(node_model("Resize", data, sizes, 19, **attributes), data)


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_a_single_element_is_the_first_as_pytorch_has_it(mode: str) -> None:
    data = [values(5)]
    attributes = {"mode": mode, "coordinate_transformation_mode": "pytorch_half_pixel"}
    for constants in ([None, np.array([0.3], np.float32)], [None, None, np.array([1])]):
        model = node_model("Resize", data, constants, 19, **attributes)
        (result,) = evaluate(asd.from_onnx(model).graph, {"x0": data[0]}).values()
        np.testing.assert_array_equal(result, data[0][:1])


@pytest.mark.parametrize("rounding", ["floor", "ceil", "round_prefer_floor", "round_prefer_ceil"])
def test_resize_to_the_nearest(rounding: str) -> None:
    data = [values(1, 2, 4, 5, dtype="int32")]
    constants = [None, None, np.array([8, 10])]
    attributes = {"axes": [2, 3], "nearest_mode": rounding, "mode": "nearest"}
    check(node_model("Resize", data, constants, 19, **attributes), data)
    policy = {"keep_aspect_ratio_policy": "not_larger", "axes": [3, 2], "mode": "nearest"}
    check(node_model("Resize", data, constants, 19, **policy), data)


@pytest.mark.parametrize(
    ("scale", "attributes", "element", "origin"),
    [
        (1.7, {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}, 17, 10),
        (0.6, {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}, 3, 5),
        (0.3, {"nearest_mode": "round_prefer_ceil"}, 4, 15),
        (1.3, {"nearest_mode": "round_prefer_floor"}, 19, 14),
    ],
)
def test_scales_mean_what_they_say(
    scale: float, attributes: dict[str, Any], element: int, origin: int
) -> None:
    """Exact arithmetic decides, although 1.7 as a float32 is a little more than that."""
    data = [np.arange(19, dtype=np.float32)]
    scales = [None, np.array([scale], np.float32)]
    model = node_model("Resize", data, scales, 19, mode="nearest", **attributes)
    (result,) = evaluate(asd.from_onnx(model).graph, {"x0": data[0]}).values()
    assert result[element] == origin


@pytest.mark.parametrize("mode", ["linear", "cubic"])
@pytest.mark.parametrize("option", ["antialias", "exclude_outside"])
def test_resize_with_wide_kernels(mode: str, option: str) -> None:
    data = [values(1, 1, 8, 9)]
    constants = [None, np.array([1, 1, 0.4, 0.7], np.float32)]
    check(node_model("Resize", data, constants, 19, mode=mode, **{option: 1}), data)


@pytest.mark.parametrize("mode", ["nearest", "linear"])
def test_resize_of_a_region_beyond_the_edges(mode: str) -> None:
    data = [values(1, 1, 5, 6)]
    roi = np.array([0, 0, -0.3, 0.2, 1, 1, 0.6, 1.4], np.float32)
    attributes = {
        "mode": mode,
        "coordinate_transformation_mode": "tf_crop_and_resize",
        "extrapolation_value": 7.0,
    }
    constants = [roi, None, np.array([1, 1, 4, 7])]
    check(node_model("Resize", data, constants, 19, **attributes), data)


@pytest.mark.parametrize(("mode", "opset"), [("nearest", 9), ("linear", 9)])
def test_upsample(mode: str, opset: int) -> None:
    data = [values(1, 2, 3, 4)]
    scales = np.array([1, 1, 2, 3], np.float32)
    network = asd.from_onnx(node_model("Upsample", data, [scales], opset, mode=mode))
    same = {"mode": mode, "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    reference = ReferenceEvaluator(node_model("Resize", data, [None, scales], 19, **same))
    expected = reference.run(None, {"x0": data[0]})[0]
    np.testing.assert_allclose(evaluate(network.graph, {"x0": data[0]})["y0"], expected, rtol=1e-5)


@pytest.mark.parametrize(
    ("opset", "scale", "expected"),
    [(10, 0.6, [0, 2, 4, 5, 7, 9]), (10, 1.5, [0, 0, 1, 2, 2, 3, 4, 4, 5, 6, 6, 7, 8, 8, 9])],
)
def test_smaller_images_of_opset_10_are_rounded_up(
    opset: int, scale: float, expected: list[int]
) -> None:
    data = np.arange(10, dtype=np.float32)
    model = node_model("Resize", [data], [np.array([scale], np.float32)], opset, mode="nearest")
    (found,) = evaluate(asd.from_onnx(model).graph, {"x0": data}).values()
    np.testing.assert_array_equal(found, expected)


def test_half_pixels_of_tensorflow() -> None:
    """A mode of opsets 11 and 12: not shifted back."""
    data = np.arange(4, dtype=np.float32)
    attributes = {
        "mode": "nearest",
        "nearest_mode": "floor",
        "coordinate_transformation_mode": "tf_half_pixel_for_nn",
    }
    constants = [np.zeros(0, np.float32), np.array([2.0], np.float32)]
    model = node_model("Resize", [data], constants, 11, **attributes)
    (found,) = evaluate(asd.from_onnx(model).graph, {"x0": data}).values()
    np.testing.assert_array_equal(found, [0, 0, 1, 1, 2, 2, 3, 3])
