"""How much arithmetic a stage does."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from sketch.analysis.scattering import scattered_extent
from sketch.lang.dtypes import FLOATS, INTEGERS, is_float
from sketch.lang.expr import Binary, Cast, Expr, Reducer, Select, Unary
from sketch.lang.operator_names import ARITHMETIC, BITWISE, COMPARISON, ROUND_TF32
from sketch.lang.tensor import Compute

_INDEX: Final = "int64"


def stage_flops(op: Compute) -> float:
    """Operations of one execution of a stage.

    Arithmetic on the stage's own kind of numbers counts: floats, or integers where the stage has
    integer outputs only.  Index arithmetic and bounds tests are free, but in stages of int64, whose
    own numbers look like indices.  A select costs its condition plus its more expensive branch, a
    call counts 1.  Of a reduction that scatters, each term is added to one element.
    """
    own = _own_numbers(op.output_dtypes)
    points = math.prod(op.shape)
    reduce = op.reduce
    if reduce is None:
        return float(points * sum(_operations(body, own) for body in op.bodies))
    trips = math.prod(axis.extent for axis in reduce.axes)
    points //= scattered_extent(op)
    per_trip = sum(_operations(source, own) for source in reduce.sources)
    return float(points * trips * (per_trip + _combine_operations(reduce.reducer, own)))


def _combine_operations(reducer: Reducer, own: frozenset[str]) -> int:
    return sum(_operations(result, own) for result in reducer.result)


def _operations(node: Expr, own: frozenset[str]) -> int:
    match node:
        case Binary(op, lhs, rhs, _):
            inner = _operations(lhs, own) + _operations(rhs, own)
            numeric = op in ARITHMETIC or op in BITWISE or op in COMPARISON
            return inner + int(numeric and lhs.dtype in own)
        case Unary(op, operand, dtype) if op != ROUND_TF32:
            return _operations(operand, own) + int(dtype in own)
        case Cast(operand, _) | Unary(_, operand, _):
            return _operations(operand, own)
        case Select(condition, then, otherwise):
            branches = _operations(then, own), _operations(otherwise, own)
            return _operations(condition, own) + max(branches)
        case _:
            return 0


def _own_numbers(outputs: Sequence[str]) -> frozenset[str]:
    if any(is_float(dtype) for dtype in outputs):
        return frozenset(FLOATS)
    return frozenset(d for d in INTEGERS if d != _INDEX or _INDEX in outputs)
