"""Element-wise and broadcast operators, each defined by one scalar expression."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Literal

from autosched.graph.errors import GraphError
from autosched.graph.ops.base import (
    Op,
    Pattern,
    TensorType,
    broadcast_shape,
    expect_inputs,
)
from sketch.errors import ExpressionError
from sketch.lang.dtypes import is_float
from sketch.lang.expr import Expr, Var, as_expr, binary, cast, select, unary
from sketch.lang.functions import maximum, minimum
from sketch.lang.tensor import Tensor
from sketch.operators import activations, broadcast, elementwise

UnaryFunction = Literal[
    "relu", "sigmoid", "exp", "expm1", "log", "log1p", "sqrt", "rsqrt", "erf", "abs", "neg", "sign",
    "reciprocal", "floor", "ceil", "round", "sin", "cos", "tan", "asin", "acos", "atan",
    "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "is_nan", "is_inf", "not", "bit_not",
    "ordinal",
]  # fmt: skip
BinaryFunction = Literal[
    "add", "sub", "mul", "div", "mod", "trunc_mod", "max", "min", "pow", "prelu",
    "and", "or", "eq", "ne", "lt", "le", "gt", "ge",
    "bit_and", "bit_or", "bit_xor", "shift_left", "shift_right",
]  # fmt: skip
COMMUTATIVE: Final = (
    "add", "mul", "max", "min", "and", "or", "eq", "ne", "bit_and", "bit_or", "bit_xor",
)  # fmt: skip


def _divide(lhs: Expr, rhs: Expr) -> Expr:
    """``lhs / rhs``; the quotient of integers is truncated."""
    return lhs / rhs if is_float(lhs.dtype) else binary("trunc_div", lhs, rhs)


# Functions that no scalar operator is called after.
_UNARY: Final[Mapping[str, Callable[[Expr], Any]]] = {
    "relu": activations.relu,
    "reciprocal": lambda x: 1 / x,
}
_BINARY: Final[Mapping[str, Callable[[Expr, Expr], Any]]] = {
    "div": _divide,
    "prelu": activations.prelu,
}


class Elementwise(Op):
    """Base of operators whose elements are a scalar expression of the operands' elements.

    Operands broadcast as in NumPy.  The dtype of the result is that of the expression.
    """

    __slots__ = ()

    @abstractmethod
    def scalar(self, *operands: Expr) -> Any:
        """One element of the result.  Raises ExpressionError for operands of a wrong dtype."""

    def infer(self, inputs: Sequence[TensorType]) -> TensorType:
        expect_inputs(self, inputs, len(self.roles))
        shape = broadcast_shape([value.shape for value in inputs])
        operands = (Var(role, v.dtype) for role, v in zip(self.roles, inputs, strict=True))
        try:
            return TensorType(shape, as_expr(self.scalar(*operands)).dtype)
        except ExpressionError as error:
            raise GraphError(error.what, hint=error.hint) from None


@dataclass(frozen=True, slots=True)
class UnaryOp(Elementwise):
    """``function(data)``, element by element."""

    pattern: ClassVar[Pattern] = Pattern.ELEMENTWISE

    function: UnaryFunction

    @property
    def kind(self) -> str:
        return self.function

    def scalar(self, *operands: Expr) -> Any:
        special = _UNARY.get(self.function)
        return special(*operands) if special is not None else unary(self.function, *operands)


@dataclass(frozen=True, slots=True)
class Clip(Elementwise):
    """``min(max(data, low), high)``; a bound of ``None`` is absent."""

    pattern: ClassVar[Pattern] = Pattern.ELEMENTWISE

    low: float | None
    high: float | None

    def scalar(self, *operands: Expr) -> Any:
        (value,) = operands
        low = value if self.low is None else maximum(value, self.low)
        return low if self.high is None else minimum(low, self.high)


@dataclass(frozen=True, slots=True)
class LeakyRelu(Elementwise):
    """``data`` where positive, ``slope * data`` elsewhere."""

    pattern: ClassVar[Pattern] = Pattern.ELEMENTWISE

    slope: float

    @property
    def kind(self) -> str:
        return "leaky_relu"

    def scalar(self, *operands: Expr) -> Any:
        return activations.leaky_relu(operands[0], self.slope)


@dataclass(frozen=True, slots=True)
class CastOp(Elementwise):
    """Conversion to ``dtype``; float to integer truncates toward zero."""

    pattern: ClassVar[Pattern] = Pattern.ELEMENTWISE

    dtype: str

    @property
    def kind(self) -> str:
        return "cast"

    def scalar(self, *operands: Expr) -> Any:
        return cast(operands[0], self.dtype)


@dataclass(frozen=True, slots=True)
class Identity(Elementwise):
    """The input itself; also what dropout is at inference."""

    pattern: ClassVar[Pattern] = Pattern.ELEMENTWISE

    def scalar(self, *operands: Expr) -> Any:
        return operands[0]


@dataclass(frozen=True, slots=True)
class BinaryOp(Elementwise):
    """``function(lhs, rhs)`` with NumPy's broadcasting; both operands have one dtype."""

    pattern: ClassVar[Pattern] = Pattern.BROADCAST
    roles: ClassVar[tuple[str, ...]] = ("lhs", "rhs")

    function: BinaryFunction

    @property
    def kind(self) -> str:
        return self.function

    def scalar(self, *operands: Expr) -> Any:
        special = _BINARY.get(self.function)
        return special(*operands) if special is not None else binary(self.function, *operands)

    def infer(self, inputs: Sequence[TensorType]) -> TensorType:
        expect_inputs(self, inputs, 2)
        _expect_one_dtype(inputs)
        # a dataclass with slots replaces the class that a bare super() refers to
        return Elementwise.infer(self, inputs)


@dataclass(frozen=True, slots=True)
class Where(Elementwise):
    """``then`` where ``condition`` (bool) holds, else ``otherwise``; NumPy's broadcasting."""

    pattern: ClassVar[Pattern] = Pattern.BROADCAST
    roles: ClassVar[tuple[str, ...]] = ("condition", "then", "otherwise")

    def scalar(self, *operands: Expr) -> Any:
        return select(*operands)

    def infer(self, inputs: Sequence[TensorType]) -> TensorType:
        expect_inputs(self, inputs, 3)
        _expect_one_dtype(inputs[1:])
        return Elementwise.infer(self, inputs)


def _expect_one_dtype(inputs: Sequence[TensorType]) -> None:
    if inputs[0].dtype != inputs[1].dtype:
        raise GraphError(f"operands have different dtypes: {inputs[0]} and {inputs[1]}")


def lower_elementwise(op: Elementwise, inputs: Sequence[Tensor], name: str) -> tuple[Tensor, ...]:
    """One stage that broadcasts as it reads."""
    return (broadcast.zip_elements(inputs, op.scalar, name),)


def lower_identity(op: Op, inputs: Sequence[Tensor], name: str) -> tuple[Tensor, ...]:
    """A copy."""
    return (elementwise.map_elements(inputs[0], lambda value: value, name),)
