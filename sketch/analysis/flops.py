"""How much arithmetic a stage does."""

from __future__ import annotations

import math

from sketch.lang.dtypes import is_float, is_integer
from sketch.lang.expr import Binary, Cast, Expr, Reducer, Select, Unary
from sketch.lang.operator_names import ARITHMETIC, BITWISE, COMPARISON
from sketch.lang.tensor import Compute


def stage_flops(op: Compute) -> float:
    """Operations of one execution of a stage.

    Arithmetic on the stage's own kind of numbers counts (floats, or integers where the stage has
    integer outputs only); index arithmetic and bounds tests on a float stage are free.  A select
    costs its condition plus its more expensive branch, a call counts 1.
    """
    counts_float = any(is_float(dtype) for dtype in op.output_dtypes)
    points = math.prod(op.shape)
    reduce = op.reduce
    if reduce is None:
        return float(points * sum(_operations(body, counts_float) for body in op.bodies))
    trips = math.prod(axis.extent for axis in reduce.axes)
    per_trip = sum(_operations(source, counts_float) for source in reduce.sources)
    return float(points * trips * (per_trip + _combine_operations(reduce.reducer, counts_float)))


def _combine_operations(reducer: Reducer, counts_float: bool) -> int:
    return sum(_operations(result, counts_float) for result in reducer.result)


def _operations(node: Expr, counts_float: bool) -> int:
    match node:
        case Binary(op, lhs, rhs, _):
            inner = _operations(lhs, counts_float) + _operations(rhs, counts_float)
            numeric = op in ARITHMETIC or op in BITWISE or op in COMPARISON
            return inner + int(numeric and _counts(lhs.dtype, counts_float))
        case Unary(_, operand, dtype):
            return _operations(operand, counts_float) + int(_counts(dtype, counts_float))
        case Cast(operand, _):
            return _operations(operand, counts_float)
        case Select(condition, then, otherwise):
            branches = _operations(then, counts_float), _operations(otherwise, counts_float)
            return _operations(condition, counts_float) + max(branches)
        case _:
            return 0


def _counts(dtype: str, counts_float: bool) -> bool:
    return is_float(dtype) if counts_float else is_integer(dtype)
