"""Reductions: ``sum``, ``max``, ``min``, ``prod``, ``argmax``, all instances of a tuple reducer.

Reductions of 16-bit floats are done, and returned, in float32; integers wrap around.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from sketch.errors import ExpressionError
from sketch.lang.dtypes import integer_limits, is_float
from sketch.lang.expr import (
    Axis,
    Binary,
    Const,
    Expr,
    Reduce,
    Reducer,
    Var,
    as_expr,
    binary,
    select,
    unary,
    widen,
)
from sketch.lang.functions import all_of, any_of
from sketch.lang.rewrite import walk


def lowest(dtype: str) -> float | int:
    """The identity of max: minus infinity, or the smallest integer."""
    return float("-inf") if is_float(dtype) else integer_limits(dtype)[0]


def highest(dtype: str) -> float | int:
    """The identity of min: infinity, or the largest integer."""
    return float("inf") if is_float(dtype) else integer_limits(dtype)[1]


def _scalar(op: str, dtype: str, identity: float | int) -> Reducer:
    lhs, rhs = Var("lhs", dtype), Var("rhs", dtype)
    value = float(identity) if is_float(dtype) else int(identity)
    names = {"add": "sum", "mul": "prod"}
    return Reducer(
        names.get(op, op), (lhs,), (rhs,), (binary(op, lhs, rhs),), (Const(value, dtype),)
    )


def is_sum(reducer: Reducer) -> bool:
    """Whether a reducer is ``lhs + rhs``."""
    if len(reducer.result) != 1:
        return False
    result = reducer.result[0]
    return (
        isinstance(result, Binary)
        and result.op == "add"
        and {result.lhs, result.rhs} == {reducer.lhs[0], reducer.rhs[0]}
    )


def adds_floats(reducer: Reducer) -> bool:
    """Whether combining adds (or subtracts) floats: then long chains lose digits, and partial
    results that are combined later lose fewer.

    Maxima and positions are exact, integers too; the error of a product does not depend on order.
    """
    return any(
        isinstance(node, Binary) and node.op in ("add", "sub") and is_float(node.dtype)
        for result in reducer.result
        for node in walk(result)
    )


def reduce(reducer: Reducer, sources: Sequence[Any], axis: Axis | Sequence[Axis]) -> Reduce:
    """Reduce a tuple of expressions with a tuple reducer over one or more axes.

    Raises ExpressionError on an arity or dtype mismatch, or an axis that is not a reduce axis.
    """
    axes = tuple(axis) if isinstance(axis, Iterable) else (axis,)
    values = tuple(as_expr(source) for source in sources)
    if len(values) != len(reducer.identity):
        raise ExpressionError(
            f"reducer {reducer.name} takes {len(reducer.identity)} values, got {len(values)}"
        )
    for value, identity in zip(values, reducer.identity, strict=True):
        if value.dtype != identity.dtype:
            raise ExpressionError(
                f"reducer {reducer.name} works on {identity.dtype}, got {value.dtype}"
            )
    if not axes or any(not isinstance(a, Axis) or a.kind != "reduce" for a in axes):
        raise ExpressionError(
            f"reduction {reducer.name} needs reduce axes, got {axis!r}",
            hint="make them with reduce_axis(extent)",
        )
    return Reduce(reducer, values, axes)


def _reduce_scalar(op: str, value: Any, axis: Axis | Sequence[Axis], identity: Any) -> Reduce:
    node: Expr = widen(as_expr(value))
    return reduce(_scalar(op, node.dtype, identity(node.dtype)), (node,), axis)


def sum(value: Any, axis: Axis | Sequence[Axis]) -> Reduce:
    """Sum of ``value`` over ``axis``."""
    return _reduce_scalar("add", value, axis, lambda dtype: 0)


def prod(value: Any, axis: Axis | Sequence[Axis]) -> Reduce:
    """Product of ``value`` over ``axis``."""
    return _reduce_scalar("mul", value, axis, lambda dtype: 1)


def max(value: Any, axis: Axis | Sequence[Axis]) -> Reduce:
    """Maximum of ``value`` over ``axis``."""
    return _reduce_scalar("max", value, axis, lowest)


def min(value: Any, axis: Axis | Sequence[Axis]) -> Reduce:
    """Minimum of ``value`` over ``axis``."""
    return _reduce_scalar("min", value, axis, highest)


def argmax(index: Any, value: Any, axis: Axis | Sequence[Axis], last: bool = False) -> Reduce:
    """The pair (index of the maximum, maximum); the first index wins a tie, or the ``last``.

    NaN counts as the maximum, as in NumPy.  ``compute`` then returns two tensors: int64 indices
    and the values.

    Args:
        index: int64 expression; its value at the winner is the first output.
        value: what is compared, a number.
        axis: one reduce axis, or several.
        last: whether the last of equal values wins.
    """
    return _argument("argmax", "ge", index, value, axis, last)


def argmin(index: Any, value: Any, axis: Axis | Sequence[Axis], last: bool = False) -> Reduce:
    """The pair (index of the minimum, minimum); the first index wins a tie, or the ``last``.

    NaN counts as the minimum, as in NumPy.

    Args:
        index: int64 expression; its value at the winner is the first output.
        value: what is compared, a number.
        axis: one reduce axis, or several.
        last: whether the last of equal values wins.
    """
    return _argument("argmin", "le", index, value, axis, last)


def _argument(
    name: str, as_good: str, index: Any, value: Any, axis: Axis | Sequence[Axis], last: bool
) -> Reduce:
    position, node = as_expr(index), widen(as_expr(value))
    lhs = (Var("lhs_index", position.dtype), Var("lhs_value", node.dtype))
    rhs = (Var("rhs_index", position.dtype), Var("rhs_value", node.dtype))
    preferred = rhs[0] > lhs[0] if last else rhs[0] < lhs[0]
    better = ~_as_good(as_good, lhs[1], rhs[1])
    take = all_of(_as_good(as_good, rhs[1], lhs[1]), any_of(better, preferred))
    low, high = integer_limits(position.dtype)
    worst = lowest(node.dtype) if as_good == "ge" else highest(node.dtype)
    reducer = Reducer(
        name,
        lhs,
        rhs,
        (select(take, rhs[0], lhs[0]), select(take, rhs[1], lhs[1])),
        (Const(low if last else high, position.dtype), Const(worst, node.dtype)),
    )
    return reduce(reducer, (position, node), axis)


def _as_good(compare: str, value: Expr, other: Expr) -> Expr:
    """Whether ``value`` may stand before ``other``: NaN may before everything."""
    test = binary(compare, value, other)
    return any_of(test, unary("is_nan", value)) if is_float(value.dtype) else test
