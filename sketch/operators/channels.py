"""How a convolution connects input and output channels: all with all, in groups, one by one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sketch.errors import ExpressionError
from sketch.lang.expr import Expr
from sketch.lang.tensor import Tensor


@dataclass(frozen=True, slots=True)
class Channels:
    """The channel axes of a convolution's stage, the last of them the one to vectorise.

        form        axes               weight
        dense       c                  [*kernel, inputs, outputs]
        grouped     g, c               [groups, *kernel, inputs, outputs], both per group
        merged      g, c               [*kernel, inputs per group, all outputs]
        depthwise   c                  [*kernel, 1, channels]
        multiplied  m, c               [*kernel, multiplier, channels]

    Attributes:
        axes: names and extents.
        reduced: input channels that each output sums over.
        strides: output channel = sum of strides * axes.
        form: one of the above.
    """

    axes: tuple[tuple[str, int], ...]
    reduced: int
    strides: tuple[int, ...]
    form: str

    def source(self, axes: Sequence[Expr], tap: Expr) -> Expr:
        """The input channel that ``tap`` (0 <= tap < reduced) stands for."""
        match self.form:
            case "dense":
                return tap
            case "grouped" | "merged":
                return axes[0] * self.reduced + tap
            case _:
                return axes[-1]

    def factor(
        self, weight: Tensor, kernel: Sequence[Expr], axes: Sequence[Expr], tap: Expr
    ) -> Expr:
        """The element of ``weight`` at a kernel position.

        Args:
            weight: the convolution's weight.
            kernel: position in the kernel, one expression a spatial dimension.
            axes: output axes of the channel: (group and channel) or one.
            tap: input channel within the group.
        """
        match self.form:
            case "grouped":
                return weight[(axes[0], *kernel, tap, axes[1])]
            case "merged":
                return weight[(*kernel, tap, axes[0] * self.axes[1][1] + axes[1])]
            case "multiplied":
                return weight[(*kernel, *axes)]
            case _:
                return weight[(*kernel, tap, axes[-1])]


def dense_channels(data: Tensor, weight: Tensor, where: str) -> Channels:
    """All inputs to all outputs; weight ``[*kernel, inputs, outputs]``."""
    rank = _spatial_rank(data, weight.ndim - 2, where)
    inputs, outputs = weight.shape[rank:]
    _expect(data, inputs, 1, outputs, where)
    return Channels((("c", outputs),), inputs, (1,), "dense")


def grouped_channels(data: Tensor, weight: Tensor, groups: int, where: str) -> Channels:
    """Weight ``[groups, *kernel, inputs, outputs]``, or ``[*kernel, inputs, groups * outputs]``.

    Args:
        data: ``[N, *spatial, C]``.
        weight: in one of the two layouts.
        groups: number of groups; divides C and O.
        where: for errors.

    Raises:
        ExpressionError: the weight is not made of so many groups.
    """
    merged = weight.ndim == data.ndim
    _spatial_rank(data, weight.ndim - (2 if merged else 3), where)
    inputs, outputs = weight.shape[-2:]
    total = outputs if merged else outputs * groups
    _expect(data, inputs, groups, total, where)
    if not merged and weight.shape[0] != groups:
        raise ExpressionError(f"weight {weight.shape} is not made of {groups} groups", where)
    per_group = total // groups
    form = "merged" if merged else "grouped"
    return Channels((("g", groups), ("c", per_group)), inputs, (per_group, 1), form)


def depthwise_channels(data: Tensor, weight: Tensor, where: str) -> Channels:
    """Each input channel gives ``multiplier`` outputs of its own; weight ``[*kernel, m, c]``.

    Output channel ``c * multiplier + m`` belongs to input channel c.
    """
    rank = _spatial_rank(data, weight.ndim - 2, where)
    multiplier, channels = weight.shape[rank:]
    _expect(data, 1, channels, channels * multiplier, where)
    if multiplier == 1:
        return Channels((("c", channels),), 1, (1,), "depthwise")
    return Channels((("m", multiplier), ("c", channels)), 1, (1, multiplier), "multiplied")


def _spatial_rank(data: Tensor, rank: int, where: str) -> int:
    if rank < 1 or data.ndim != rank + 2:
        raise ExpressionError(
            f"needs data [n, *spatial, c] and a weight of as many spatial dimensions (NHWC and "
            f"HWIO), got {data.ndim} dimensions and a kernel of {rank}",
            where,
        )
    return rank


def _expect(data: Tensor, inputs: int, groups: int, outputs: int, where: str) -> None:
    channels = data.shape[-1]
    if groups < 1 or channels != inputs * groups or outputs % groups:
        raise ExpressionError(
            f"{channels} input and {outputs} output channels do not fit a weight of "
            f"{inputs} inputs in {groups} groups",
            where,
        )
