"""Random programs on random scalar types: elements, reductions along rows, matrix products."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from sketch.dag.dag import ComputeDAG
from sketch.lang import reducers
from sketch.lang.dtypes import FLOATS, INTEGERS, is_float
from sketch.lang.expr import Expr, binary, cast, select, unary
from sketch.lang.tensor import compute, placeholder, reduce_axis

NUMBERS = (*FLOATS, *INTEGERS)
SMOOTH = ("add", "sub", "mul", "min", "max")
WHOLE = (
    *SMOOTH, "floordiv", "mod", "trunc_div", "trunc_mod", "bit_and", "bit_or", "bit_xor",
    "shift_left", "shift_right",
)  # fmt: skip


def converted(value: Expr, dtype: str) -> Expr:
    """A cast on which both sides agree: wide integers and floats meet in int16."""
    if value.dtype == dtype:
        return value
    wide = ("int32", "int64")
    if (is_float(dtype) and value.dtype in wide) or (is_float(value.dtype) and dtype in wide):
        value = cast(value, "int16")
    return cast(value, dtype)


def expression(draw: Any, leaves: list[Expr], depth: int) -> Expr:
    """A random tree over ``leaves``."""
    if depth == 0:
        return draw(st.sampled_from(leaves))
    first = expression(draw, leaves, depth - 1)
    match draw(st.sampled_from(["binary", "binary", "unary", "select", "cast"])):
        case "cast":
            return converted(first, draw(st.sampled_from(NUMBERS)))
        case "unary":
            return unary(draw(st.sampled_from(["neg", "abs", "sign"])), first)
        case "select":
            second = converted(expression(draw, leaves, depth - 1), first.dtype)
            test = draw(st.sampled_from(["lt", "le", "eq", "ne"]))
            return select(binary(test, first, second), second, first)
        case _:
            second = converted(expression(draw, leaves, depth - 1), first.dtype)
            operators = SMOOTH if is_float(first.dtype) else WHOLE
            return binary(draw(st.sampled_from(operators)), first, second)


@st.composite
def programs(draw: Any) -> ComputeDAG:
    """An expression of every element, its reduction along rows, or a matrix product."""
    rows, columns = draw(st.integers(1, 5)), draw(st.integers(1, 70))
    dtypes = draw(st.tuples(st.sampled_from(NUMBERS), st.sampled_from(NUMBERS)))
    x, y = (placeholder((rows, columns), d, n) for d, n in zip(dtypes, "xy", strict=True))
    kind = draw(st.sampled_from(["map", "max", "min", "sum", "product"]))
    depth = draw(st.integers(1, 3))
    if kind == "map":
        fn = lambda i, j: expression(draw, [x[i, j], y[i, j]], depth)  # noqa: E731
        return ComputeDAG([compute((rows, columns), fn, name="out")])
    k = reduce_axis(columns)
    if kind == "product":
        w = placeholder((columns, 37), dtypes[1], "w", constant=True)
        total = compute(
            (rows, 37),
            lambda i, j: reducers.sum(x[i, k] * converted(w[k, j], dtypes[0]), k),
            name="total",
        )
        stored = draw(st.sampled_from(NUMBERS))
        fn = lambda i, j: converted(total[i, j], stored)  # noqa: E731
        return ComputeDAG([compute((rows, 37), fn, name="out")])
    reduce = getattr(reducers, kind)
    value = lambda i: expression(draw, [x[i, k], y[i, k]], depth)  # noqa: E731
    return ComputeDAG([compute(rows, lambda i: reduce(value(i), k), name="out")])
