"""Parameters of quantised layers that no quantiser should write: never a wrong number."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

import autosched as asd

onnx = pytest.importorskip("onnx")

from onnx.reference import ReferenceEvaluator  # noqa: E402

LAYER = """<ir_version: 9, opset_import: ["" : 19]>
g (float[3,8] x) => (float[3,4] y) {{
    a = QuantizeLinear(x, xs, xz) b = DequantizeLinear(a, xs, xz)
    c = DequantizeLinear<axis={axis}>(w, ws, wz)
    d = MatMul(b, c)
    e = QuantizeLinear(d, ys, yz) y = DequantizeLinear(e, ys, yz)
}}"""
USUAL: Mapping[str, Any] = {
    "xs": np.float32(0.02), "xz": np.uint8(128), "ys": np.float32(0.05), "yz": np.uint8(100),
    "ws": np.full(4, 0.01, np.float32), "wz": np.zeros(4, np.int8),
}  # fmt: skip


def layer(axis: int = 1, **changed: Any) -> Any:
    """A product of bytes between quantisations."""
    rng = np.random.default_rng(1)
    constants = {"w": rng.integers(-127, 128, (8, 4)).astype(np.int8), **USUAL, **changed}
    model = onnx.parser.parse_model(LAYER.format(axis=axis))
    arrays = {name: np.asarray(value) for name, value in constants.items()}
    model.graph.initializer.extend(onnx.numpy_helper.from_array(a, n) for n, a in arrays.items())
    return model


def scales(*, at: int, value: float) -> np.ndarray:
    found = np.full(4, 0.01, np.float32)
    found[at] = value
    return found


CASES: Mapping[str, Mapping[str, Any]] = {
    "scale of data infinite": {"xs": np.float32(np.inf)},
    "scale of a channel 0": {"ws": scales(at=2, value=0.0)},
    "scale of a channel below 0": {"ws": scales(at=1, value=-0.01)},
    "zero points at the ends": {
        "xz": np.uint8(255), "wz": np.full(4, -128, np.int8), "yz": np.uint8(0)
    },
    "a zero point a channel": {"wz": np.array([-128, 0, 1, 127], np.int8)},
    "a scale a row of weights": {
        "axis": 0, "ws": np.linspace(0.01, 0.1, 8, dtype=np.float32), "wz": np.zeros(8, np.int8)
    },
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_results_are_those_of_the_definition(name: str) -> None:
    """NaN and infinities included; within one quantum."""
    model, rng = layer(**CASES[name]), np.random.default_rng(0)
    data = {"x": rng.standard_normal((3, 8), dtype=np.float32)}
    with np.errstate(all="ignore"):
        (wanted,) = ReferenceEvaluator(model).run(None, data)
    found = asd.compile(asd.from_onnx(model), effort="none").run(data)["y"]
    quantum = abs(float(CASES[name].get("ys", USUAL["ys"])))
    np.testing.assert_array_equal(np.isnan(found), np.isnan(wanted))
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1.001 * quantum)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        (
            {"ws": np.ones((8, 4), np.float32), "wz": np.zeros((8, 4), np.int8)},
            "vector or a number",
        ),
        ({"ws": scales(at=0, value=np.nan)}, "NaN"),
        ({"xz": np.float32(3)}, "xz"),
        ({"xs": np.float32(0)}, "'xs' are 0"),
        ({"ys": np.float32(0)}, "'ys' are 0"),
        ({"ys": np.float32(np.nan)}, "'ys' are nan"),
    ],
    ids=["granularity", "NaN", "type", "data / 0", "results / 0", "results / NaN"],
)
def test_others_are_one_error(changed: Mapping[str, Any], said: str) -> None:
    with pytest.raises(asd.AutoschedError, match=said):
        asd.compile(asd.from_onnx(layer(**changed)), effort="none")
