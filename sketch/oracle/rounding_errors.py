"""Bounds on what rounding may do to an expression: a running error analysis beside the oracle.

Every operation adds the rounding of its own result to what its operands' errors make of it.  The
bounds are generous where a back end has a choice (elementary functions, fused products), and
infinite where an error decides what happens (an index, the quotient by what may be zero).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import numpy as np

from sketch.lang.dtypes import (
    BOOL,
    integer_limits,
    is_float,
    is_integer,
    is_storage_float,
    numpy_dtype,
    size_of,
)
from sketch.lang.expr import Axis, Binary, Cast, Const, Expr, Load, Select, Unary, Var
from sketch.lang.operator_names import ORDINAL, ROUND_TF32, STEPS
from sketch.lang.scalar_functions import UNARY_FUNCTIONS, Array, binary_function
from sketch.lang.tensor import Tensor
from sketch.oracle.evaluate import Evaluator
from sketch.oracle.point_values import Elements

# Half a unit in the last place, relative.
UNITS: Final[Mapping[str, float]] = {
    "float16": 2.0**-11, "bfloat16": 2.0**-8, "float32": 2.0**-24, "float64": 2.0**-53,
}  # fmt: skip
_TF32_UNIT: Final = 2.0**-11
# Any integer below is a number of float32.
_WHOLE: Final = 2.0**24
# Elementary functions: roundings of the operand and of the result that a library may add.
_OPERAND_ROUNDINGS: Final = 4.0
_RESULT_ROUNDINGS: Final = 16.0
_COMPARISONS: Final = ("lt", "le", "gt", "ge", "eq", "ne")
# A difference of operands by less than this is followed exactly enough by the tangent's values.
_NEAR: Final = 0.1

ErrorLoader = Callable[[Tensor], Elements | None]


def unit(dtype: str) -> float:
    """Half a unit in the last place of what arithmetic on ``dtype`` is done in; 0 for integers."""
    return UNITS[_computed_in(dtype)] if is_float(dtype) else 0.0


def _computed_in(dtype: str) -> str:
    """The type that arithmetic on floats of ``dtype`` is done in."""
    return "float32" if is_storage_float(dtype) else dtype


def magnitude(values: Array) -> Array:
    """Absolute values in float64."""
    return np.abs(np.asarray(values, np.float64))


class RoundingErrors:
    """Bounds of ``|computed - exact|`` for expressions that ``values`` evaluates.

    ``load``: the bounds of a tensor's elements (None: they are exact).  ``scale`` multiplies the
    roundings, for reductions whose order is not known.
    """

    def __init__(self, values: Evaluator, load: ErrorLoader, scale: float = 1.0) -> None:
        self._values = values
        self._load = load
        self._scale = scale
        self._vars: dict[int, Array] = {}
        self._known: dict[int, Array] = {}

    def bind(self, variables: Mapping[Var, Array]) -> None:
        """Give error bounds to variables (the operands of a reducer)."""
        self._vars.update({id(var): error for var, error in variables.items()})

    def __call__(self, node: Expr) -> Array:
        """The bound at every point, float64; broadcasts with the value."""
        known = self._known.get(id(node))
        if known is None:
            known = np.asarray(self._evaluate(node), np.float64)
            unknown = np.isnan(known)
            known = self._known[id(node)] = (
                np.where(unknown, np.inf, known) if unknown.any() else known
            )
        return known

    def share(self, node: Expr) -> float | None:
        """What the bound is as a multiple of the absolute value, everywhere; None: it is no such.

        It is one for a product of exact operands: nothing but its own rounding counts.  So it is
        for one that stands under a condition, beside zero.
        """
        if isinstance(node, Select) and isinstance(node.otherwise, Const):
            masked = node.otherwise.value == 0 and not self(node.condition).any()
            return self.share(node.then) if masked else None
        if not isinstance(node, Binary) or node.op not in ("add", "sub", "mul"):
            return None
        if self(node.lhs).any() or self(node.rhs).any():
            return None
        return unit(node.dtype) * self._scale

    def _evaluate(self, node: Expr) -> Array | float:
        match node:
            case Const() | Axis():
                return 0.0
            case Var():
                return self._vars.get(id(node), np.zeros(()))
            case Load():
                return self._element(node)
            case Unary():
                return self._unary(node)
            case Binary():
                return self._binary(node)
            case Cast():
                return self._cast(node)
            case Select():
                return self._select(node)
            case _:
                raise AssertionError(f"unexpected node {type(node).__name__}")

    def _element(self, node: Load) -> Array | float:
        error: Array | float = 0.0
        source = self._load(node.tensor)
        if source is not None:
            error = self._values.element(source, node.indices)
        for index in node.indices:
            moved = self(index)
            if moved.any():
                error = np.where(moved > 0, np.inf, error)
        return error

    def _rounding(self, node: Expr, count: float = 1.0) -> Array | float:
        """What rounding the value of ``node`` may add."""
        size = unit(node.dtype)
        return size * count * self._scale * magnitude(self._values(node)) if size else 0.0

    def _rounding_of(self, node: Expr, inexact: Array) -> Array | float:
        """What rounding adds to a result that is rounded once: nothing where a float holds the
        exact result, and no operand is off, or by an integer.  Integers stay exact in floats.
        """
        rounding = self._rounding(node)
        if self._scale != 1.0 or not is_float(node.dtype):
            return rounding
        value = self._values(node)
        held = value == value.astype(numpy_dtype(_computed_in(node.dtype)))
        whole = (inexact % 1 == 0) & (value % 1 == 0) & (magnitude(value) + inexact < _WHOLE)
        return np.where(held & ((inexact == 0) | whole), 0.0, rounding)

    def _unary(self, node: Unary) -> Array | float:
        error, value = self(node.operand), self._values(node.operand)
        if node.op in ("neg", "abs", "not"):
            return error
        if node.op in ("is_nan", "is_inf"):
            return 0.0
        if node.op == ROUND_TF32:
            own = 2 * _TF32_UNIT * magnitude(self._values(node)) + error
            return np.where(error > 0, error + own, 0.0)
        if node.op == ORDINAL or not is_float(node.operand.dtype):
            return np.where(error > 0, np.inf, 0.0)
        if node.op not in STEPS:
            operand = unit(node.operand.dtype) * _OPERAND_ROUNDINGS
            error = error + operand * magnitude(value)
            if node.op in ("sin", "cos"):
                return error + UNITS["float32"] * _RESULT_ROUNDINGS
        function = UNARY_FUNCTIONS[node.op]
        here = self._values(node)
        spread = np.maximum(
            _distance(function(value + error), here), _distance(function(value - error), here)
        )
        if node.op in STEPS:
            return spread
        if node.op == "tan":
            spread = np.where(error < _NEAR, spread, np.inf)
        return spread + self._rounding(node, _RESULT_ROUNDINGS)

    def _binary(self, node: Binary) -> Array | float:
        a, b = self(node.lhs), self(node.rhs)
        if node.op in _COMPARISONS:
            return self._comparison(node, a, b)
        if node.op in ("min", "max"):
            return np.maximum(a, b)
        if node.op in ("and", "or"):
            return self._decided(node, a, b)
        exact = not a.any() and not b.any()
        if exact and not is_float(node.dtype):
            return 0.0
        if node.op in ("add", "sub"):
            return a + b + self._rounding_of(node, a + b)
        if node.op == "mul":
            x, y = magnitude(self._values(node.lhs)), magnitude(self._values(node.rhs))
            return _times(x, b) + _times(y, a) + _times(a, b) + self._rounding_of(node, a + b)
        if not is_float(node.dtype):
            return np.where((a > 0) | (b > 0), np.inf, 0.0)
        if node.op == "div":
            left = magnitude(self._values(node.rhs)) - b
            moved = a + _times(magnitude(self._values(node)), b)
            return np.where(left > 0, moved / left, np.inf) + self._rounding(node)
        return self._corners(node, a, b)

    def _corners(self, node: Binary, a: Array, b: Array) -> Array:
        """Powers and remainders: how far the value moves with its operands."""
        x, y = self._values(node.lhs), self._values(node.rhs)
        if node.op == "pow":
            a = a + unit(node.dtype) * _OPERAND_ROUNDINGS * magnitude(x)
        function, here = binary_function(node.op, node.dtype), self._values(node)
        spread: Array = np.zeros(())
        if node.op in ("mod", "trunc_mod"):
            # Dividends that are off by half of the divisor may have any remainder.
            reach = a + _times(np.ceil(magnitude(x) / magnitude(y)), b)
            spread = np.where(2 * reach >= magnitude(y), np.inf, 0.0)
        for p in (x - a, x + a):
            for q in (y - b, y + b):
                spread = np.maximum(spread, _distance(function(p, q), here))
        if node.op in ("mod", "trunc_mod"):
            # A jump lies between.
            spread = np.where(2 * spread >= magnitude(y), np.inf, spread)
        return spread + self._rounding(node, _RESULT_ROUNDINGS)

    def _comparison(self, node: Binary, a: Array, b: Array) -> Array | float:
        """1 where the truth may be the other one."""
        if not a.any() and not b.any():
            return 0.0
        x, y = self._values(node.lhs), self._values(node.rhs)
        apart = _distance(x, y)
        return np.where((a + b > 0) & (apart <= a + b), 1.0, 0.0)

    def _decided(self, node: Binary, a: Array, b: Array) -> Array:
        """A truth in doubt does not matter where the other one decides."""
        if not a.any() and not b.any():
            return a
        deciding = node.op == "or"
        x, y = self._values(node.lhs), self._values(node.rhs)
        decided = ((x == deciding) & (a == 0)) | ((y == deciding) & (b == 0))
        return np.where(decided, 0.0, np.maximum(a, b))

    def _cast(self, node: Cast) -> Array | float:
        source, target, error = node.operand.dtype, node.dtype, self(node.operand)
        value = self._values(node.operand)
        if target == BOOL:
            return np.where((error > 0) & (magnitude(value) <= error), 1.0, 0.0)
        if is_integer(target):
            return _integers(value, error, target, is_float(source))
        if is_storage_float(target):
            own = 2 * UNITS[target] * magnitude(self._values(node)) + error
            return np.where(error > 0, error + own, 0.0)
        if is_float(target) and (is_integer(source) or size_of(target) < size_of(source)):
            return error + self._rounding_of(node, error)
        return error

    def _select(self, node: Select) -> Array:
        condition, doubt = self._values(node.condition), self(node.condition)
        then, otherwise = self(node.then), self(node.otherwise)
        error: Array = np.where(condition, then, otherwise)
        if doubt.any():
            apart = _distance(self._values(node.then), self._values(node.otherwise))
            error = np.where(doubt > 0, apart + np.maximum(then, otherwise), error)
        return error


def _integers(value: Array, error: Array, dtype: str, saturates: bool) -> Array:
    """The bound of what becomes an integer: floats saturate; integers wrap, and one that may pass
    a limit may be anything.
    """
    low, high = (float(limit) for limit in integer_limits(dtype))
    least, most = value - error, value + error
    if not saturates:
        beyond = (least < low) | (most > high)
        return np.where((error > 0) & beyond, np.inf, error)
    here, *moved = (np.trunc(np.clip(v, low, high)) for v in (value, least, most))
    return np.where(error > 0, np.maximum(here - moved[0], moved[1] - here), 0.0)


def _times(value: Array, error: Array) -> Array:
    """``value * error``; an exact operand has no error, whatever it is multiplied by."""
    product: Array = np.where((error == 0) | (value == 0), 0.0, value * error)
    return product


def _distance(a: Array, b: Array) -> Array:
    """``|a - b|`` in float64; 0 for equal infinities, infinite where only one is a number."""
    x, y = np.asarray(a).astype(np.float64), np.asarray(b).astype(np.float64)
    apart = np.where(x == y, 0.0, np.abs(x - y))
    return np.where(np.isnan(apart), np.inf, apart)
