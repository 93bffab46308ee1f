"""Parts of the inputs of a node: taken at once of constants, by kernels of anything else."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from autosched.graph.ops.base import Op, Shape
from autosched.graph.ops.elementwise import BinaryOp
from autosched.graph.ops.movement import Slice
from autosched.graph.ops.shape import Concat, Reshape, Transpose
from autosched.onnx.importer.site import Site


@dataclass(frozen=True, slots=True)
class Weights:
    """Makes values of the graph out of the inputs of ``site``; all methods return names."""

    site: Site

    def pick(self, index: int, number: int, axis: int = 0) -> str:
        """Element ``number`` along ``axis`` of input ``index``, without that dimension."""
        value = self.site.input(index)
        shape = self.shape(value)
        rest = (*shape[:axis], *shape[axis + 1 :])
        if shape[axis] > 1:
            value = self._slice(value, axis, number, number + 1)
        return self._apply(Reshape(rest), value)

    def rows(self, value: str, start: int, stop: int) -> str:
        """``value[start:stop]``."""
        if (start, stop) == (0, self.shape(value)[0]):
            return value
        return self._slice(value, 0, start, stop)

    def transposed(self, value: str) -> str:
        """The matrix with rows as columns."""
        return self._apply(Transpose((1, 0)), value)

    def sum(self, lhs: str, rhs: str) -> str:
        """``lhs + rhs``."""
        return self._apply(BinaryOp("add"), lhs, rhs)

    def joined(self, first: str, second: str) -> str:
        """The rows of both."""
        return self._apply(Concat(0), first, second)

    def shape(self, value: str) -> Shape:
        """The extents of a value."""
        return self.site.builder.types[value].shape

    def _slice(self, value: str, axis: int, start: int, stop: int) -> str:
        shape = self.shape(value)
        low, high = [0] * len(shape), list(shape)
        low[axis], high[axis] = start, stop
        return self._apply(Slice(tuple(low), tuple(high), (1,) * len(shape)), value)

    def _apply(self, op: Op, *values: str) -> str:
        constants = self.site.builder.constants
        if any(value not in constants for value in values):
            return self.site.step(op, values)
        folded = _folded(op, [constants[value] for value in values])
        return self.site.add_constant(op.kind, folded)


def _folded(op: Op, arrays: list[NDArray[Any]]) -> NDArray[Any]:
    """What ``op`` computes."""
    match op:
        case Reshape(shape):
            return arrays[0].reshape(shape)
        case Transpose(permutation):
            return arrays[0].transpose(permutation)
        case Slice(start, stop, _):
            return arrays[0][tuple(map(slice, start, stop))]
        case Concat(axis):
            return np.concatenate(arrays, axis)
        case BinaryOp("add"):
            return np.asarray(arrays[0] + arrays[1])
        case _:
            raise AssertionError(f"no part of weights is computed by {op.kind}")
