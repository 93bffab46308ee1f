"""A layer of a decoder as a module of PyTorch; who imports this file loads torch."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional

WIDTH, HEADS, GROUPS, TOKENS, WORDS = 32, 4, 2, 6, 11
SIZE = WIDTH // HEADS
CACHE = (1, GROUPS, TOKENS, SIZE)


class RootMeanSquare(nn.Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.rand(WIDTH) + 0.5)

    def forward(self, x: Any) -> Any:
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight


def _turned(x: Any, cosine: Any, sine: Any) -> Any:
    first, second = x.chunk(2, -1)
    return x * cosine + torch.cat((-second, first), -1) * sine


class Decoder(nn.Module):  # type: ignore[misc]
    """One layer of a decoder, as current language models have it.

    ``caches``: "none", "appended" (past rows, then the new ones) or "placed" (the new row replaces
    one of a cache of fixed length).
    """

    def __init__(self, caches: str) -> None:
        super().__init__()
        self.caches = caches
        self.words = nn.Embedding(WORDS, WIDTH)
        self.before, self.between, self.after = (RootMeanSquare() for _ in range(3))
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
