"""Element-wise and broadcast operators."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Final, Literal

from autosched.graph.errors import GraphError
from autosched.graph.ops.base import (
    Op,
    Pattern,
    TensorType,
    broadcast_shape,
    expect_inputs,
)
from sketch.expr import Expr, maximum, minimum
from sketch.operators import broadcast, elementwise
from sketch.tensor import Tensor

UnaryFunction = Literal[
    "relu", "sigmoid", "tanh", "exp", "log", "sqrt", "rsqrt", "erf", "abs", "neg", "floor", "ceil"
]
BinaryFunction = Literal["add", "sub", "mul", "div", "max", "min"]
COMMUTATIVE: Final = ("add", "mul", "max", "min")
_ANY_NUMBER: Final = ("relu", "abs", "neg")


@dataclass(frozen=True, slots=True)
class Unary(Op):
    """``function(data)``, element by element."""

    pattern: ClassVar[Pattern] = Pattern.ELEMENTWISE

    function: UnaryFunction

    @property
    def kind(self) -> str:
        return self.function

    def infer(self, inputs: Sequence[TensorType]) -> TensorType:
        expect_inputs(self, inputs, 1)
        if inputs[0].dtype != "float32" and self.function not in _ANY_NUMBER:
            raise GraphError(f"needs float32, got {inputs[0]}")
        return inputs[0]


@dataclass(frozen=True, slots=True)
class Clip(Op):
    """``min(max(data, low), high)``; a bound of ``None`` is absent."""

    pattern: ClassVar[Pattern] = Pattern.ELEMENTWISE

    low: float | None
    high: float | None

    def infer(self, inputs: Sequence[TensorType]) -> TensorType:
        expect_inputs(self, inputs, 1)
        return inputs[0]


@dataclass(frozen=True, slots=True)
class LeakyRelu(Op):
    """``data`` where positive, ``slope * data`` elsewhere."""

    pattern: ClassVar[Pattern] = Pattern.ELEMENTWISE

    slope: float

    @property
    def kind(self) -> str:
        return "leaky_relu"

    def infer(self, inputs: Sequence[TensorType]) -> TensorType:
        expect_inputs(self, inputs, 1)
        return inputs[0]


@dataclass(frozen=True, slots=True)
class Cast(Op):
    """Conversion to ``dtype``; float to integer truncates toward zero."""

    pattern: ClassVar[Pattern] = Pattern.ELEMENTWISE

    dtype: str

    def infer(self, inputs: Sequence[TensorType]) -> TensorType:
        expect_inputs(self, inputs, 1)
        return TensorType(inputs[0].shape, self.dtype)


@dataclass(frozen=True, slots=True)
class Identity(Op):
    """The input itself; also what dropout is at inference."""

    pattern: ClassVar[Pattern] = Pattern.ELEMENTWISE

    def infer(self, inputs: Sequence[TensorType]) -> TensorType:
        expect_inputs(self, inputs, 1)
        return inputs[0]


@dataclass(frozen=True, slots=True)
class Binary(Op):
    """``function(lhs, rhs)`` with NumPy's broadcasting; both operands have one dtype."""

    pattern: ClassVar[Pattern] = Pattern.BROADCAST
    roles: ClassVar[tuple[str, ...]] = ("lhs", "rhs")

    function: BinaryFunction

    @property
    def kind(self) -> str:
        return self.function

    def infer(self, inputs: Sequence[TensorType]) -> TensorType:
        expect_inputs(self, inputs, 2)
        lhs, rhs = inputs
        if lhs.dtype != rhs.dtype:
            raise GraphError(f"operands have different dtypes: {lhs} and {rhs}")
        if self.function == "div" and lhs.dtype != "float32":
            raise GraphError(f"needs float32, got {lhs}")
        return TensorType(broadcast_shape((lhs.shape, rhs.shape)), lhs.dtype)


def lower_unary(op: Unary, inputs: Sequence[Tensor], name: str) -> tuple[Tensor, ...]:
    """One stage."""
    named = {
        "relu": elementwise.relu,
        "abs": elementwise.absolute,
        "neg": elementwise.negative,
    }
    if op.function in named:
        return (named[op.function](inputs[0], name),)
    return (elementwise.call(inputs[0], op.function, name),)


def lower_clip(op: Clip, inputs: Sequence[Tensor], name: str) -> tuple[Tensor, ...]:
    """One stage, with the bounds that there are."""

    def bounded(value: Expr) -> Expr:
        low = value if op.low is None else maximum(value, op.low)
        return low if op.high is None else minimum(low, op.high)

    return (elementwise.map_elements(inputs[0], bounded, name),)


def lower_leaky_relu(op: LeakyRelu, inputs: Sequence[Tensor], name: str) -> tuple[Tensor, ...]:
    """One stage."""
    return (elementwise.leaky_relu(inputs[0], op.slope, name),)


def lower_cast(op: Cast, inputs: Sequence[Tensor], name: str) -> tuple[Tensor, ...]:
    """One stage."""
    return (elementwise.cast(inputs[0], op.dtype, name),)


def lower_identity(op: Op, inputs: Sequence[Tensor], name: str) -> tuple[Tensor, ...]:
    """A copy; the passes remove it."""
    return (elementwise.map_elements(inputs[0], lambda value: value, name),)


def lower_binary(op: Binary, inputs: Sequence[Tensor], name: str) -> tuple[Tensor, ...]:
    """One stage that broadcasts as it reads."""
    return (broadcast.binary(op.function, inputs[0], inputs[1], name),)
