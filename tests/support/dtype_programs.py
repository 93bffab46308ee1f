"""Small programs on every scalar type, and values where something happens."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from sketch.dag.dag import ComputeDAG
from sketch.lang.dtypes import FLOATS, INTEGERS, SUPPORTED, integer_limits, is_float, numpy_dtype
from sketch.lang.expr import Axis, Expr, binary, cast, unary
from sketch.lang.tensor import compute, placeholder

NUMBERS = (*FLOATS, *INTEGERS)
FLOAT_EDGES = [
    0.0, -0.0, 1.0, -1.0, 0.5, 1.5, 2.5, -2.5, 127.5, 255.5, 65504.0, 65520.0, 1e-7, 6e-8, 3e-8,
    1e30, -1e30, 1e300, 3.4e38, 2.0**31, -(2.0**31), 2.0**63, -(2.0**63), np.inf, -np.inf, np.nan,
]  # fmt: skip


def stage(shape: tuple[int, ...], element: Callable[..., Any], name: str) -> Any:
    """``compute`` for a function that takes the axes as one tuple."""
    return compute(shape, lambda *axes: element(axes), name)


def edges(dtype: str, count: int, rng: np.random.Generator) -> np.ndarray:
    """``count`` values of a dtype, first those where something happens."""
    if dtype == "bool":
        return rng.random(count) < 0.5
    with np.errstate(all="ignore"):
        if is_float(dtype):
            spread = rng.standard_normal(count) * 10.0 ** rng.uniform(-6, 6, count)
            spread[: len(FLOAT_EDGES)] = FLOAT_EDGES
            return spread.astype(numpy_dtype(dtype))
        low, high = integer_limits(dtype)
        values = rng.integers(low, high, count, dtype, endpoint=True)
        values[: count // 2] = rng.integers(max(low, -9), 9, count // 2)
        values[:6] = [low, high, 0, 1, low, high]
        return values


def inputs_of(dag: ComputeDAG, seed: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {t.name: edges(t.dtype, int(np.prod(t.shape)), rng).reshape(t.shape) for t in dag.inputs}


def small_inputs(dag: ComputeDAG, seed: int) -> dict[str, np.ndarray]:
    """Numbers whose sums of products are exact or well-conditioned."""
    rng = np.random.default_rng(seed)
    arrays = {}
    for t in dag.inputs:
        values = rng.uniform(-1, 1, t.shape) if is_float(t.dtype) else rng.integers(0, 20, t.shape)
        arrays[t.name] = values.astype(numpy_dtype(t.dtype))
    return arrays


def arithmetic(dtype: str) -> list[ComputeDAG]:
    """Every operator on ``dtype``: a program for each dtype of results."""
    lhs, rhs = placeholder((4, 41), dtype, "lhs"), placeholder((4, 41), dtype, "rhs")
    names = ["add", "sub", "mul", "min", "max", "mod", "trunc_mod", "floordiv"]
    unaries, tests = ["neg", "abs", "sign"], ["lt", "le", "eq", "ne", "gt", "ge"]
    if is_float(dtype):
        names += ["div"]
    else:
        names += ["trunc_div", "bit_and", "bit_or", "bit_xor", "shift_left", "shift_right", "pow"]
        unaries += ["bit_not"]

    def numbers(axes: tuple[Axis, ...]) -> tuple[Expr, ...]:
        pairs = [binary(op, lhs[axes], rhs[axes]) for op in names]
        return (*pairs, *(unary(op, lhs[axes]) for op in unaries))

    def places(axes: tuple[Axis, ...]) -> tuple[Expr, ...]:
        return tuple(unary("ordinal", data[axes]) for data in (lhs, rhs))

    def truths(axes: tuple[Axis, ...]) -> tuple[Expr, ...]:
        pairs = [binary(op, lhs[axes], rhs[axes]) for op in tests]
        return (*pairs, *(unary(op, lhs[axes]) for op in ("is_nan", "is_inf") if is_float(dtype)))

    programs = [
        ComputeDAG(list(stage((4, 41), numbers, "number"))),
        ComputeDAG(list(stage((4, 41), truths, "truth"))),
    ]
    if is_float(dtype) and dtype != "float64":
        programs.append(ComputeDAG(list(stage((4, 41), places, "place"))))
    return programs


def conversions(source: str, shape: tuple[int, ...]) -> ComputeDAG:
    """Casts to every dtype, its own as well."""
    data = placeholder(shape, source, "data")
    results = stage(shape, lambda axes: tuple(cast(data[axes], d) for d in SUPPORTED), "cast")
    return ComputeDAG(list(results))
