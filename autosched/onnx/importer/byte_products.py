"""Products of quantised values with constants, as products of bytes: uint8 by int8 in int32.

    sum (x - zx) (w - zw)  =  sum u v  -  z sum v        v = w - zw, an int8 constant

with ``u = x`` and ``z = zx`` where x is uint8, ``u = x + 128`` and ``z = zx + 128`` where it is
int8.  Sums of int32 wrap around, so both sides are equal to the last bit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from autosched.graph.ops.elementwise import BinaryOp, CastOp
from autosched.graph.ops.matmul import MatMul
from autosched.onnx.importer.site import Site
from sketch.lang.dtypes import integer_limits

_SUMS: Final = "int32"
_SHIFT: Final = 128  # from int8 to uint8


@dataclass(frozen=True, slots=True)
class ByteProduct:
    """``op`` of ``operands``, in int32, and what is added to it; None: nothing."""

    op: MatMul
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
    columns = _int8_matrix(site, *weight)
    if columns is None or site.type(data).dtype not in ("uint8", "int8") or site.rank(data) < 2:
        return None
    unsigned, zero = site.input(data), rows
    if site.type(data).dtype == "int8":
        wide = _shifted(site, site.step(CastOp(_SUMS), [unsigned]), _SHIFT)
        unsigned = site.step(CastOp("uint8"), [wide])
        zero = site.scalar("zero", 0, _SUMS) if zero is None else zero
    moved = None if zero is None else _moved(site, zero, columns, unsigned != site.input(data))
    operands = unsigned, site.add_constant("weight", columns)
    return ByteProduct(MatMul(_SUMS), operands, moved)


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


def _int8_matrix(site: Site, index: int, zero: int) -> NDArray[np.int8] | None:
    """A constant matrix [k, n] without its zero points, if it fits int8."""
    matrix = site.arrays.get(site.node.input[index])
    if matrix is None or matrix.ndim != 2 or matrix.size == 0:
        return None
    points: NDArray[Any] | int = 0
    if site.has(zero):
        known = site.arrays.get(site.node.input[zero])
        if known is None:
            return None
        points = known.astype(np.int64)
    low, high = integer_limits("int8")
    values = matrix.astype(np.int64) - points
    inside = values.shape == matrix.shape and low <= values.min() and values.max() <= high
    return values.astype(np.int8) if inside else None
