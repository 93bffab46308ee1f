"""The importer of DFT, against NumPy's transforms."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from autosched.onnx.importer import from_onnx
from tests.support.onnx_reference import compare, node_model

RNG = np.random.default_rng(6)
REAL = RNG.standard_normal((2, 12, 5, 1)).astype(np.float32)
COMPLEX = RNG.standard_normal((2, 12, 5, 2)).astype(np.float32)


def _transformed(
    data: np.ndarray, axis: int, length: int | None, inverse: bool, onesided: bool
) -> np.ndarray:
    wide = data.astype(np.float64)
    values = wide[..., 0] + 1j * wide[..., 1] if data.shape[-1] == 2 else wide[..., 0] + 0j
    function = np.fft.ifft if inverse else np.fft.fft
    found = function(values, length, axis)
    if onesided:
        found = found.take(range(found.shape[axis] // 2 + 1), axis)
    return np.stack([found.real, found.imag], -1).astype(np.float32)


@pytest.mark.parametrize(
    ("data", "inverse", "onesided", "length"),
    [
        (REAL, 0, 0, None),
        (REAL, 0, 1, None),
        (REAL, 0, 1, 16),
        (REAL, 1, 0, 9),
        (COMPLEX, 0, 0, None),
        (COMPLEX, 1, 0, None),
        (COMPLEX, 0, 0, 9),
        (COMPLEX, 1, 0, 15),
    ],
    ids=lambda given: given.shape[-1] if isinstance(given, np.ndarray) else given,
)
@pytest.mark.parametrize("opset", [17, 20])
def test_transforms(
    data: np.ndarray, inverse: int, onesided: int, length: int | None, opset: int
) -> None:
    """A length cuts the data, or adds zeros to them."""
    attributes: dict[str, Any] = {"inverse": inverse, "onesided": onesided}
    constants = {} if length is None else {"n": np.asarray(length, np.int64)}
    names = ["x", *constants]
    if opset == 17:
        attributes["axis"] = 1
    else:
        constants["axis"] = np.asarray(1, np.int64)
        names = ["x", "n" if length is not None else "", "axis"]
    model = node_model("DFT", attributes, {"x": data}, constants, opset, order=names)
    expected = _transformed(data, 1, length, bool(inverse), bool(onesided))
    compiled = opset == 17 and length is None
    network = compare(model, {"x": data}, compiled, [expected], rtol=1e-4)
    assert not any(node.op.on_host for node in network.graph.nodes)


def test_the_axis_of_opset_20_is_the_last_but_one() -> None:
    model = node_model("DFT", {}, {"x": COMPLEX}, {}, 20)
    compare(model, {"x": COMPLEX}, False, [_transformed(COMPLEX, 2, None, False, False)], 1e-4)


@pytest.mark.parametrize(
    ("read", "length", "parts", "inverse", "onesided"),
    [
        (64, 64, 1, False, True),
        (256, 256, 2, False, False),
        (100, 120, 1, False, True),
        (90, 90, 2, True, False),
        (210, 200, 1, False, False),
        (1000, 4096, 1, False, True),
        (127, 127, 2, False, False),
    ],
)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_long_transforms_are_made_of_short_ones(
    read: int, length: int, parts: int, inverse: bool, onesided: bool, dtype: str
) -> None:
    data = RNG.standard_normal((2, read, 3, parts)).astype(dtype)
    attributes = {"axis": 1, "inverse": int(inverse), "onesided": int(onesided)}
    constants = {"n": np.asarray(length, np.int64)}
    model = node_model("DFT", attributes, {"x": data}, constants, 17, order=["x", "n"])
    expected = _transformed(data, 1, length, inverse, onesided).astype(dtype)
    network = compare(model, {"x": data}, length == 120, [expected], rtol=1e-4)
    products = [node for node in network.graph.nodes if node.op.kind in ("einsum", "matmul")]
    assert len(products) == (1 if length == 127 else 2)
    assert not any(node.op.on_host for node in network.graph.nodes)


@pytest.mark.parametrize("length", [256, 100])
def test_frames_of_a_signal_with_a_window(length: int) -> None:
    signal = (RNG.standard_normal((2, 700)) * 0.1).astype(np.float32)
    window = np.hanning(length).astype(np.float32)
    constants = {"step": np.asarray(60, np.int64), "window": window}
    model = node_model("STFT", {}, {"x": signal}, constants, 17, order=["x", "step", "window"])
    frames = [signal[:, at : at + length] * window for at in range(0, 701 - length, 60)]
    found = np.fft.rfft(np.stack(frames, 1).astype(np.float64))
    expected = np.stack([found.real, found.imag], -1).astype(np.float32)
    network = compare(model, {"x": signal}, length == 256, [expected], rtol=1e-4)
    products = sum(node.op.kind in ("einsum", "matmul") for node in network.graph.nodes)
    assert products == (2 if length == 256 else 1)


@pytest.mark.parametrize("length", [4099, 1 << 18])
def test_transforms_of_too_long_parts_run_on_the_host(length: int) -> None:
    data = np.ones((1, length, 1), np.float32)
    model = node_model("DFT", {"axis": 1}, {"x": data}, {}, 17)
    assert [node.op.on_host for node in from_onnx(model).graph.nodes] == [True]
