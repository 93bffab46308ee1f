"""Blocks of an image, each a column, added where they belong: Col2Im."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import ClassVar

from autosched.graph.errors import GraphError
from autosched.graph.ops.base import Op, Pattern, Shape, TensorType, expect_inputs
from autosched.graph.ops.conv import window_count
from autosched.graph.ops.shape import Reshape, Transpose
from sketch.lang.dtypes import BOOL
from sketch.lang.tensor import Tensor
from sketch.operators import columns
from sketch.operators.window import Window


@dataclass(frozen=True, slots=True)
class Fold(Op):
    """``[n, c, *block, *positions]`` -> ``[n, c, *image]``, all blocks that see a point added up.

    All attributes have an entry for each dimension of the image, but ``padding``, which has all low
    sides, then all high sides.
    """

    pattern: ClassVar[Pattern] = Pattern.COMPLEX

    image: tuple[int, ...]
    block: tuple[int, ...]
    strides: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]

    @property
    def windows(self) -> tuple[Window, ...]:
        """The window of each dimension."""
        rank = len(self.image)
        sides = (self.padding[:rank], self.padding[rank:])
        parts = (self.image, self.block, self.strides, self.dilation, *sides)
        return tuple(Window(*each) for each in zip(*parts, strict=True))

    @property
    def covers_once(self) -> bool:
        """Whether each point of the image is in one block."""
        whole = all(n % b == 0 for n, b in zip(self.image, self.block, strict=True))
        apart = self.strides == self.block and not any(self.padding)
        return whole and apart and all(d == 1 for d in self.dilation)

    def positions(self) -> tuple[int, ...]:
        """Blocks along each dimension; raises GraphError where none fits."""
        return tuple(
            window_count(w.extent, w.kernel, w.stride, w.dilation, (w.before, w.after))
            for w in self.windows
        )

    def infer(self, inputs: Sequence[TensorType]) -> TensorType:
        expect_inputs(self, inputs, 1)
        (data,) = inputs
        if data.dtype == BOOL:
            raise GraphError(f"needs numbers, got {data}")
        if data.shape[2:] != (*self.block, *self.positions()):
            raise GraphError(
                f"blocks of {self.block} in {self.image} at {self.positions()} positions do not "
                f"match {data}"
            )
        return TensorType((*data.shape[:2], *self.image), data.dtype)


def steps_of_fold(fold: Fold, shape: Shape) -> tuple[Op, ...]:
    """What makes the image of columns ``[n, c * block, positions]``, one operator after the other:
    a transpose between two views, where blocks do not overlap.

    Args:
        fold: how blocks lie in the image.
        shape: of the columns.

    Raises:
        GraphError: the columns are not those of such blocks.
    """
    points, positions = prod(fold.block), fold.positions()
    if len(shape) != 3 or shape[1] % points or shape[2] != prod(positions):
        raise GraphError(f"{shape} are no columns of {positions} blocks of {fold.block}")
    batch, channels, rank = shape[0], shape[1] // points, len(fold.image)
    split = Reshape((batch, channels, *fold.block, *positions))
    if not fold.covers_once:
        return split, fold
    pairs = [d for axis in range(rank) for d in (2 + rank + axis, 2 + axis)]
    return split, Transpose((0, 1, *pairs)), Reshape((batch, channels, *fold.image))


def lower_fold(op: Fold, inputs: Sequence[Tensor], name: str) -> tuple[Tensor, ...]:
    """One stage."""
    return (columns.fold(inputs[0], op.windows, name),)
