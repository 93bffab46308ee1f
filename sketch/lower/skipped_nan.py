"""Maxima that may skip a NaN, since it comes out anyway.

    m[i] = max over k of x[i, k]
    e[i, k] = exp(x[i, k] - m[i])
    s[i] = sum over k of e[i, k]
    y[i, j] = e[i, j] * (1 / s[i]),  or  sum over k of e[i, k] * v[k, j]

A NaN in x[i] is one in e[i], hence s[i] is one and all y[i] are, whatever m[i] is.  To look for it
in each term of the maximum costs as much as the maximum does.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import NamedTuple

from sketch.dag.dag import ComputeDAG
from sketch.lang.dtypes import is_float
from sketch.lang.expr import Axis, Binary, Const, Expr, Load, Unary
from sketch.lang.kept import kept
from sketch.lang.reducers import is_sum
from sketch.lang.rewrite import walk
from sketch.lang.tensor import Compute


class _Powers(NamedTuple):
    """A stage ``exp(x - m)``, and the dimensions of x that m is the maximum over."""

    op: Compute
    rows: frozenset[int]


@kept
def maxima_that_skip_nan(dag: ComputeDAG) -> frozenset[int]:
    """Positions of stages of ``dag`` whose results need not be NaN where a term is."""
    outputs = [tensor.op for tensor in dag.outputs]
    return frozenset(
        position for position, op in enumerate(dag.stages) if _comes_out_anyway(dag, op, outputs)
    )


def _comes_out_anyway(dag: ComputeDAG, op: Compute, outputs: Collection[object]) -> bool:
    reduce = op.reduce
    if reduce is None or len(reduce.sources) != 1 or op in outputs:
        return False
    (source,), (result,) = reduce.sources, reduce.reducer.result
    greatest = isinstance(result, Binary) and result.op == "max" and is_float(result.dtype)
    if not greatest or not isinstance(source, Load):
        return False
    readers = dag.consumers(op)
    found = [_powers(reader, op, source) for reader in readers if reader not in outputs]
    return len(found) == len(readers) > 0 and all(
        powers is not None and all(_is_nan_with_row(r, powers) for r in dag.consumers(powers.op))
        for powers in found
    )


def _powers(reader: Compute, maximum: Compute, source: Load) -> _Powers | None:
    """``reader``, if it is ``exp(x - m)`` of all elements x that ``maximum`` reads a row of."""
    if reader.reduce is not None or len(reader.bodies) != 1:
        return None
    match reader.bodies[0]:
        case Unary("exp", Binary("sub", Load() as element, Load() as largest)):
            pass
        case _:
            return None
    tensor = element.tensor
    same = tensor.op is source.tensor.op and tensor.output == source.tensor.output
    whole = tuple(axis.extent for axis in reader.axes) == tensor.shape
    if not same or largest.tensor.op is not maximum or not whole:
        return None
    if not _are(element.indices, reader.axes):
        return None
    rows = {d for d, index in enumerate(source.indices) if index in maximum.reduce_axes}
    places = dict(zip(maximum.axes, largest.indices, strict=True))
    aligned = all(
        d in rows or tensor.shape[d] == 1 or _place(index, places) is element.indices[d]
        for d, index in enumerate(source.indices)
    )
    return _Powers(reader, frozenset(rows)) if aligned else None


def _is_nan_with_row(reader: Compute, powers: _Powers) -> bool:
    """Whether each result is NaN where the row of powers that it reads has a NaN."""
    if len(reader.bodies) != 1:
        return False
    if reader.reduce is not None:
        return _sums_rows(reader, powers)
    loads = [x for x in walk(reader.bodies[0]) if isinstance(x, Load) and x.tensor.op is powers.op]
    sums = [total for x in _factors(reader.bodies[0]) if (total := _total(x)) is not None]
    return any(all(_of_row(total, load, powers) for load in loads) for total in sums)


def _sums_rows(op: Compute, powers: _Powers) -> bool:
    """Whether a stage sums whole rows of powers, each of which may be multiplied by something."""
    reduce = op.reduce
    if reduce is None or len(reduce.sources) != 1 or not is_sum(reduce.reducer):
        return False
    for factor in _factors(reduce.sources[0]):
        if not isinstance(factor, Load) or factor.tensor.op is not powers.op:
            continue
        walked = [factor.indices[d] for d in sorted(powers.rows)]
        whole = zip(walked, (powers.op.shape[d] for d in sorted(powers.rows)), strict=True)
        own = all(x in op.reduce_axes and isinstance(x, Axis) and x.extent == n for x, n in whole)
        if own and len(set(walked)) == len(walked):
            return True
    return False


def _of_row(total: Load, load: Load, powers: _Powers) -> bool:
    """Whether ``total`` is the sum of the row of powers that ``load`` reads an element of."""
    op = total.tensor.op
    if not isinstance(op, Compute) or not _sums_rows(op, powers) or op.reduce is None:
        return False
    places = dict(zip(op.axes, total.indices, strict=True))
    summed = next(
        x
        for x in _factors(op.reduce.sources[0])
        if isinstance(x, Load) and x.tensor.op is powers.op
    )
    return all(
        d in powers.rows or powers.op.shape[d] == 1 or _place(index, places) is load.indices[d]
        for d, index in enumerate(summed.indices)
    )


def _total(factor: Expr) -> Load | None:
    """What a factor is, or the reciprocal of."""
    match factor:
        case Load():
            return factor
        case Binary("div", Const(), Load() as divisor):
            return divisor
    return None


def _factors(expr: Expr) -> Iterator[Expr]:
    if isinstance(expr, Binary) and expr.op == "mul":
        yield from _factors(expr.lhs)
        yield from _factors(expr.rhs)
    else:
        yield expr


def _place(index: Expr, places: dict[Axis, Expr]) -> Expr | None:
    return places.get(index) if isinstance(index, Axis) else None


def _are(indices: tuple[Expr, ...], axes: tuple[Axis, ...]) -> bool:
    return len(indices) == len(axes) and all(a is b for a, b in zip(indices, axes, strict=True))
