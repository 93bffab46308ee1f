"""Decoders with rotary positions, grouped queries and caches, against torch in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import autosched
from tests.support.lazily import lazily

torch = lazily("torch", "onnxscript")
decoders = lazily("tests.support.torch_decoder")


def _module(caches: str, *example: Any) -> autosched.Module:
    torch.manual_seed(0)
    network = autosched.from_torch(decoders.Decoder(caches), example)
    return autosched.compile(network, target=autosched.Target("cpu", threads=1), effort="none")


def _exact(caches: str, *inputs: Any) -> list[NDArray[np.float64]]:
    torch.manual_seed(0)
    decoder = decoders.Decoder(caches).double()
    with torch.no_grad():
        results = decoder(*(x.double() if x.is_floating_point() else x for x in inputs))
    return [result.numpy() for result in results]


def _error(result: NDArray[Any], exact: NDArray[np.float64]) -> float:
    return float(np.abs(result - exact).max() / np.abs(exact).max())


def _run(module: autosched.Module, *inputs: Any) -> list[NDArray[Any]]:
    names = [spec.name for spec in module.inputs]
    return list(module.run(dict(zip(names, inputs, strict=True))).values())


def _operators(module: autosched.Module) -> list[str]:
    return [step.info.op for step in module.program.steps]


@pytest.mark.slow
def test_a_prompt_with_a_causal_mask() -> None:
    inputs = torch.arange(decoders.TOKENS)[None] % decoders.WORDS, torch.arange(decoders.TOKENS)
    module = _module("none", *inputs)
    for result, exact in zip(_run(module, *inputs), _exact("none", *inputs), strict=True):
        assert _error(result, exact) < 2e-6
    operators = _operators(module)
    assert operators.count("normalize_mul") == 3
    assert not [op for op in operators if "expand" in op]


@pytest.mark.slow
def test_past_rows_and_a_new_one() -> None:
    torch.manual_seed(1)
    past = [torch.randn(1, decoders.GROUPS, decoders.TOKENS - 1, decoders.SIZE) for _ in range(2)]
    inputs = torch.tensor([[3]]), torch.tensor([decoders.TOKENS - 1]), *past
    module = _module("appended", *inputs)
    for result, exact in zip(_run(module, *inputs), _exact("appended", *inputs), strict=True):
        assert _error(result, exact) < 2e-6
    operators = _operators(module)
    assert operators.count("normalize_mul") == 3
    assert operators.count("copy") == 3  # both pasts, and the values' new row
    assert not [op for op in operators if "expand" in op]


@pytest.mark.slow
def test_tokens_one_by_one_are_the_prompt() -> None:
    tokens = torch.tensor([[3, 1, 4, 1, 5, 9]])
    (exact, *caches) = _exact("none", tokens, torch.arange(decoders.TOKENS))
    module = _module("placed", tokens[:, :1], torch.tensor([0]), *torch.zeros(2, *decoders.CACHE))
    assert not module.program.host_steps
    past: list[Any] = [np.full(decoders.CACHE, 7, np.float32) for _ in range(2)]
    for number in range(decoders.TOKENS):
        token, position = tokens[:, number : number + 1], torch.tensor([number])
        logits, *past = _run(module, token, position, *past)
        assert _error(logits[:, 0], exact[:, number]) < 2e-6
    for cache, whole in zip(past, caches, strict=True):
        assert _error(cache, whole) < 2e-6
