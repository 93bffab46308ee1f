"""Scalar expressions on whole grids of points, in NumPy: the slow, general half of the oracle.

Floats are computed in float64 whatever their dtype; integers and booleans exactly.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from sketch.analysis.access import affine_index, interval_of
from sketch.lang.expr import Axis, Binary, Cast, Const, Expr, Load, Reducer, Select, Unary, Var
from sketch.lang.scalar_functions import (
    UNARY_FUNCTIONS,
    Array,
    binary_function,
    convert,
    oracle_dtype,
    rounded,
)
from sketch.lang.tensor import Tensor
from sketch.oracle.point_values import ElementLoader, Elements, elements_at

Loader = Callable[[Tensor], Array]


def constant(node: Const) -> Array:
    """A literal as the program holds it: a float is rounded to its dtype first."""
    return rounded(node.value, node.dtype)


class Evaluator:
    """Evaluates expressions at the points given by ``axes`` (int64 arrays that broadcast)."""

    def __init__(self, axes: Mapping[Axis, Array], load: ElementLoader) -> None:
        self._axes = axes
        self._load = load
        self._vars: dict[int, Array] = {}
        self._known: dict[int, Array] = {}

    def bind(self, variables: Mapping[Var, Array]) -> None:
        """Give values to variables (the operands of a reducer)."""
        self._vars.update({id(var): value for var, value in variables.items()})

    def __call__(self, node: Expr) -> Array:
        """The value at every point, as an array that broadcasts with the axes."""
        known = self._known.get(id(node))
        if known is None:
            known = self._known[id(node)] = self._evaluate(node)
        return known

    def _evaluate(self, node: Expr) -> Array:
        match node:
            case Const():
                return constant(node)
            case Axis():
                return self._axes[node]
            case Var():
                return self._vars[id(node)]
            case Load():
                return self._element(node)
            case Unary(op, operand, _):
                return UNARY_FUNCTIONS[op](self(operand))
            case Binary(op, lhs, rhs, _):
                return binary_function(op, lhs.dtype)(self(lhs), self(rhs))
            case Cast(operand, dtype):
                return convert(self(operand), operand.dtype, dtype)
            case Select(condition, then, otherwise):
                return np.where(self(condition), self(then), self(otherwise))
            case _:
                raise AssertionError(f"unexpected node {type(node).__name__}")

    def _element(self, node: Load) -> Array:
        found = self.element(self._load(node.tensor), node.indices)
        return found.astype(oracle_dtype(node.dtype), copy=False)

    def element(self, source: Elements, indices: Sequence[Expr]) -> Array:
        """Elements of a tensor; indices are clamped, since a select may discard the value."""
        parts: list[Array] = []
        for index, extent in zip(indices, source.shape, strict=True):
            form = affine_index(index)
            safe = form is not None and interval_of(form)[0] >= 0 and interval_of(form)[1] < extent
            value = self(index)
            parts.append(value if safe else np.clip(value, 0, extent - 1))
        return elements_at(source, parts)


def reduce_values(reducer: Reducer, values: tuple[Array, ...], count: int) -> tuple[Array, ...]:
    """Combine arrays ``[..., n]`` over their last ``count`` dimensions -> arrays ``[...]``.

    Neighbours are combined first, so that order is kept for combines that do not commute.
    """
    folded = [value.reshape(*value.shape[: value.ndim - count], -1) for value in values]
    simple = simple_combine(reducer)
    if simple is not None:
        return (simple.reduce(folded[0], axis=-1, dtype=folded[0].dtype),)
    while folded[0].shape[-1] > 1:
        size = folded[0].shape[-1]
        if size % 2:
            folded = [_append(v, i) for v, i in zip(folded, reducer.identity, strict=True)]
        left = tuple(value[..., 0::2] for value in folded)
        right = tuple(value[..., 1::2] for value in folded)
        folded = list(combine(reducer, left, right))
    return tuple(value[..., 0] for value in folded)


def _append(value: Array, identity: Const) -> Array:
    tail = np.broadcast_to(constant(identity), (*value.shape[:-1], 1))
    return np.concatenate([value, tail], axis=-1)


def combine(reducer: Reducer, lhs: tuple[Array, ...], rhs: tuple[Array, ...]) -> tuple[Array, ...]:
    """``combine(lhs, rhs)`` element by element."""
    evaluate = Evaluator({}, _no_tensor)
    evaluate.bind(dict(zip((*reducer.lhs, *reducer.rhs), (*lhs, *rhs), strict=True)))
    return tuple(np.asarray(evaluate(result)) for result in reducer.result)


def _no_tensor(tensor: Tensor) -> Array:
    raise AssertionError(f"a reducer reads tensor {tensor.name}")


def simple_combine(reducer: Reducer) -> np.ufunc | None:
    """The ufunc of a reducer that is one binary operator on its two operands."""
    if len(reducer.result) != 1:
        return None
    match reducer.result[0]:
        case Binary(op, lhs, rhs, _) if lhs is reducer.lhs[0] and rhs is reducer.rhs[0]:
            known = {
                "add": np.add, "mul": np.multiply, "min": np.minimum, "max": np.maximum,
            }  # fmt: skip
            return known.get(op)
        case _:
            return None
