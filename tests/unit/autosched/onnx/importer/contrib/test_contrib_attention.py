"""Attention, MultiHeadAttention and QAttention, against onnxruntime."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

import autosched as asd
from autosched.graph.ops.movement import Triangle
from autosched.graph.optimize import optimize

pytest.importorskip("onnx")

from tests.support.contrib_models import (
    check_against_onnxruntime,
    contrib_model,
    floats,
    inputs_of,
    results_of,
)
from tests.support.onnx_sessions import reference_session

BATCH, ROWS, FEATURES, HEADS, SIZE, PAST = 2, 5, 7, 3, 4, 6
HIDDEN = HEADS * SIZE
WEIGHT, BIAS = floats(FEATURES, 3 * HIDDEN), floats(3 * HIDDEN)
DATA = floats(BATCH, ROWS, FEATURES)
RNG = np.random.default_rng(0)
Mask = Callable[[int], Any]

# By their names, masks for a number of columns; at least one column of each row is seen.
MASKS: Mapping[str, Mask] = {
    "none": lambda columns: None,
    "columns": lambda columns: np.arange(columns) % 3 != np.array([[1], [2]]),
    "rows": lambda columns: np.arange(columns) % 3 != 1 + np.arange(10).reshape(2, 5, 1) % 2,
    "ends": lambda columns: np.array([2, columns - 1]),
}
STARTS: Mask = lambda columns: np.array([4, columns, 1, 2])  # noqa: E731


def mask_of(name: str, columns: int) -> Any:
    mask = (MASKS | {"ends and starts": STARTS})[name](columns)
    return None if mask is None else mask.astype(np.int32)


@pytest.mark.parametrize("causal", [0, 1])
@pytest.mark.parametrize("past", [False, True])
@pytest.mark.parametrize("mask", MASKS)
def test_attention(causal: int, past: bool, mask: str) -> None:
    columns = ROWS + (PAST if past else 0)
    before = floats(2, BATCH, HEADS, PAST, SIZE) if past else None
    inputs = [DATA, WEIGHT, BIAS, mask_of(mask, columns), before]
    attributes = {"num_heads": HEADS, "unidirectional": causal}
    outputs = ("float32", "float32")
    check_against_onnxruntime("Attention", inputs, attributes, [1, 2], outputs)


@pytest.mark.parametrize("causal", [0, 1])
@pytest.mark.parametrize("mask", ["none", "columns"])
@pytest.mark.parametrize("extents", [(BATCH, HEADS), (1, 1), (1, HEADS)])
def test_attention_with_a_bias_of_scores(causal: int, mask: str, extents: tuple[int, int]) -> None:
    bias = floats(*extents, ROWS, ROWS)
    inputs = [DATA, WEIGHT, BIAS, mask_of(mask, ROWS), None, bias]
    attributes = {"num_heads": HEADS, "unidirectional": causal}
    check_against_onnxruntime("Attention", inputs, attributes, [1, 2])


@pytest.mark.parametrize("past", [False, True])
def test_attention_between_starts_and_ends(past: bool) -> None:
    columns = ROWS + (PAST if past else 0)
    before = floats(2, BATCH, HEADS, PAST, SIZE) if past else None
    inputs = [DATA, WEIGHT, BIAS, mask_of("ends and starts", columns), before]
    outputs = ("float32", "float32")
    check_against_onnxruntime("Attention", inputs, {"num_heads": HEADS}, [1, 2], outputs)


def test_rows_that_see_nothing_weigh_their_scores_as_in_onnxruntime() -> None:
    """It adds a number; 1e-3 of a score of its size are lost in float32."""
    inputs = [DATA, WEIGHT, BIAS, np.zeros((BATCH, ROWS), np.int32)]
    check_against_onnxruntime("Attention", inputs, {"num_heads": HEADS}, [1, 2], tolerance=2e-3)


@pytest.mark.parametrize(
    "attributes",
    [
        {"scale": 0.7, "unidirectional": 1},
        {"mask_filter_value": float(np.finfo(np.float32).min)},
        {"do_rotary": 0, "past_present_share_buffer": 0},
    ],
)
def test_attributes_of_attention(attributes: Mapping[str, Any]) -> None:
    inputs = [DATA, WEIGHT, BIAS, mask_of("columns", ROWS)]
    given = {"num_heads": HEADS, **attributes}
    check_against_onnxruntime("Attention", inputs, given, [1, 2])


def test_values_of_another_size() -> None:
    total = 2 * HIDDEN + HEADS * 5
    inputs = [DATA, floats(FEATURES, total), floats(total)]
    attributes = {"num_heads": HEADS, "qkv_hidden_sizes": [HIDDEN, HIDDEN, HEADS * 5]}
    check_against_onnxruntime("Attention", inputs, attributes, [1])


def test_attention_without_a_bias() -> None:
    """onnxruntime 1.31 reads memory that is not there: a bias of zeros is the same."""
    zeros = [DATA, WEIGHT, np.zeros_like(BIAS)]
    reference = contrib_model("Attention", zeros, {"num_heads": HEADS}, [1, 2])
    session = reference_session(reference.SerializeToString())
    (expected,) = session.run(None, {"x0": DATA})
    model = contrib_model("Attention", zeros[:2], {"num_heads": HEADS}, [1])
    for found in results_of(model, {"x0": DATA}):
        np.testing.assert_allclose(found["y0"], expected, rtol=1e-5, atol=1e-5)


def test_causal_masks_are_triangles() -> None:
    attributes = {"num_heads": HEADS, "unidirectional": 1}
    model = contrib_model("Attention", [DATA, WEIGHT, BIAS], attributes, [1, 2])
    graph = optimize(asd.from_onnx(model).graph)
    assert [n.op for n in graph if isinstance(n.op, Triangle)] == [Triangle(False, 0, hidden=True)]


@pytest.mark.parametrize("causal", [0, 1])
@pytest.mark.parametrize("past", [False, True])
@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("added", [False, True])
def test_multi_head_attention(causal: int, past: bool, mask: str, added: bool) -> None:
    columns = ROWS + (PAST if past else 0)
    size = SIZE if past else 5
    inputs = [
        floats(BATCH, ROWS, HIDDEN), floats(BATCH, ROWS, HIDDEN, seed=1),
        floats(BATCH, ROWS, HEADS * size), floats(2 * HIDDEN + HEADS * size),
        mask_of(mask, columns), floats(1, HEADS, ROWS, columns) if added else None,
    ]  # fmt: skip
    if past:
        inputs += [floats(BATCH, HEADS, PAST, SIZE, seed=n) for n in range(2)]
    attributes = {"num_heads": HEADS, "unidirectional": causal}
    outputs = ("float32",) * 3
    check_against_onnxruntime("MultiHeadAttention", inputs, attributes, [3], outputs)


@pytest.mark.parametrize("mask", ["none", "columns", "rows"])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("as_heads", [False, True])
def test_attention_to_another_sequence(mask: str, bias: bool, as_heads: bool) -> None:
    columns = 9
    shape = (BATCH, HEADS, columns, SIZE) if as_heads else (BATCH, columns, HIDDEN)
    inputs = [
        floats(BATCH, ROWS, HIDDEN), floats(*shape, seed=1), floats(*shape, seed=2),
        BIAS if bias else None, mask_of(mask, columns),
    ]  # fmt: skip
    check_against_onnxruntime("MultiHeadAttention", inputs, {"num_heads": HEADS}, [3])


@pytest.mark.parametrize("own", [False, True], ids=["keys and values", "queries, too"])
@pytest.mark.parametrize("mask", ["none", "columns"])
def test_heads_that_are_packed(own: bool, mask: str) -> None:
    """onnxruntime takes them on GPUs only: it computes the same of what they hold."""
    columns = ROWS if own else 9
    shapes = [(BATCH, n, HEADS, SIZE) for n in (ROWS, columns, columns)]
    parts = [floats(*shape, seed=n) for n, shape in enumerate(shapes)]
    apart = [array.reshape(*array.shape[:2], HIDDEN) for array in parts]
    packed = [np.stack(parts, 3)] if own else [apart[0], np.stack(parts[1:], 3)]
    packed += [None] * (4 - len(packed))
    seen = mask_of(mask, columns)
    attributes = {"num_heads": HEADS}
    separate = [*apart, None, seen]
    reference = contrib_model("MultiHeadAttention", separate, attributes)
    session = reference_session(reference.SerializeToString())
    (expected,) = session.run(None, inputs_of(reference, separate))
    inputs = [*packed, seen]
    model = contrib_model("MultiHeadAttention", inputs, attributes)
    for found in results_of(model, inputs_of(model, inputs)):
        np.testing.assert_allclose(found["y0"], expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("columns", [False, True])
@pytest.mark.parametrize("past", [False, True])
@pytest.mark.parametrize("causal", [0, 1])
def test_attention_of_bytes(columns: bool, past: bool, causal: int) -> None:
    data = RNG.integers(0, 256, (BATCH, ROWS, FEATURES)).astype(np.uint8)
    weight = RNG.integers(-60, 60, WEIGHT.shape).astype(np.int8)
    scale = np.linspace(0.01, 0.02, 3 * HIDDEN) if columns else np.asarray(0.01)
    zero = np.zeros(3 * HIDDEN, np.int8) if columns else np.asarray(3, np.int8)
    inputs = [
        data, weight, BIAS, np.asarray(0.02, np.float32), scale.astype(np.float32),
        mask_of("columns", ROWS + (PAST if past else 0)), np.asarray(128, np.uint8), zero,
        floats(2, BATCH, HEADS, PAST, SIZE) if past else None,
    ]  # fmt: skip
    attributes = {"num_heads": HEADS, "unidirectional": causal}
    outputs = ("float32", "float32")
    check_against_onnxruntime("QAttention", inputs, attributes, [1, 2, 3, 4, 6, 7], outputs)


def test_half_floats() -> None:
    """Scores that are added to stay in their range, with any filter."""
    inputs = [array.astype(np.float16) for array in (DATA, WEIGHT, BIAS)]
    inputs.append(mask_of("columns", ROWS))
    attributes = {"num_heads": HEADS, "mask_filter_value": float(np.finfo(np.float32).min)}
    model = contrib_model("Attention", inputs, attributes, [1, 2], ["float16"])
    wide = [DATA, WEIGHT, BIAS, inputs[3]]
    reference = contrib_model("Attention", wide, attributes, [1, 2])
    session = reference_session(reference.SerializeToString())
    (expected,) = session.run(None, inputs_of(reference, wide))
    for found in results_of(model, inputs_of(model, inputs)):
        np.testing.assert_allclose(found["y0"], expected, atol=2e-2)


QUERY = floats(BATCH, ROWS, HIDDEN)


@pytest.mark.parametrize(
    ("operator", "inputs", "attributes", "message"),
    [
        ("Attention", [DATA, WEIGHT, BIAS], {"do_rotary": 1}, "attribute do_rotary = 1"),
        (
            "Attention", [DATA, WEIGHT, BIAS], {"past_present_share_buffer": 1},
            "attribute past_present_share_buffer = 1",
        ),
        (
            "Attention", [DATA, WEIGHT, BIAS, np.ones((BATCH, 1, 9, 9), np.int32)], {}, "a mask",
        ),
        ("Attention", [DATA, WEIGHT, BIAS], {"num_heads": 5}, "5 heads"),
        ("MultiHeadAttention", [QUERY], {}, "a query without key and value"),
        (
            "MultiHeadAttention", [floats(2, 5, HEADS, 3, SIZE), None, None, BIAS], {},
            r"input 3 \(bias\)",
        ),
        (
            "MultiHeadAttention", [QUERY] * 3 + [None] * 5 + [np.array([1], np.int32)], {},
            "past_sequence_length",
        ),
        (
            "MultiHeadAttention", [QUERY, floats(BATCH, 9, HIDDEN), floats(BATCH, 9, HIDDEN)],
            {"unidirectional": 1}, "unidirectional, 5 queries with 9 new keys",
        ),
    ],
)  # fmt: skip
def test_refused(
    operator: str, inputs: list[Any], attributes: Mapping[str, Any], message: str
) -> None:
    model = contrib_model(operator, inputs, {"num_heads": HEADS, **attributes})
    with pytest.raises(asd.AutoschedError, match=f"com.microsoft.{operator}.*{message}"):
        asd.from_onnx(model)
