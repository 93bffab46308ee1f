"""Caches without positions, which a decoder reads with its prompt."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

import autosched as asd
from autosched.onnx.importer import from_onnx
from autosched.onnx.importer.empty_past import without_empty_past
from autosched.runtime.errors import InputError
from tests.support.contrib_models import check_against_onnxruntime, floats
from tests.support.onnx_sessions import reference_session

BATCH, ROWS, HEADS, SIZE = 1, 5, 4, 8
ROW = floats(BATCH, ROWS, HEADS * SIZE)
NONE = np.zeros((BATCH, HEADS, 0, SIZE), np.float32)
LAST, TOTAL = np.full(BATCH, ROWS - 1, np.int32), np.array(ROWS, np.int32)

CASES: Mapping[str, tuple[Sequence[Any], Sequence[int], Mapping[str, int], int]] = {
    "Attention": (
        [ROW, floats(HEADS * SIZE, 3 * HEADS * SIZE), floats(3 * HEADS * SIZE), None,
         np.zeros((2, *NONE.shape), np.float32)],
        [1, 2], {"unidirectional": 1}, 2,
    ),
    "GroupQueryAttention": (
        [ROW, ROW, ROW, NONE, NONE, LAST, TOTAL], [6], {"kv_num_heads": HEADS}, 3
    ),
    "MultiHeadAttention": ([ROW, ROW, ROW, None, None, None, NONE, NONE], [], {}, 3),
}  # fmt: skip


@pytest.mark.parametrize("operator", CASES)
def test_attention_without_a_past(operator: str) -> None:
    inputs, constants, attributes, results = CASES[operator]
    kinds = ["float32"] * results
    check_against_onnxruntime(
        operator, inputs, {"num_heads": HEADS, **attributes}, constants, kinds
    )


def _decoder() -> onnx.ModelProto:
    """A step that joins its cache and what is new; both lengths are open."""
    make, info = helper.make_node, helper.make_tensor_value_info
    nodes = [
        make("Concat", ["past", "x"], ["present"], axis=1),
        make("Transpose", ["present"], ["columns"], perm=[0, 2, 1]),
        make("MatMul", ["x", "columns"], ["scores"]),
        make("Softmax", ["scores"], ["weights"], axis=-1),
        make("MatMul", ["weights", "present"], ["y"]),
    ]
    inputs = [info("x", 1, ["b", "rows", 8]), info("past", 1, ["b", "before", 8])]
    outputs = [info("y", 1, ["b", "rows", 8]), info("present", 1, ["b", "all", 8])]
    graph = helper.make_graph(nodes, "decoder", inputs, outputs)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def test_a_cache_without_rows_is_joined_in_no_operator_on_the_host() -> None:
    network = from_onnx(_decoder(), {"x": (1, 4, 8), "past": (1, 0, 8)})
    assert not any(node.op.on_host for node in network.graph)


def test_a_session_decodes_from_its_prompt_on() -> None:
    model = _decoder().SerializeToString()
    session, expected = asd.InferenceSession(model, effort="none"), reference_session(model)
    past = np.zeros((1, 0, 8), np.float32)
    for rows in (4, 1):
        feed = {"x": floats(1, rows, 8), "past": past}
        wanted = expected.run(None, feed)
        for found, values in zip(session.run(None, feed), wanted, strict=True):
            np.testing.assert_allclose(found, values, rtol=1e-5, atol=1e-5)
        past = wanted[1]


def test_a_session_refuses_other_extents_than_those_of_its_model() -> None:
    session = asd.InferenceSession(_decoder().SerializeToString(), effort="none")
    with pytest.raises(InputError, match="past"):
        session.run(None, {"x": floats(1, 4, 8), "past": np.zeros((1, 0, 7), np.float32)})


def test_only_inputs_without_positions_are_left_out() -> None:
    shapes = {"empty": (2, 0), "other": (0, 3), "full": (2, 3)}
    node = helper.make_node("Concat", ["empty", "full", "other"], ["y"], axis=1)
    kept = without_empty_past(node, "Concat", shapes.get)
    assert list(kept.input) == ["full", "other"]
    alone = helper.make_node("Concat", ["empty", "empty"], ["y"], axis=-1)
    assert without_empty_past(alone, "Concat", shapes.get) is alone
