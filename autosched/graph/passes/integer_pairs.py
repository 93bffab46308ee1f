"""Products of two dequantised values that both depend on inputs, as products of bytes.

    sum (a - za) (b - zb)  =  sum a b  -  zb sum a  -  za sum b  +  k za zb

with ``a`` as uint8 and ``b`` as int8, of ``k`` terms.  Sums of int32 wrap around, so both sides are
equal to the last bit.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import numpy as np

from autosched.graph.builder import GraphBuilder
from autosched.graph.ops.elementwise import BinaryOp, CastOp
from autosched.graph.ops.matmul import MatMul
from autosched.graph.ops.reduce import ReduceOp
from autosched.graph.passes.scaled_integers import ScaledIntegers
from sketch.lang.dtypes import BYTES

_SUMS: Final = "int32"
_MOST: Final = 2**31 - 1
_SHIFTS: Final = {("int8", "uint8"): 128, ("uint8", "int8"): -128}  # from one type to the other


def product_of_bytes(
    op: MatMul,
    lhs: ScaledIntegers,
    rhs: ScaledIntegers,
    builder: GraphBuilder,
    origins: tuple[str, ...],
) -> ScaledIntegers | None:
    """The sums of a product; None where it is none of bytes, or sums might not fit int32.

    Args:
        op: the product.
        lhs: ``[..., m, k]``.
        rhs: ``[..., k, n]``.
        builder: of the graph that they are in.
        origins: layers that they are of.
    """
    if not (_is_of_bytes(lhs, builder) and _is_of_bytes(rhs, builder)) or op.dtype is not None:
        return None
    scaled = lhs.times(rhs.scale.reshape(()), divide=False)
    terms = builder.types[lhs.value].shape[-1]
    most = lhs.reach * rhs.reach * terms
    if scaled is None or most > _MOST:
        return None
    (first, zero), (second, point) = (
        _converted(known, dtype, builder) for known, dtype in ((lhs, "uint8"), (rhs, "int8"))
    )
    total = builder.add(replace(op, dtype=_SUMS), (first, second), origins=origins)
    total = _less(total, point, first, -1, builder)
    total = _less(total, zero, second, -2, builder)
    if zero * point:
        total = _with_number("add", total, terms * zero * point, builder)
    return ScaledIntegers(total, np.zeros((), np.int64), scaled.scale.reshape(()), most)


def _is_of_bytes(known: ScaledIntegers, builder: GraphBuilder) -> bool:
    """Matrices of one scale, that are no constants."""
    kind = builder.types[known.value]
    plain = known.is_uniform and not known.most and known.value not in builder.constants
    return plain and kind.dtype in BYTES and len(kind.shape) > 1


def _converted(known: ScaledIntegers, dtype: str, builder: GraphBuilder) -> tuple[str, int]:
    """The bytes with or without signs, and their zero point."""
    value, zero = known.value, int(known.zero.reshape(()))
    shift = _SHIFTS.get((builder.types[value].dtype, dtype), 0)
    if not shift:
        return value, zero
    wide = builder.add(CastOp(_SUMS), (value,), origins=())
    moved = _with_number("add", wide, shift, builder)
    return builder.add(CastOp(dtype), (moved,), origins=()), zero + shift


def _less(total: str, zero: int, other: str, axis: int, builder: GraphBuilder) -> str:
    """``total`` less a zero point times the sums of the other operand along ``axis``."""
    if not zero:
        return total
    wide = builder.add(CastOp(_SUMS), (other,), origins=())
    rank = len(builder.types[other].shape)
    sums = builder.add(ReduceOp("sum", (rank + axis,), keepdims=True), (wide,), origins=())
    return builder.add(
        BinaryOp("sub"), (total, _with_number("mul", sums, zero, builder)), origins=()
    )


def _with_number(function: Any, value: str, number: int, builder: GraphBuilder) -> str:
    constant = builder.constant(builder.unique("number"), np.asarray(number, np.int32))
    return builder.add(BinaryOp(function), (value, constant), origins=())
