"""What every convolution reads."""

from __future__ import annotations

from sketch.lang.tensor import Tensor, placeholder


def operands(data: tuple[int, ...], weight: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    """float32 placeholders of these shapes, "data" and "weight"; the weight is constant."""
    return placeholder(data, name="data"), placeholder(weight, name="weight", constant=True)
