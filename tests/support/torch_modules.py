"""Modules of PyTorch that tests export and compile; who imports this file loads torch."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn


class Small(nn.Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, padding=1)
        self.norm = nn.BatchNorm2d(8)
        self.head = nn.Linear(8, 5)
        self.drop = nn.Dropout(0.5)

    def forward(self, image: Any, scale: Any) -> Any:
        maps = torch.relu(self.norm(self.conv(image))) * scale
        return {"logits": self.head(self.drop(maps.mean(dim=(2, 3)))), "maps": maps}


class Tagger(nn.Module):  # type: ignore[misc]
    """Words to classes."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(20, 6)
        self.layer = nn.LSTM(6, 9, batch_first=True)
        self.classes = nn.Linear(9, 4)

    def forward(self, words: Any) -> Any:
        return self.classes(self.layer(self.words(words))[0])


class Function(nn.Module):  # type: ignore[misc]
    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Any) -> Any:
        return self.function(x)


class Residual(nn.Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(8, 8, 3, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(8)
        self.conv2 = nn.Conv2d(8, 8, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(8)

    def forward(self, x: Any) -> Any:
        y = torch.relu(self.norm1(self.conv1(x)))
        return torch.relu(self.norm2(self.conv2(y)) + x)


class Unusual(nn.Module):  # type: ignore[misc]
    """Shapes computed from the input, a mean over maps, a concatenation, padding."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 4, 3, padding="same", padding_mode="zeros")
        self.depthwise = nn.Conv2d(7, 7, 3, groups=7, dilation=2)

    def forward(self, x: Any) -> Any:
        x = torch.cat([torch.sigmoid(self.first(x)), x], dim=1)
        x = self.depthwise(nn.functional.pad(x, (1, 2, 2, 1)))
        gate = torch.tanh(x.mean(dim=(2, 3), keepdim=True)).clamp(-0.5, 0.5)
        x = (x * gate).view(x.size(0), 7, -1)
        return x.permute(0, 2, 1).sum(dim=1)


def scattered(x: Any) -> Any:
    """``-x`` by an operator without a converter: what computes it comes by way of ONNX."""
    rows = torch.arange(len(x)).reshape(-1, *[1] * (x.dim() - 1)).expand_as(x)
    return x.scatter(0, rows, -x)
