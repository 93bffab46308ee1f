"""Small modules of PyTorch like parts of known networks, and what they are called with."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional


class Causal(nn.Module):  # type: ignore[misc]
    """Words, places, causal attention, a layer with gelu, and the words' weights once more."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(50, 16), nn.Embedding(8, 16)
        self.norm, self.joined = nn.LayerNorm(16), nn.Linear(16, 48)
        self.inner, self.outer = nn.Linear(16, 64), nn.Linear(64, 16)

    def forward(self, words: Any) -> Any:
        rows = self.words(words) + self.places(torch.arange(words.shape[1]))
        parts = self.joined(self.norm(rows)).split(16, 2)
        heads = [part.unflatten(2, (4, 4)).transpose(1, 2) for part in parts]
        attended = functional.scaled_dot_product_attention(*heads, is_causal=True)
        rows = rows + attended.transpose(1, 2).flatten(2)
        rows = rows + self.outer(functional.gelu(self.inner(rows), approximate="tanh"))
        return rows @ self.words.weight.T


class Windows(nn.Module):  # type: ignore[misc]
    """Attention in shifted windows, with a table of biases and a mask."""

    def __init__(self) -> None:
        super().__init__()
        self.joined, self.table = nn.Linear(8, 24), nn.Parameter(torch.randn(49, 2))
        self.register_buffer("places", torch.randint(0, 49, (16, 16)))
        mask = torch.zeros(4, 16, 16)
        mask[1, :8, 8:] = -100
        self.register_buffer("mask", mask)

    def forward(self, maps: Any) -> Any:
        count, height, width, channels = maps.shape
        maps = torch.roll(maps, (-2, -2), (1, 2))
        split = maps.view(count, height // 4, 4, width // 4, 4, channels)
        rows = split.permute(0, 1, 3, 2, 4, 5).reshape(-1, 16, channels)
        query, key, value = self.joined(rows).reshape(-1, 16, 3, 2, 4).permute(2, 0, 3, 1, 4)
        scores = query * 0.5 @ key.transpose(-2, -1) + self.table[self.places].permute(2, 0, 1)
        scores = scores.view(count, 4, 2, 16, 16) + self.mask[None, :, None]
        found = (scores.view(-1, 2, 16, 16).softmax(-1) @ value).transpose(1, 2)
        joined = found.reshape(count, height // 4, width // 4, 4, 4, channels)
        maps = joined.permute(0, 1, 3, 2, 4, 5).reshape(count, height, width, channels)
        return torch.roll(maps, (2, 2), (1, 2))


class Recurrent(nn.Module):  # type: ignore[misc]
    """Two layers of LSTM in both directions."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.LSTM(6, 8, 2, bidirectional=True, batch_first=True)

    def forward(self, rows: Any) -> Any:
        found, (hidden, cell) = self.layers(rows)
        return found, hidden, cell


class Masked(nn.Module):  # type: ignore[misc]
    """An encoder of sentences of several lengths, and the mean of their words."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(20, 16, padding_idx=0)
        self.layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)

    def forward(self, words: Any) -> Any:
        empty = words == 0
        rows = self.layer(self.words(words), src_key_padding_mask=empty)
        rows = rows.masked_fill(empty[..., None], 0)
        return rows.sum(1) / (~empty).sum(1, keepdim=True)


class Upsampled(nn.Module):  # type: ignore[misc]
    """Norms of groups and maps, interpolation, transposed convolution, samples at points."""

    def __init__(self) -> None:
        super().__init__()
        self.down, self.up = nn.Conv2d(3, 8, 3, 2, 1), nn.ConvTranspose2d(8, 4, 4, 2, 1)
        self.groups, self.maps = nn.GroupNorm(2, 8), nn.InstanceNorm2d(8)

    def forward(self, image: Any) -> Any:
        low = functional.silu(self.groups(self.down(image)))
        high = functional.interpolate(self.maps(low), scale_factor=2, mode="bilinear")
        near = functional.interpolate(low, scale_factor=2)
        points = torch.tanh(high.permute(0, 2, 3, 1)[..., :2])
        sampled = functional.grid_sample(high, points, align_corners=False)
        padded = functional.pad(sampled, (1, 1, 2, 2), mode="reflect")
        return torch.cat([self.up(low), high, near], 1), padded


class Experts(nn.Module):  # type: ignore[misc]
    """The best two of four experts, their numbers, running sums and sorted rows."""

    def __init__(self) -> None:
        super().__init__()
        self.gate, self.weights = nn.Linear(8, 4), nn.Parameter(torch.randn(4, 8, 8))

    def forward(self, rows: Any) -> Any:
        values, chosen = torch.topk(self.gate(rows), 2)
        shares = torch.zeros(rows.shape[0], 4).scatter(1, chosen, values.softmax(-1))
        found = torch.einsum("te,ti,eij->tj", shares, rows, self.weights)
        return found, functional.one_hot(chosen, 4).sum(1), rows.cumsum(0), rows.sort(1)[0]


def examples() -> dict[str, tuple[Any, Any]]:
    """Modules with random weights, and an input of each."""
    torch.manual_seed(0)
    words = torch.tensor([[1, 2, 3, 0], [4, 5, 0, 0]])
    pairs = {
        "causal": (Causal(), torch.randint(0, 50, (2, 8))),
        "windows": (Windows(), torch.randn(1, 8, 8, 8)),
        "recurrent": (Recurrent(), torch.randn(2, 5, 6)),
        "masked": (Masked(), words),
        "upsampled": (Upsampled(), torch.randn(1, 3, 16, 16)),
        "experts": (Experts(), torch.randn(5, 8)),
    }
    return {name: (module.eval(), given) for name, (module, given) in pairs.items()}
