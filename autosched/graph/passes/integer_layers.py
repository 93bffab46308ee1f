"""Layers of constant weights, as layers of bytes: uint8 by int8, summed in int32.

    sum (x - zx) (w - zw)  =  sum u v  -  z sum v        v = w - zw, an int8 constant

with ``u = x`` and ``z = zx`` where x is uint8, ``u = x + 128`` and ``z = zx + 128`` where it is
int8.  Sums of int32 wrap around, so both sides are equal to the last bit.

Of a transposed convolution each output sums other taps, so that no bias takes the zero point: where
u has one, data are int16 less it, and so are weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from autosched.graph.builder import GraphBuilder
from autosched.graph.ir import Array
from autosched.graph.ops.base import Op, Shape
from autosched.graph.ops.conv import Conv
from autosched.graph.ops.matmul import Dense, MatMul
from autosched.graph.ops.shape import Pad
from autosched.graph.passes.byte_filters import ByteFilters, byte_filters, output_axis
from autosched.graph.passes.scaled_integers import ScaledIntegers, full_rank
from sketch.lang.dtypes import BYTES, integer_limits

_SHIFT: Final = 128
_TOGETHER: Final = 4  # bytes of a lane of 32 bits
_TURNED: Final = 0.8  # of the products where an image is rearranged for them
_MOST: Final = 2**31 - 1
_SAME: Final = 1e-6  # relative; scales of a bias are products, rounded once or twice


@dataclass(frozen=True, slots=True)
class IntegerFactor:
    """What data are multiplied as.

    Attributes:
        dtype: their own type, or one that they are converted to.
        shift: what is added to them before.
        zero: the zero point that they have then.
    """

    dtype: str
    shift: int
    zero: int


@dataclass(frozen=True, slots=True, eq=False)
class IntegerLayer:
    """``op`` of bytes and a constant.

    Attributes:
        op: in int32.
        written: as the model has it.
        data: name of the integer data.
        factor: what of them is multiplied.
        pad: with what the zeros of the data are; then nothing is left to pad for ``op``.
        filters: the weights.
        zero: the zero point of the data.
        bias: what is added to the sums, int32; None: nothing.
        takes_bias: whether the operator adds it itself.
        scale: of the sums, float32, broadcasts to them.
        most: bound of the sums.
    """

    op: Dense | MatMul | Conv
    written: Dense | MatMul | Conv
    data: str
    factor: IntegerFactor
    pad: Pad | None
    filters: ByteFilters
    zero: int
    bias: NDArray[np.int32] | None
    takes_bias: bool
    scale: NDArray[np.float32]
    most: int


def integer_layer(
    op: Op, operands: Sequence[ScaledIntegers], builder: GraphBuilder, planar: bool
) -> IntegerLayer | None:
    """A convolution or product of dequantised values; None where it is no product of bytes, or
    sums might not fit int32.

    Args:
        op: the layer.
        operands: data, weights and, maybe, a bias.
        builder: of the graph that they are in.
        planar: whether the data are a picture as it is given, one plane for each channel.
    """
    if not isinstance(op, Dense | MatMul | Conv) or op.dtype is not None or len(operands) < 2:
        return None
    if isinstance(op, Conv) and (op.layout != "NCHW" or (op.transposed and op.groups > 1)):
        return None
    data, weight = operands[:2]
    axis = output_axis(op)
    wide = _whole_constant(weight, builder)
    filters = None if wide is None else byte_filters(wide, op)
    rank = op.spatial + 2 if isinstance(op, Conv) else 2
    dtype = builder.types[data.value].dtype
    if wide is None or filters is None or wide.ndim != rank or dtype not in BYTES:
        return None
    each = _by_slice(weight.scale, wide.shape, axis) if data.is_uniform else None
    if each is None or data.most:
        return None
    total = data.times(each, divide=False)
    if total is None:
        return None
    bias = _bias(operands[2:], total.scale, builder)
    if bias is None:
        return None
    others = tuple(d for d in range(rank) if d != axis)
    most = data.reach * int(np.abs(wide).sum(axis=others).max()) + int(np.abs(bias).max())
    if most > _MOST:
        return None
    factor = _factor(op, data, dtype)
    if factor.dtype != "uint8":
        filters = replace(filters, weight=filters.weight.astype(factor.dtype))
    zero = factor.zero
    moved = (bias - zero * filters.weight.sum(axis=others, dtype=np.int64)).astype(np.int32)
    missing = _missing(op, wide.shape, planar)
    whole, pad = _padded(op, zero, missing)
    if pad is not None and not 0 <= zero <= 255:
        return None
    filters = replace(filters, weight=np.pad(filters.weight, [(0, n) for n in missing]))
    shape = (-1, *(1,) * (rank - 2)) if isinstance(op, Conv) else (-1,)
    scale = total.scale.reshape(shape) if total.scale.size > 1 else total.scale.reshape(())
    kept = moved if moved.any() else None
    takes = not isinstance(op, MatMul)
    whole, point = replace(whole, dtype="int32"), int(data.zero.reshape(()))
    return IntegerLayer(
        whole, op, data.value, factor, pad, filters, point, kept, takes, scale, most
    )


def _factor(op: Dense | MatMul | Conv, data: ScaledIntegers, dtype: str) -> IntegerFactor:
    """``data`` of type ``dtype`` as a factor."""
    point, shift = int(data.zero.reshape(())), _SHIFT if dtype == "int8" else 0
    zero = point + shift
    if zero and isinstance(op, Conv) and op.transposed:
        narrow = data.reach <= integer_limits("int16")[1]
        return IntegerFactor("int16" if narrow else "int32", -point, 0)
    return IntegerFactor("uint8", shift, zero)


def same_scale(lhs: Array, rhs: Array, rank: int) -> bool:
    """Whether two scales of values of ``rank`` dimensions are the same, rounded differently."""
    same = full_rank(lhs.shape, rank) == full_rank(rhs.shape, rank)
    if not same and min(lhs.size, rhs.size) > 1:
        return False
    return bool(np.allclose(lhs.reshape(-1), rhs.reshape(-1), rtol=_SAME, atol=0))


def _missing(op: Op, shape: Shape, planar: bool) -> Shape:
    """By how much the filters of an image of few channels grow along each dimension, by zeros, so
    that units find whole lanes: one of channels, or of neighbours in a row of a plane.
    """
    none = (0,) * len(shape)
    if not isinstance(op, Conv) or op.transposed or op.groups > 1 or shape[1] >= _TOGETHER:
        return none
    channels, row = shape[1], shape[-1]
    # a picture has to be rearranged for lanes of channels, which is worth some products
    in_rows = channels * -(-row // _TOGETHER) * _TURNED <= row
    if planar and in_rows and op.dilation[-1] == 1:
        return (*none[:-1], -row % _TOGETHER)
    return (0, _TOGETHER - channels, *none[2:])


def _padded(
    op: Dense | MatMul | Conv, zero: int, missing: Shape
) -> tuple[Dense | MatMul | Conv, Pad | None]:
    """What is padded is a zero of the data, which is no zero of the bytes."""
    if not isinstance(op, Conv):
        return op, None
    rank = op.spatial
    inside = zero == 0 and not any(missing)  # the zeros are left out
    sides = (0,) * (2 * rank) if inside else op.padding
    if not any(sides) and not any(missing):
        return op, None
    low, high = (0, 0, *sides[:rank]), (0, 0, *sides[rank:])
    high = tuple(n + more for n, more in zip(high, (0, *missing[1:]), strict=True))
    return replace(op, padding=(0,) * (2 * rank)), Pad(low, high, float(zero))


def _bias(
    given: Sequence[ScaledIntegers], scale: NDArray[np.float32], builder: GraphBuilder
) -> NDArray[np.int64] | None:
    """The bias in the scale of the sums; zeros where there is none; None: it has another scale."""
    if not given:
        return np.zeros((), np.int64)
    (bias,) = given
    integers = builder.constants.get(bias.value)
    if integers is None or not same_scale(scale, bias.scale, 1):
        return None
    return integers.astype(np.int64) - bias.zero


def _whole_constant(known: ScaledIntegers, builder: GraphBuilder) -> NDArray[np.int64] | None:
    """A constant without its zero points."""
    array = builder.constants.get(known.value)
    if array is None or array.size == 0 or known.most:
        return None
    values: NDArray[np.int64] = array.astype(np.int64) - known.zero
    return values if values.shape == array.shape else None


def _by_slice(
    scale: NDArray[np.float32], shape: tuple[int, ...], axis: int
) -> NDArray[np.float32] | None:
    """Scales along ``axis``, or one for all; None where they differ along another."""
    if scale.size == 1:
        return scale.reshape(-1)
    full = full_rank(scale.shape, len(shape))
    wanted = tuple(extent if d == axis else 1 for d, extent in enumerate(shape))
    return scale.reshape(-1) if full == wanted else None
