"""Tensors that operators of ATen are called with; loads torch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import torch

Calls = Mapping[str, tuple[Callable[..., Any], tuple[Any, ...]]]


def numbers(*shape: int) -> Any:
    """Every call sees the same numbers, whichever runs first.

    Args:
        shape: of the tensor.
    """
    generator = torch.Generator().manual_seed(sum(shape) + len(shape))
    return torch.randn(shape, generator=generator)


X: Final = numbers(2, 4, 6, 3)
Y: Final = numbers(1, 4, 1, 3)
POSITIVE: Final = X.abs() + 0.5
INTEGERS: Final = torch.arange(12).reshape(3, 4) - 5
BYTES: Final = torch.arange(0, 256, 5).to(torch.uint8)
WORDS: Final = torch.arange(-26, 26, dtype=torch.int32) * 80_000_003
BOOLS: Final = X > 0
FEW: Final = torch.tensor([[0, 0, 3], [0, 2, 3]])
MAPS: Final = numbers(2, 4, 8, 9)
VOLUMES: Final = numbers(1, 2, 4, 6, 4)
HEADS: Final = numbers(1, 2, 5, 8)
