"""DynamicQuantizeLSTM, against onnxruntime's own and against an LSTM of the same weights."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import autosched as asd

pytest.importorskip("onnx")

from autosched.graph.errors import ModelImportError
from tests.support.contrib_models import contrib_model, floats
from tests.support.onnx_sessions import reference_session

STEPS, BATCH, FEATURES, HIDDEN = 4, 2, 5, 3
OUTPUTS = ("float32",) * 3


def weight(rng: Any, directions: int, columns: int, each: bool, dtype: str) -> list[Any]:
    """Bytes, scale and zero point."""
    shape = (directions, 4 * HIDDEN) if each else (directions,)
    middle = 128 if dtype == "uint8" else 0
    integers = rng.integers(-99, 99, (directions, columns, 4 * HIDDEN)) + middle
    scale = (0.004 + 0.002 * rng.random(shape)).astype(np.float32)
    return [integers.astype(dtype), scale, np.full(shape, middle + 5 * (not each), dtype)]


def plain(parts: list[Any]) -> Any:
    integers, scale, zero = (a.astype(np.float32) for a in parts)
    scale, zero = (a.reshape(len(integers), 1, -1) for a in (scale, zero))
    return ((integers - zero) * scale).transpose(0, 2, 1)


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("each", [False, True], ids=["one scale", "a scale each"])
@pytest.mark.parametrize("states", [False, True])
@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_states_are_quantised_in_each_step(
    direction: str, each: bool, states: bool, dtype: str
) -> None:
    rng, directions = np.random.default_rng(0), 1 + (direction == "bidirectional")
    w, r = (weight(rng, directions, columns, each, dtype) for columns in (FEATURES, HIDDEN))
    state = floats(directions, BATCH, HIDDEN) if states else None
    last = [floats(directions, 8 * HIDDEN), None, state, state, None]
    data, attributes = floats(STEPS, BATCH, FEATURES), {
        "hidden_size": HIDDEN, "direction": direction,
    }  # fmt: skip
    inputs = [data, w[0], r[0], *last, *w[1:], *r[1:]]
    constants = [1, 2, 3, 8, 9, 10, 11]
    model = contrib_model("DynamicQuantizeLSTM", inputs, attributes, constants, OUTPUTS)
    own = [data, plain(w), plain(r), *last[:4]]
    reference = contrib_model("LSTM", own, attributes, [1, 2, 3], OUTPUTS, domain="")
    feed = {name: array for name, array in (("x0", data), ("x5", state), ("x6", state))}
    feed = {name: array for name, array in feed.items() if array is not None}
    compiled = asd.compile(asd.from_onnx(model), effort="none")
    found = compiled.run(feed)
    for written, tolerance in ((model, 1e-5), (reference, 3e-2)):
        expected = reference_session(written.SerializeToString()).run(None, feed)
        for name, values in zip(("y0", "y1", "y2"), expected, strict=True):
            np.testing.assert_allclose(found[name], values, atol=tolerance)


@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("behind", [100.0, np.nan])
def test_data_behind_all_sequences_do_not_change_scales(known: bool, behind: float) -> None:
    rng = np.random.default_rng(1)
    w, r = (weight(rng, 1, columns, False, "uint8") for columns in (FEATURES, HIDDEN))
    lengths = np.full(BATCH, STEPS - 1, np.int32)
    data = floats(STEPS, BATCH, FEATURES)
    data[-1] = behind
    inputs = [data, w[0], r[0], None, lengths, None, None, None, *w[1:], *r[1:]]
    constants = [1, 2, *([4] if known else []), 8, 9, 10, 11]
    attributes = {"hidden_size": HIDDEN}
    model = contrib_model("DynamicQuantizeLSTM", inputs, attributes, constants, OUTPUTS)
    feed = {"x0": data} if known else {"x0": data, "x4": lengths}
    found = asd.compile(asd.from_onnx(model), effort="none").run(feed)
    expected = reference_session(model.SerializeToString()).run(None, feed)
    for name, values in zip(("y0", "y1", "y2"), expected, strict=True):
        np.testing.assert_allclose(found[name], values, atol=1e-5)


def test_scales_must_fit_the_weights() -> None:
    rng = np.random.default_rng(1)
    w, r = (weight(rng, 1, columns, False, "int8") for columns in (FEATURES, HIDDEN))
    w[1] = np.ones((1, 2), np.float32)
    inputs = [floats(STEPS, BATCH, FEATURES), w[0], r[0], *[None] * 5, *w[1:], *r[1:]]
    constants, attributes = [1, 2, 8, 9, 10, 11], {"hidden_size": HIDDEN}
    model = contrib_model("DynamicQuantizeLSTM", inputs, attributes, constants, OUTPUTS)
    with pytest.raises(ModelImportError, match=r"scales or zero points \[1, 2\] for weights"):
        asd.from_onnx(model)


@pytest.mark.parametrize("op", ["RNN", "GRU", "LSTM"])
def test_data_have_three_dimensions(op: str) -> None:
    rows = {"RNN": 1, "GRU": 3, "LSTM": 4}[op] * HIDDEN
    inputs = [floats(STEPS, FEATURES), floats(1, rows, FEATURES), floats(1, rows, HIDDEN)]
    model = contrib_model(op, inputs, {"hidden_size": HIDDEN}, [1, 2], OUTPUTS[:1], domain="")
    with pytest.raises(ModelImportError, match="have 2 dimensions"):
        asd.from_onnx(model)
