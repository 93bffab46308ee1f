"""Decoders with rotary positions, grouped queries and caches, against torch in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import autosched

torch = pytest.importorskip("torch", reason="needs torch, whose exporter writes the models")
pytest.importorskip("onnxscript", reason="torch's exporter needs onnxscript")
nn = torch.nn
functional = torch.nn.functional

WIDTH, HEADS, GROUPS, TOKENS, WORDS = 32, 4, 2, 6, 11
SIZE = WIDTH // HEADS
CACHE = (1, GROUPS, TOKENS, SIZE)


class _RootMeanSquare(nn.Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.rand(WIDTH) + 0.5)

    def forward(self, x: Any) -> Any:
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight


def _turned(x: Any, cosine: Any, sine: Any) -> Any:
    first, second = x.chunk(2, -1)
    return x * cosine + torch.cat((-second, first), -1) * sine


class _Decoder(nn.Module):  # type: ignore[misc]
    """One layer of a decoder, as current language models have it.

    ``caches``: "none", "appended" (past rows, then the new ones) or "placed" (the new row replaces
    one of a cache of fixed length).
    """

    def __init__(self, caches: str) -> None:
        super().__init__()
        self.caches = caches
        self.words = nn.Embedding(WORDS, WIDTH)
        self.before, self.between, self.after = (_RootMeanSquare() for _ in range(3))
        self.query = nn.Linear(WIDTH, WIDTH, bias=False)
        self.key, self.value = (nn.Linear(WIDTH, GROUPS * SIZE, bias=False) for _ in range(2))
        self.mix = nn.Linear(WIDTH, WIDTH, bias=False)
        self.gate, self.up = (nn.Linear(WIDTH, 48, bias=False) for _ in range(2))
        self.down = nn.Linear(48, WIDTH, bias=False)
        frequencies = 100 ** -(torch.arange(0, SIZE, 2) / SIZE)
        angles = (torch.arange(TOKENS)[:, None] * frequencies).repeat(1, 2)
        self.register_buffer("cosine", angles.cos())
        self.register_buffer("sine", angles.sin())

    def forward(self, tokens: Any, position: Any, *past: Any) -> Any:
        x = self.words(tokens)
        y = self.before(x)
        query, key, value = (
            layer(y).unflatten(-1, (-1, SIZE)).transpose(1, 2)
            for layer in (self.query, self.key, self.value)
        )
        angles = self.cosine[position], self.sine[position]
        query, key = _turned(query, *angles), _turned(key, *angles)
        mask = None
        if self.caches == "appended":
            key, value = torch.cat((past[0], key), 2), torch.cat((past[1], value), 2)
        elif self.caches == "placed":
            key, value = (
                cache.index_copy(2, position, new)
                for cache, new in zip(past, (key, value), strict=True)
            )
            mask = (torch.arange(TOKENS) <= position).view(1, 1, 1, -1)
        repeated = (each.repeat_interleave(HEADS // GROUPS, 1) for each in (key, value))
        mixed = functional.scaled_dot_product_attention(
            query, *repeated, attn_mask=mask, is_causal=self.caches == "none"
        )
        x = x + self.mix(mixed.transpose(1, 2).flatten(2))
        y = self.between(x)
        x = x + self.down(functional.silu(self.gate(y)) * self.up(y))
        return functional.linear(self.after(x), self.words.weight), key, value


def _module(caches: str, *example: Any) -> autosched.Module:
    torch.manual_seed(0)
    network = autosched.from_torch(_Decoder(caches), example)
    return autosched.compile(network, target=autosched.Target("cpu", threads=1))


def _exact(caches: str, *inputs: Any) -> list[NDArray[np.float64]]:
    torch.manual_seed(0)
    decoder = _Decoder(caches).double()
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
    inputs = torch.arange(TOKENS)[None] % WORDS, torch.arange(TOKENS)
    module = _module("none", *inputs)
    for result, exact in zip(_run(module, *inputs), _exact("none", *inputs), strict=True):
        assert _error(result, exact) < 2e-6
    operators = _operators(module)
    assert operators.count("normalize_mul") == 3
    assert not [op for op in operators if "expand" in op]


@pytest.mark.slow
def test_past_rows_and_a_new_one() -> None:
    torch.manual_seed(1)
    past = [torch.randn(1, GROUPS, TOKENS - 1, SIZE) for _ in range(2)]
    inputs = torch.tensor([[3]]), torch.tensor([TOKENS - 1]), *past
    module = _module("appended", *inputs)
    for result, exact in zip(_run(module, *inputs), _exact("appended", *inputs), strict=True):
        assert _error(result, exact) < 2e-6
    operators = _operators(module)
    assert operators.count("normalize_mul") == 3
    assert operators.count("copy") == 3  # both pasts, and the values' new row
    assert not [op for op in operators if "expand" in op]


def test_tokens_one_by_one_are_the_prompt() -> None:
    tokens = torch.tensor([[3, 1, 4, 1, 5, 9]])
    (exact, *caches) = _exact("none", tokens, torch.arange(TOKENS))
    module = _module("placed", tokens[:, :1], torch.tensor([0]), *torch.zeros(2, *CACHE))
    assert not module.program.host_steps
    past: list[Any] = [np.full(CACHE, 7, np.float32) for _ in range(2)]
    for number in range(TOKENS):
        token, position = tokens[:, number : number + 1], torch.tensor([number])
        logits, *past = _run(module, token, position, *past)
        assert _error(logits[:, 0], exact[:, number]) < 2e-6
    for cache, whole in zip(past, caches, strict=True):
        assert _error(cache, whole) < 2e-6
