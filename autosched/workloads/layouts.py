"""Convolutions in another order of dimensions than the one that their workloads are written in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Literal

from autosched.workloads.operands import operands
from sketch.errors import ExpressionError
from sketch.lang.tensor import Tensor
from sketch.operators.layout import transpose

Layout = Literal["NHWC", "NCHW"]
LAYOUTS: Final[tuple[Layout, ...]] = ("NHWC", "NCHW")


def laid_out(
    layout: str,
    data: tuple[int, ...],
    weight: tuple[int, ...],
    make: Callable[[Tensor, Tensor], Tensor],
) -> Tensor:
    """A convolution of placeholders in ``layout``; the result has it, too.

    "NCHW" has channels before the spatial dimensions (of which there may be one or three as well),
    and weights [co, ci, *kernel].

    Args:
        layout: "NHWC" or "NCHW".
        data: shape in NHWC.
        weight: shape [*kernel, ci, co].
        make: the convolution in NHWC.

    Raises:
        ExpressionError: there is no such layout.
    """
    if layout not in LAYOUTS:
        raise ExpressionError(f"{layout!r} is no layout", "a convolution", "NHWC or NCHW")
    if layout == "NHWC":
        return make(*operands(data, weight))
    last = len(data) - 1
    to_first = (0, last, *range(1, last))
    given, kernel = operands(
        tuple(data[axis] for axis in to_first), (weight[-1], weight[-2], *weight[:-2])
    )
    moved = transpose(given, (0, *range(2, last + 1), 1), "data.nhwc")
    packed = transpose(kernel, (*range(2, len(weight)), 1, 0), "weight.hwio")
    result = make(moved, packed)
    return transpose(result, to_first, f"{result.name}.nchw")
