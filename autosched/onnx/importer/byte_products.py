"""Products of quantised values with constants, as products of bytes: uint8 by int8 in int32.

    sum (x - zx) (w - zw)  =  sum u v  -  z sum v        v = w - zw, an int8 constant

with ``u = x`` and ``z = zx`` where x is uint8, ``u = x + 128`` and ``z = zx + 128`` where it is
int8.  Sums of int32 wrap around, so both sides are equal to the last bit.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from autosched.graph.ops.conv import Conv
from autosched.graph.ops.elementwise import BinaryOp, CastOp
from autosched.graph.ops.matmul import MatMul
from autosched.graph.ops.shape import Pad
from autosched.onnx.importer.site import Site
from sketch.lang.dtypes import integer_limits

_SUMS: Final = "int32"
_SHIFT: Final = 128  # from int8 to uint8


@dataclass(frozen=True, slots=True)
class ByteProduct:
    """``op`` of ``operands``, in int32, and what is added to it; None: nothing."""

    op: MatMul | Conv
    operands: tuple[str, str]
    moved: str | None


def product_of_bytes(
    site: Site, data: int, rows: str | None, weight: tuple[int, int]
) -> ByteProduct | None:
    """The product of the rows of an operand with a constant matrix, without their zero points.

    None where the data are no bytes, or the matrix without its zero points is none of int8.

    Args:
        site: of the node.
        data: place of the first operand.
        rows: its zero point, as a value that broadcasts to it; None: 0.
        weight: places of the matrix and its zero point.
    """
    columns = _int8_constant(site, *weight, along=1)
    if columns is None or columns.ndim != 2 or site.rank(data) < 2:
        return None
    if site.type(data).dtype not in ("uint8", "int8"):
        return None
    unsigned, zero = site.input(data), rows
    if site.type(data).dtype == "int8":
        unsigned = _unsigned(site, unsigned)
        zero = site.scalar("zero", 0, _SUMS) if zero is None else zero
    moved = None if zero is None else _moved(site, zero, columns, unsigned != site.input(data))
    operands = unsigned, site.add_constant("weight", columns)
    return ByteProduct(MatMul(_SUMS), operands, moved)


def windows_of_bytes(
    site: Site, op: Conv, data: tuple[int, int], weight: tuple[int, int]
) -> ByteProduct | None:
    """A convolution with constant weights, without the zero points of both.

    None where the data are no bytes with a constant zero point, or the weights without theirs are
    none of int8.  What is padded is a zero of the data, which is no zero of ``u``.

    Args:
        site: of the node.
        op: the convolution.
        data: places of the maps and their zero point.
        weight: places of the weights [oc, ic, ...] and their zero point.
    """
    filters = _int8_constant(site, *weight, along=0)
    points = site.arrays.get(site.node.input[data[1]]) if site.has(data[1]) else np.zeros((), int)
    if filters is None or points is None or points.size != 1:
        return None
    dtype, maps = site.type(data[0]).dtype, site.input(data[0])
    if dtype not in ("uint8", "int8"):
        return None
    zero = int(points.reshape(())) + (_SHIFT if dtype == "int8" else 0)
    unsigned = _unsigned(site, maps) if dtype == "int8" else maps
    rank = op.spatial
    if zero and any(op.padding):
        low, high = (0, 0, *op.padding[:rank]), (0, 0, *op.padding[rank:])
        unsigned = site.step(Pad(low, high, float(zero)), [unsigned])
        op = replace(op, padding=(0,) * (2 * rank))
    sums = -zero * filters.sum(axis=tuple(range(1, filters.ndim)), dtype=np.int64)
    moved = sums.astype(np.int32).reshape(-1, *(1,) * rank)
    named = site.add_constant("moved", moved) if moved.any() else None
    operands = unsigned, site.add_constant("weight", filters)
    return ByteProduct(replace(op, dtype=_SUMS), operands, named)


def _unsigned(site: Site, value: str) -> str:
    """``x + 128`` of an int8 value, as uint8."""
    wide = _shifted(site, site.step(CastOp(_SUMS), [value]), _SHIFT)
    return site.step(CastOp("uint8"), [wide])


def _moved(site: Site, zero: str, columns: NDArray[np.int8], shifted: bool) -> str | None:
    """``- z sum v``: a constant where the zero point is one."""
    sums = -columns.sum(axis=0, dtype=np.int64)
    known = site.builder.constants.get(zero)
    if known is None:
        factor = site.step(CastOp(_SUMS), [zero])
        factor = _shifted(site, factor, _SHIFT) if shifted else factor
        return site.step(
            BinaryOp("mul"), [factor, site.add_constant("sums", sums.astype(np.int32))]
        )
    value = known.astype(np.int64) + (_SHIFT if shifted else 0)
    if not value.any():
        return None
    return site.add_constant("moved", np.asarray(value * sums).astype(np.int32))


def _shifted(site: Site, value: str, by: int) -> str:
    return site.step(BinaryOp("add"), [value, site.scalar("shift", by, _SUMS)])


def _int8_constant(site: Site, index: int, zero: int, along: int) -> NDArray[np.int8] | None:
    """A constant without its zero points, one or one for each slice along a dimension, if that
    fits int8.
    """
    array = site.arrays.get(site.node.input[index])
    if array is None or array.ndim < 2 or array.size == 0:
        return None
    points: NDArray[Any] = np.zeros((), np.int64)
    if site.has(zero):
        known = site.arrays.get(site.node.input[zero])
        if known is None or known.size not in (1, array.shape[along]):
            return None
        points = known.astype(np.int64).reshape(
            [-1 if d == along and known.size > 1 else 1 for d in range(array.ndim)]
        )
    low, high = integer_limits("int8")
    values = array.astype(np.int64) - points
    inside = low <= values.min() and values.max() <= high
    return values.astype(np.int8) if inside else None
