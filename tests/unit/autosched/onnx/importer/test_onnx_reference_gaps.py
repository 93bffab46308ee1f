"""Nodes that onnx's reference implementation computes wrongly: refused, not run on the host."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import autosched as asd
from autosched.graph.errors import UnsupportedModelError
from autosched.graph.evaluate import evaluate
from sketch.errors import AutoschedError

pytest.importorskip("onnx")
from onnx import numpy_helper
from onnx.reference import ReferenceEvaluator

from autosched.onnx.importer.reference_gaps import reference_gap
from tests.support.onnx_reference import compare, node_model

HIDDEN, LENGTH, BATCH, WIDTH = 3, 5, 2, 4
GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}


def _recurrent(
    operator: str,
    lengths: list[int] | None = None,
    both: bool = False,
    x: np.ndarray | None = None,
    **attributes: Any,
) -> tuple[Any, np.ndarray]:
    rng = np.random.default_rng(0)
    directions, rows = 1 + both, GATES[operator] * HIDDEN
    if x is None:
        x = np.sin(np.arange(LENGTH * BATCH * WIDTH)).reshape(LENGTH, BATCH, WIDTH)
    x = x.astype(np.float32)
    constants = {
        "w": rng.standard_normal((directions, rows, WIDTH)).astype(np.float32),
        "r": rng.standard_normal((directions, rows, HIDDEN)).astype(np.float32),
    }
    order = ["x", "w", "r"]
    if lengths is not None:
        constants["lengths"] = np.array(lengths, np.int32)
        order += ["", "lengths"]
    direction = "bidirectional" if both else "forward"
    options = {"hidden_size": HIDDEN, "direction": direction, **attributes}
    model = node_model(operator, options, {"x": x}, constants, 14, ("y",), order)
    return model, x


@pytest.mark.parametrize(
    ("operator", "options", "reason"),
    [
        ("LSTM", {"lengths": [LENGTH, LENGTH]}, "sequence_lens"),
        ("LSTM", {"clip": 0.5}, "clip"),
        ("LSTM", {"input_forget": 1}, "input_forget"),
        ("LSTM", {"activations": ["Sigmoid", "Relu", "Tanh"]}, "activations"),
        ("GRU", {"activations": ["Sigmoid", "Tanh", "Tanh", "Tanh"], "both": True}, "activa"),
        ("RNN", {"activations": ["Tanh", "Affine"], "both": True}, "activations"),
    ],
)
def test_what_the_reference_ignores_is_known(
    operator: str, options: dict[str, Any], reason: str
) -> None:
    """Wherever it runs on the host, as in the body of a Loop; alone it becomes kernels."""
    model, _ = _recurrent(operator, **options)
    gap = reference_gap(model.graph.node)
    assert gap is not None
    assert re.search(f"{operator} ignores .*{reason}", gap)
    assert not any(node.op.on_host for node in asd.from_onnx(model).graph.nodes)


def test_what_the_reference_ignores_is_not_folded() -> None:
    """The same values, whether the data is an input or a constant."""
    model, x = _recurrent("GRU", [2, LENGTH], clip=0.25)
    (expected,) = evaluate(asd.from_onnx(model).graph, {"x": x}).values()
    model.graph.initializer.append(numpy_helper.from_array(x, "x"))
    del model.graph.input[:]
    (found,) = evaluate(asd.from_onnx(model).graph, {}).values()
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    ("operator", "options"),
    [
        ("LSTM", {"activations": ["Sigmoid", "Tanh", "Tanh"] * 2, "both": True}),
        ("GRU", {"linear_before_reset": 1}),
        ("RNN", {"activations": ["Affine"], "activation_alpha": [0.5], "activation_beta": [0.1]}),
    ],
)
def test_what_the_reference_knows(operator: str, options: dict[str, Any]) -> None:
    model, x = _recurrent(operator, **options)
    assert reference_gap(model.graph.node) is None
    compare(model, {"x": x})


@pytest.mark.parametrize("both", [False, True])
@pytest.mark.parametrize("operator", GATES)
def test_sequences_of_different_lengths(operator: str, both: bool) -> None:
    """Each is what it would be alone; behind its end there are zeros."""
    lengths = [3, LENGTH]
    model, x = _recurrent(operator, lengths, both)
    (found,) = asd.compile(asd.from_onnx(model), effort="none").run({"x": x}).values()
    for number, length in enumerate(lengths):
        alone, _ = _recurrent(operator, None, both, x=x[:length, number : number + 1])
        evaluator = ReferenceEvaluator(alone)
        (expected,) = evaluator.run(None, {"x": x[:length, number : number + 1]})
        np.testing.assert_allclose(found[:length, :, number], expected[:, :, 0], 1e-6, 1e-6)
        np.testing.assert_array_equal(found[length:, :, number], 0)


@pytest.mark.parametrize("length", [-1, LENGTH + 1])
def test_lengths_beyond_the_data_are_an_error(length: int) -> None:
    model, _ = _recurrent("GRU", [LENGTH, length])
    with pytest.raises(AutoschedError, match=rf"lengths .* must be 0 to 5, got \[5, {length}\]"):
        asd.from_onnx(model)


def test_cubic_sampling_beyond_the_border_is_refused() -> None:
    inputs = {"x": np.ones((1, 1, 4, 4), np.float32), "g": np.ones((1, 2, 2, 2), np.float32)}
    attributes = {"mode": "cubic", "padding_mode": "border"}
    with pytest.raises(UnsupportedModelError, match="GridSample ignores"):
        asd.from_onnx(node_model("GridSample", attributes, inputs, {}, 20))
