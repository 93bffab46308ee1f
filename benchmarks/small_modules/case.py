"""A small module: a function of tensors, and what its inputs are drawn from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import torch

_WEIGHT: Final = 0.05


@dataclass(frozen=True, slots=True)
class Drawn:
    """How to draw an input.

    Attributes:
        shape: of the tensor.
        scale: standard deviation of the normal numbers, or of what ``offset`` is added to.
        offset: what is added to their absolute values; None: they keep their signs.
        below: whole numbers from 0 to this (excluded) instead; 0: real numbers.
        dtype: of whole numbers.
        once: every whole number once, in any order.
        constant: it is a parameter of the module, not an input.
    """

    shape: tuple[int, ...]
    scale: float = 1.0
    offset: float | None = None
    below: int = 0
    dtype: torch.dtype = torch.int64
    once: bool = False
    constant: bool = False

    def tensor(self, generator: torch.Generator, real: torch.dtype) -> torch.Tensor:
        """A tensor of this shape; real numbers have the dtype ``real``."""
        if self.once:
            return torch.randperm(self.below, generator=generator)
        if self.below:
            return torch.randint(self.below, self.shape, generator=generator, dtype=self.dtype)
        drawn = torch.randn(self.shape, generator=generator) * self.scale
        return (drawn if self.offset is None else drawn.abs() + self.offset).to(real)


def normal(*shape: int) -> Drawn:
    """Normal numbers."""
    return Drawn(shape)


def positive(*shape: int) -> Drawn:
    """Numbers above 0.1."""
    return Drawn(shape, offset=0.1)


def share(*shape: int) -> Drawn:
    """Numbers between 0.1 and, but for one in millions, 0.95."""
    return Drawn(shape, 0.15, 0.1)


def weight(*shape: int) -> Drawn:
    """Small normal numbers, which are a parameter of the module."""
    return Drawn(shape, _WEIGHT, constant=True)


def whole(below: int, *shape: int, dtype: torch.dtype = torch.int64) -> Drawn:
    """Whole numbers from 0 to ``below``, which is excluded."""
    return Drawn(shape, below=below, dtype=dtype)


def order(count: int) -> Drawn:
    """The whole numbers from 0 to ``count`` (excluded), each once."""
    return Drawn((count,), below=count, once=True)


class _OfFunction(torch.nn.Module):
    """A function whose last operands are parameters."""

    def __init__(self, function: Callable[..., Any], constants: Sequence[torch.Tensor]) -> None:
        super().__init__()
        self._function = function
        self._constants = torch.nn.ParameterList(constants)

    def forward(self, *tensors: torch.Tensor) -> Any:
        return self._function(*tensors, *self._constants)


@dataclass(frozen=True, slots=True)
class Case:
    """A function of tensors that gives one tensor; its inputs come before its constants."""

    name: str
    function: Callable[..., Any]
    drawn: tuple[Drawn, ...]

    def built(
        self, real: torch.dtype = torch.float32, channels_last: bool = False
    ) -> tuple[torch.nn.Module, tuple[torch.Tensor, ...]]:
        """The module in evaluation mode and its inputs, the same in every process.

        Args:
            real: dtype of real numbers.
            channels_last: whether images are.
        """
        generator = torch.Generator().manual_seed(0)
        tensors = [drawn.tensor(generator, real) for drawn in self.drawn]
        if channels_last:
            tensors = [
                tensor.to(memory_format=torch.channels_last) if tensor.dim() == 4 else tensor
                for tensor in tensors
            ]
        count = sum(not drawn.constant for drawn in self.drawn)
        module = _OfFunction(self.function, tensors[count:]).eval().requires_grad_(False)
        return module, tuple(tensors[:count])


def case(name: str, function: Callable[..., Any], *drawn: Drawn) -> Case:
    """A case."""
    return Case(name, function, drawn)
