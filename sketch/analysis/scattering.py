"""Reductions that scatter: each term belongs to one element of the result, and data say to which.

    S[r, d] = sum over e of select(place[e] == r, x[e, d], 0)

As it is written, each element looks at all terms.  Where the loop over ``r`` stands inside the one
over ``e``, one trip of it counts: that of ``r = place[e]``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import prod

from sketch.lang.conditions import conjuncts
from sketch.lang.dtypes import integer_limits, is_integer
from sketch.lang.expr import Axis, Binary, Cast, Const, Expr, Load, Reduce, Select
from sketch.lang.kept import kept
from sketch.lang.rewrite import walk
from sketch.lang.tensor import Compute


@kept
def scattered_axes(op: Compute) -> Mapping[int, Expr]:
    """By position, the spatial axes of a reduction whose place data say for each term.

    The place is an integer expression that does not depend on such an axis; it may lie outside.
    Empty where every element looks at all terms.
    """
    reduce = op.reduce
    if reduce is None or op.store is not None or len(reduce.sources) != 1:
        return {}
    places: dict[int, Expr] = {}
    for condition in _conditions(reduce.sources[0], reduce):
        for axis, place in _sides(condition):
            if axis in op.axes and axis.extent > 1 and _says_data(place):
                places.setdefault(op.axes.index(axis), place)
    solved = {op.axes[position] for position in places}
    return {p: place for p, place in places.items() if solved.isdisjoint(walk(place))}


def scattered_extent(op: Compute) -> int:
    """How many elements look at each term of a reduction in vain, and the one that it is for."""
    return prod(op.axes[position].extent for position in scattered_axes(op))


def is_identity(node: Expr, reduce: Reduce) -> bool:
    """Whether adding ``node`` to a reduction of one value changes nothing."""
    identity = reduce.reducer.identity[0]
    return isinstance(node, Const) and node.dtype == identity.dtype and node.value == identity.value


def _conditions(source: Expr, reduce: Reduce) -> Iterator[Expr]:
    """What holds for each term that counts."""
    while isinstance(source, Select) and is_identity(source.otherwise, reduce):
        yield from conjuncts(source.condition)
        source = source.then


def _sides(condition: Expr) -> Iterator[tuple[Axis, Expr]]:
    """An axis and what it equals."""
    if not isinstance(condition, Binary) or condition.op != "eq":
        return
    for one, other in ((condition.lhs, condition.rhs), (condition.rhs, condition.lhs)):
        if is_integer(other.dtype) and (axis := _whole_axis(one)) is not None:
            yield axis, other


def _whole_axis(node: Expr) -> Axis | None:
    """An axis, or its numbers in a type that holds all of them."""
    inner = node.operand if isinstance(node, Cast) and is_integer(node.dtype) else node
    if not isinstance(inner, Axis) or inner.extent - 1 > integer_limits(node.dtype)[1]:
        return None
    return inner


def _says_data(place: Expr) -> bool:
    return any(isinstance(node, Load) for node in walk(place))
