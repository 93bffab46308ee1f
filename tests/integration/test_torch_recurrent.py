"""Recurrent layers of torch are kernels, from ``from_torch`` and under ``torch.compile``."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
import pytest

import autosched as asd
from autosched.graph.errors import ModelImportError
from autosched.graph.evaluate import evaluate
from autosched.torch_frontend.compiled_graph import CompiledGraph
from tests.support.lazily import lazily

torch = lazily("torch", "onnxscript")
modules = lazily("tests.support.torch_modules")
pytestmark = pytest.mark.usefixtures("torchlib")


LAYERS = {
    "lstm": lambda: torch.nn.LSTM(5, 7, 2, bidirectional=True, batch_first=True),
    "lstm without biases": lambda: torch.nn.LSTM(5, 7, bias=False),
    "gru": lambda: torch.nn.GRU(5, 7, 2, bidirectional=True),
    "rnn": lambda: torch.nn.RNN(5, 7, 2, bidirectional=True, batch_first=True),
    "relu": lambda: torch.nn.RNN(5, 7, nonlinearity="relu", bias=False),
}


def flat(results: Any) -> list[Any]:
    if isinstance(results, torch.Tensor):
        return [results.detach().numpy()]
    return [array for part in results for array in flat(part)]


def compare(found: list[Any], expected: list[Any]) -> None:
    assert len(found) == len(expected)
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    "name",
    [
        "relu",
        *(
            pytest.param(name, marks=pytest.mark.slow)
            for name in ("lstm", "gru", "rnn", "lstm without biases")
        ),
    ],
)
def test_from_torch(name: str) -> None:
    torch.manual_seed(0)
    module, x = LAYERS[name]().eval(), torch.randn(3, 4, 5)
    network = asd.from_torch(module, x)
    kinds = {node.op.kind for node in network.graph.nodes}
    assert "scan" in kinds
    assert not any(node.op.on_host for node in network.graph.nodes)
    compare(list(evaluate(network.graph, {"input": x.numpy()}).values()), flat(module(x)))


@pytest.mark.slow
def test_a_network_with_a_layer() -> None:
    torch.manual_seed(0)
    module, words = modules.Tagger().eval(), torch.randint(0, 20, (2, 6))
    compiled = asd.compile(asd.from_torch(module, words), effort="none")
    assert not compiled.program.host_steps
    compare(list(compiled.run({"words": words}).values()), flat(module(words)))


def test_projections_are_refused() -> None:
    with pytest.raises(ModelImportError, match="projects its states"):
        asd.from_torch(torch.nn.LSTM(5, 7, proj_size=2), torch.randn(3, 4, 5))


@pytest.mark.parametrize(
    "name", [*(pytest.param(n, marks=pytest.mark.slow) for n in ("gru", "rnn")), "lstm"]
)
def test_torch_compile(
    name: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """torch leaves such frames alone by default, without a word."""
    modules = []
    link = CompiledGraph._compiled

    def watched(self: Any, *args: Any) -> Any:
        found = link(self, *args)
        modules.append(found[0])
        return found

    monkeypatch.setattr(CompiledGraph, "_compiled", watched)
    torch._dynamo.reset()
    torch.manual_seed(0)
    module, x = LAYERS[name]().eval(), torch.randn(3, 4, 5)
    compiled = torch.compile(
        module, backend="autosched", options={"cache": False, "effort": "none"}
    )
    with caplog.at_level(logging.WARNING, "autosched.torch"), torch.no_grad():
        compare(flat(compiled(x)), flat(module(x)))
    assert not caplog.records
    assert len(modules) == 1
    assert not modules[0].program.host_steps
    assert modules[0].program.loops


def test_gradients_stay_with_torch(caplog: pytest.LogCaptureFixture) -> None:
    torch._dynamo.reset()
    module, x = torch.nn.GRU(3, 4), torch.randn(2, 1, 3)
    with caplog.at_level(logging.WARNING, "autosched.torch"):
        torch.compile(module, backend="autosched")(x)[0].sum().backward()
    assert module.weight_hh_l0.grad is not None
    assert "torch.no_grad()" in caplog.text
