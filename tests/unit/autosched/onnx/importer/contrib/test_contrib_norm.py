"""Norms of sums, embeddings and rotations, against onnxruntime."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

import autosched as asd

onnx = pytest.importorskip("onnx")

from tests.support.contrib_models import (  # noqa: E402
    check_against_onnxruntime,
    contrib_model,
    floats,
    inputs_of,
    results_of,
)
from tests.support.onnx_sessions import reference_session  # noqa: E402

SUM_TOO = ("float32", "", "", "float32")


@pytest.mark.parametrize("skip", [(2, 5, 7), (1, 5, 7), (5, 7)])
@pytest.mark.parametrize("beta", [False, True])
@pytest.mark.parametrize("bias", [False, True])
def test_layer_norm_of_a_sum(skip: tuple[int, ...], beta: bool, bias: bool) -> None:
    inputs = [
        floats(2, 5, 7), floats(*skip, seed=1), floats(7), floats(7, seed=1) if beta else None,
        floats(7, seed=2) if bias else None,
    ]  # fmt: skip
    operator, constants = "SkipLayerNormalization", [2, 3, 4]
    check_against_onnxruntime(operator, inputs, {"epsilon": 1e-3}, constants, SUM_TOO)


@pytest.mark.parametrize("shape", [(2, 5, 7), (5, 7)])
@pytest.mark.parametrize("bias", [False, True])
def test_norm_of_a_sum_without_means(shape: tuple[int, ...], bias: bool) -> None:
    inputs = [floats(*shape), floats(*shape, seed=1), floats(7), floats(7, seed=2)]
    operator = "SkipSimplifiedLayerNormalization"
    check_against_onnxruntime(operator, inputs[: 4 if bias else 3], {}, [2], SUM_TOO)


@pytest.mark.parametrize("segments", [False, True])
@pytest.mark.parametrize("mask", [False, True])
@pytest.mark.parametrize("positions", [0, 1, 2])
def test_embeddings(segments: bool, mask: bool, positions: int) -> None:
    rng = np.random.default_rng(0)

    def integers(high: int, rows: int = 2) -> Any:
        return rng.integers(0, high, (rows, 5)).astype(np.int32)

    inputs = [
        integers(11), integers(2) if segments else None, floats(11, 7), floats(9, 7),
        floats(2, 7) if segments else None, floats(7), floats(7, seed=1),
        np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 0]], np.int32) if mask else None,
        integers(9, positions) if positions else None,
    ]  # fmt: skip
    outputs = ("float32", "int32", "float32")
    operator, constants = "EmbedLayerNormalization", [2, 3, 4, 5, 6]
    check_against_onnxruntime(operator, inputs, {"epsilon": 1e-5}, constants, outputs)


@pytest.mark.parametrize("segments", [False, True])
def test_embeddings_of_bytes(segments: bool) -> None:
    rng = np.random.default_rng(0)
    shapes = [(11, 7), (9, 7), (2, 7) if segments else None, (7,), (7,)]

    def of_each(make: Any) -> list[Any]:
        return [None if shape is None else make(shape) for shape in shapes]

    inputs = [
        rng.integers(0, 11, (2, 5)).astype(np.int32),
        rng.integers(0, 2, (2, 5)).astype(np.int32) if segments else None,
        *of_each(lambda shape: rng.integers(0, 256, shape).astype(np.uint8)),
        np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 0]], np.int32),
        *of_each(lambda shape: np.asarray(0.01 + 0.01 * len(shape), np.float32)),
        *of_each(lambda shape: np.asarray(120 + shape[0], np.uint8)),
    ]
    constants = [n for n in range(2, 18) if n != 7]
    operator, outputs = "QEmbedLayerNormalization", ("float32", "int32")
    check_against_onnxruntime(operator, inputs, {"epsilon": 1e-5}, constants, outputs)


COSINES, SINES = floats(20, 4), floats(20, 4, seed=1)


@pytest.mark.parametrize("interleaved", [0, 1])
@pytest.mark.parametrize("offset", [False, True])
@pytest.mark.parametrize(
    ("shape", "attributes"),
    [
        ((2, 5, 24), {}),
        ((2, 5, 24), {"num_heads": 3}),
        ((2, 3, 5, 8), {}),
        ((2, 5, 30), {"num_heads": 3, "rotary_embedding_dim": 8}),
        ((2, 3, 5, 10), {"num_heads": 3, "rotary_embedding_dim": 8}),
    ],
)
def test_rotation(
    shape: tuple[int, ...], attributes: Mapping[str, Any], offset: bool, interleaved: int
) -> None:
    rows = np.random.default_rng(0).integers(0, 20, (2, 5))
    inputs = [floats(*shape), np.array([3]) if offset else rows, COSINES, SINES]
    chosen = {**attributes, "interleaved": interleaved}
    check_against_onnxruntime("RotaryEmbedding", inputs, chosen, constants=[2, 3])


def group_norm(data: Any, groups: int, silu: bool) -> Any:
    """Of channels that are second."""
    parts = data.reshape(data.shape[0], groups, -1).astype(np.float64)
    mean, variance = parts.mean(2, keepdims=True), parts.var(2, keepdims=True)
    value = ((parts - mean) / np.sqrt(variance + 1e-4)).reshape(data.shape)
    value = value * GAMMA[:, None, None] + BETA[:, None, None]
    return value / (1 + np.exp(-value)) if silu else value


GAMMA, BETA = floats(6), floats(6, seed=1)


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("silu", [False, True])
@pytest.mark.parametrize("skip", [None, (2, 6, 5, 4), (2, 6, 1, 1), (2, 6)])
@pytest.mark.parametrize("bias", [False, True])
def test_group_norm(last: bool, silu: bool, skip: tuple[int, ...] | None, bias: bool) -> None:
    """onnxruntime has no kernel for a CPU: NumPy computes what its documentation says."""
    first, second = (0, 2, 3, 1), (0, 3, 1, 2)
    data = floats(2, 6, 5, 4)
    total, inputs = data, [data, GAMMA, BETA]
    if skip is not None:
        residual = floats(*skip, seed=2)
        total = data + residual.reshape(*skip, *(1,) * (4 - len(skip)))
        inputs.append(residual)
        if bias:
            inputs.append(floats(6, seed=3))
            total = total + inputs[-1][:, None, None]
    if last:
        inputs = [a.transpose(first) if a.ndim == 4 else a for a in inputs]
    attributes = {"groups": 3, "activation": int(silu), "channels_last": int(last), "epsilon": 1e-4}
    operator = "GroupNorm" if skip is None else "SkipGroupNorm"
    outputs = ("float32",) if skip is None else ("float32", "float32")
    model = contrib_model(operator, inputs, attributes, outputs=outputs)
    expected = [group_norm(total, 3, silu), total]
    for found in results_of(model, inputs_of(model, inputs)):
        for values, wanted in zip(found.values(), expected, strict=False):
            shown = values.transpose(second) if last else values
            np.testing.assert_allclose(shown, wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("operator", ["LayerNormalization", "SimplifiedLayerNormalization"])
def test_norms_in_the_default_domain_of_an_opset_without_them(operator: str) -> None:
    """The optimiser writes them so."""
    inputs = [floats(2, 5, 7), floats(7)]
    attributes = {"axis": -1, "epsilon": 1e-3}
    model = contrib_model(operator, inputs, attributes, [1], domain="", opset=13)
    del model.opset_import[1:]
    before = model.SerializeToString()
    (expected,) = reference_session(before).run(None, {"x0": inputs[0]})
    for found in results_of(model, {"x0": inputs[0]}):
        np.testing.assert_allclose(found["y0"], expected, rtol=1e-5, atol=1e-5)
    assert model.SerializeToString() == before


@pytest.mark.parametrize(
    ("operator", "inputs", "attributes", "message"),
    [
        (
            "SkipLayerNormalization", [floats(1, 5, 7), floats(2, 5, 7), floats(7)], {},
            "a residual",
        ),
        (
            "RotaryEmbedding", [floats(2, 5, 24), np.array([0]), COSINES, SINES], {"scale": 2.0},
            "attribute scale = 2.0",
        ),
        (
            "RotaryEmbedding", [floats(2, 5, 24), np.array([0, 1]), COSINES, SINES], {},
            "position_ids",
        ),
        (
            "GroupNorm", [floats(1, 4, 4, 6), GAMMA, BETA], {"groups": 4, "activation": 0},
            "4 groups of 6 channels",
        ),
        (
            "GroupNorm", [floats(1, 4, 4, 6), GAMMA, BETA], {"groups": 3, "activation": 2},
            "activation 2",
        ),
    ],
)  # fmt: skip
def test_refused(
    operator: str, inputs: list[Any], attributes: Mapping[str, Any], message: str
) -> None:
    with pytest.raises(asd.AutoschedError, match=f"com.microsoft.{operator}.*{message}"):
        asd.from_onnx(contrib_model(operator, inputs, attributes))


def test_means_that_are_read_are_refused() -> None:
    inputs = [floats(2, 5, 7), floats(2, 5, 7), floats(7)]
    outputs = ("float32", "float32")
    model = contrib_model("SkipLayerNormalization", inputs, {}, outputs=outputs)
    with pytest.raises(asd.AutoschedError, match="its output 'y1' is used"):
        asd.from_onnx(model)
