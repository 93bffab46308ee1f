"""Weights less their zero points as bytes, also where these are too few for them.

    sum x w  =  sum x v + s sum x        v = w - s, an int8 constant; one s for each output

Of unsigned bytes with a zero point of 131 some are -131, which int8 does not hold.  Sums of int32
wrap around, so both sides are equal to the last bit.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from autosched.graph.builder import GraphBuilder
from autosched.graph.ir import Array
from autosched.graph.ops.base import Shape
from autosched.graph.ops.conv import Conv
from autosched.graph.ops.elementwise import BinaryOp
from autosched.graph.ops.matmul import Dense, MatMul
from autosched.graph.ops.reduce import ReduceOp
from sketch.lang.dtypes import integer_limits

_LEAST, _MOST = integer_limits("int8")
_SPAN = _MOST - _LEAST


@dataclass(frozen=True, slots=True, eq=False)
class ByteFilters:
    """``weight + taken``.

    Attributes:
        weight: int8; int16 where the layer has groups.
        taken: int32, one for each output, or one for all; None: zeros.
    """

    weight: NDArray[Any]
    taken: NDArray[np.int32] | None = None

    def moved(self, sums: str, builder: GraphBuilder) -> str:
        """What ``taken`` adds to the results of a layer, of the ``window_sums`` of its data."""
        assert self.taken is not None
        name = builder.constant(builder.unique("taken"), self.taken)
        return builder.add(BinaryOp("mul"), (sums, name), origins=())


def byte_filters(values: Array, op: Dense | MatMul | Conv) -> ByteFilters | None:
    """Weights of a layer as bytes; None where those of an output span more than a byte says.

    No unit computes groups, nor is there one sum of data for all outputs: they have wider weights.

    Args:
        values: integers ``[k, n]`` of a product, ``[n, ...]`` of a convolution, ``[k, n, ...]`` of
            a transposed one.
        op: the layer.
    """
    if values.size == 0:
        return None
    wide = values.astype(np.int64)
    if wide.min() >= _LEAST and wide.max() <= _MOST:
        return ByteFilters(wide.astype(np.int8))
    if isinstance(op, Conv) and op.groups > 1:
        fits = np.abs(wide).max() <= integer_limits("int16")[1]
        return ByteFilters(wide.astype(np.int16)) if fits else None
    axis = output_axis(op)
    others = tuple(d for d in range(wide.ndim) if d != axis)
    low, high = wide.min(axis=others, keepdims=True), wide.max(axis=others, keepdims=True)
    if high.max() - low.min() <= _SPAN:  # one for all: few sums are multiplied, not each result
        low, high = low.min(), high.max()
    if (high - low > _SPAN).any():
        return None
    taken = np.where((low < _LEAST) | (high > _MOST), low - _LEAST, 0).astype(np.int32)
    shape = (-1, *(1,) * op.spatial) if isinstance(op, Conv) else (-1,)
    each = taken.reshape(shape) if taken.size > 1 else taken.reshape(())
    return ByteFilters((wide - taken).astype(np.int8), each)


def output_axis(op: Dense | MatMul | Conv) -> int:
    """The dimension of a layer's weights, of one group, that its outputs are along."""
    return 0 if isinstance(op, Conv) and not op.transposed else 1


def window_sums(builder: GraphBuilder, op: Dense | MatMul | Conv, value: str, kernel: Shape) -> str:
    """Sums of all numbers that a result of a layer is made of: one for all outputs of a place.

    Args:
        builder: of the graph.
        op: the layer, of one group.
        value: its data, int32, without zero points.
        kernel: extents of its windows; empty for a product.
    """
    rank = len(builder.types[value].shape)
    axis = 1 if isinstance(op, Conv) else rank - 1
    total = builder.add(ReduceOp("sum", (axis,), keepdims=True), (value,), origins=())
    if not isinstance(op, Conv):
        return total
    ones = builder.constant(builder.unique("ones"), np.ones((1, 1, *kernel), np.int32))
    return builder.add(replace(op, dtype=None), (total, ones), origins=())
