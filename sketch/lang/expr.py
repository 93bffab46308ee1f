"""Scalar expressions: immutable nodes over axes, constants and tensor elements.

Nodes compare by identity; structural comparison is the job of ``sketch.dag``'s canonical key.
Python operators build nodes (``a + b``, ``a < b``, ``a ** b``, ``a & b``), NumPy's functions, too.
``==`` stays identity, so equality is written ``equal(a, b)``.

What every backend and the oracle agree on: integers wrap around; dividing them by zero gives 0 (the
remainder too); shifting by less than 0 or by the width and more shifts all bits out; float to
integer truncates toward zero and saturates, NaN gives 0; NaN passes through minima and maxima, and
is what argmax and argmin find.  Nothing is simplified that differs for NaN or infinities; only the
sign of a zero that a sum, a minimum or a maximum gives is not defined.
Arithmetic on 16-bit floats is float32 arithmetic, rounded once, when the value is stored.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from sketch.errors import ExpressionError
from sketch.lang.dtypes import (
    BOOL,
    AnyDtype,
    arithmetic_dtype,
    check_dtype,
    check_integer,
    is_float,
    is_integer,
    is_storage_float,
    promote,
    wrap_integer,
)  # fmt: skip
from sketch.lang.numpy_functions import numpy_call
from sketch.lang.operator_names import (
    COMPARISON,
    LOGICAL,
    RESULTS,
    check_binary,
    check_operands,
    check_unary,
)  # fmt: skip

if TYPE_CHECKING:
    from sketch.lang.tensor import Tensor

AxisKind = Literal["spatial", "reduce"]


class Expr:
    """Base of all scalar expressions.  Every node has a ``dtype``."""

    __slots__ = ()

    @property
    def dtype(self) -> str:
        raise AssertionError("abstract")

    def __add__(self, other: Any) -> Expr:
        return binary("add", self, other)

    def __radd__(self, other: Any) -> Expr:
        return binary("add", other, self)

    def __sub__(self, other: Any) -> Expr:
        return binary("sub", self, other)

    def __rsub__(self, other: Any) -> Expr:
        return binary("sub", other, self)

    def __mul__(self, other: Any) -> Expr:
        return binary("mul", self, other)

    def __rmul__(self, other: Any) -> Expr:
        return binary("mul", other, self)

    def __truediv__(self, other: Any) -> Expr:
        return binary("div", self, other)

    def __rtruediv__(self, other: Any) -> Expr:
        return binary("div", other, self)

    def __floordiv__(self, other: Any) -> Expr:
        return binary("floordiv", self, other)

    def __rfloordiv__(self, other: Any) -> Expr:
        return binary("floordiv", other, self)

    def __mod__(self, other: Any) -> Expr:
        return binary("mod", self, other)

    def __rmod__(self, other: Any) -> Expr:
        return binary("mod", other, self)

    def __pow__(self, other: Any) -> Expr:
        return binary("pow", self, other)

    def __rpow__(self, other: Any) -> Expr:
        return binary("pow", other, self)

    def __and__(self, other: Any) -> Expr:
        return _bits("and", self, other)

    def __or__(self, other: Any) -> Expr:
        return _bits("or", self, other)

    def __xor__(self, other: Any) -> Expr:
        return _bits("xor", self, other)

    def __lshift__(self, other: Any) -> Expr:
        return binary("shift_left", self, other)

    def __rshift__(self, other: Any) -> Expr:
        return binary("shift_right", self, other)

    def __invert__(self) -> Expr:
        return unary("not" if self.dtype == BOOL else "bit_not", self)

    def __neg__(self) -> Expr:
        return unary("neg", self)

    def __lt__(self, other: Any) -> Expr:
        return binary("lt", self, other)

    def __le__(self, other: Any) -> Expr:
        return binary("le", self, other)

    def __gt__(self, other: Any) -> Expr:
        return binary("gt", self, other)

    def __ge__(self, other: Any) -> Expr:
        return binary("ge", self, other)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        return numpy_call(unary, binary, ufunc, method, inputs, options)

    def __bool__(self) -> bool:
        raise ExpressionError(
            "a tensor expression has no truth value while the program is being built",
            hint="use select(condition, a, b), all_of(...) or any_of(...)",
        )


@dataclass(frozen=True, slots=True, eq=False)
class Axis(Expr):
    """A loop of a stage: ``0 <= axis < extent``.  Identity matters, not the name."""

    name: str
    extent: int
    kind: AxisKind

    @property
    def dtype(self) -> str:
        return "int64"


@dataclass(frozen=True, slots=True, eq=False)
class Const(Expr):
    """A literal."""

    value: float | int | bool
    dtype: str


@dataclass(frozen=True, slots=True, eq=False)
class Var(Expr):
    """A named scalar that stands for a value: operands of a reducer, loop variables of a nest."""

    name: str
    dtype: str


@dataclass(frozen=True, slots=True, eq=False)
class Load(Expr):
    """One element of a tensor."""

    tensor: Tensor
    indices: tuple[Expr, ...]

    @property
    def dtype(self) -> str:
        return self.tensor.dtype


@dataclass(frozen=True, slots=True, eq=False)
class Binary(Expr):
    """``op(lhs, rhs)``: arithmetic, bitwise, comparison or logical."""

    op: str
    lhs: Expr
    rhs: Expr
    dtype: str


@dataclass(frozen=True, slots=True, eq=False)
class Unary(Expr):
    """``op(operand)``: negation, absolute value, logical not, or an elementary function."""

    op: str
    operand: Expr
    dtype: str


@dataclass(frozen=True, slots=True, eq=False)
class Select(Expr):
    """``then if condition else otherwise``; the branch that is not taken is not evaluated, so it
    may index out of bounds.
    """

    condition: Expr
    then: Expr
    otherwise: Expr

    @property
    def dtype(self) -> str:
        node: Expr = self
        while isinstance(node, Select):  # branches may be nested deeply
            node = node.then
        return node.dtype


@dataclass(frozen=True, slots=True, eq=False)
class Cast(Expr):
    """Conversion to ``dtype``: integers wrap, and to bool everything but zero is true."""

    operand: Expr
    dtype: str


@dataclass(frozen=True, slots=True, eq=False)
class Reducer:
    """A tuple reducer: identities and an associative combine of two tuples.

    ``result[i]``, over ``lhs`` (a running value) and ``rhs`` (a term), is element i of the two
    combined; ``identity``: neutral ones.  ``skips_nan``: maxima may leave out NaN, in nests.
    """

    name: str
    lhs: tuple[Var, ...]
    rhs: tuple[Var, ...]
    result: tuple[Expr, ...]
    identity: tuple[Const, ...]
    skips_nan: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Reduce(Expr):
    """A reduction of ``sources`` over ``axes``; only allowed as the whole body of a stage."""

    reducer: Reducer
    sources: tuple[Expr, ...]
    axes: tuple[Axis, ...]

    @property
    def dtype(self) -> str:
        return self.sources[0].dtype


def as_expr(value: Any, like: str | None = None) -> Expr:
    """A number as a constant, of dtype ``like`` where that can hold it; raises ExpressionError."""
    if isinstance(value, Expr):
        return value
    item = value.item() if hasattr(value, "item") else value
    if isinstance(item, bool):
        return Const(item, BOOL)
    if isinstance(item, int):
        if like and is_float(like):
            return Const(float(item), like)
        return Const(
            check_integer(item, like) if like and is_integer(like) else item, like or "int64"
        )
    if isinstance(item, float):
        return Const(item, like if like and is_float(like) else "float32")
    raise ExpressionError(
        f"cannot use {value!r} of type {type(value).__name__} in an expression",
        hint="use numbers, axes or tensor elements",
    )


def _operands(lhs: Any, rhs: Any) -> tuple[Expr, Expr]:
    if not isinstance(lhs, Expr):
        right = as_expr(rhs)
        return as_expr(lhs, right.dtype), right
    return lhs, as_expr(rhs, lhs.dtype)


def widen(node: Expr) -> Expr:
    """``node`` in the dtype that arithmetic is done in: 16-bit floats become float32.

    The rounding of a 16-bit intermediate result is dropped, and literals keep all their digits.
    """
    if not isinstance(node, Select):
        return _widened(node)
    if not is_storage_float(node.dtype):
        return node
    made: dict[int, Expr] = {}  # selects may be nested deeply, and share branches
    pending: list[Expr] = [node]
    while pending:
        current = pending[-1]
        if isinstance(current, Select):
            branches = (current.then, current.otherwise)
            missing = [branch for branch in branches if id(branch) not in made]
            if missing:
                pending.extend(missing)
                continue
            made[id(current)] = Select(current.condition, *(made[id(b)] for b in branches))
        else:
            made[id(current)] = _widened(current)
        pending.pop()
    return made[id(node)]


def _widened(node: Expr) -> Expr:
    """``widen`` of what is no select."""
    if not is_storage_float(node.dtype):
        return node
    if isinstance(node, Cast) and node.operand.dtype == "float32":
        return node.operand
    return cast(node, arithmetic_dtype(node.dtype))


def binary(op: str, lhs: Any, rhs: Any) -> Expr:
    """Build ``op(lhs, rhs)``; operands are promoted, comparisons give bool.

    Raises ExpressionError on operands of a wrong type (logic on numbers, arithmetic on bool).
    """
    left, right = _operands(lhs, rhs)
    check_operands(op, left.dtype, right.dtype)
    if op in LOGICAL:
        return Binary(op, left, right, BOOL)
    dtype = left.dtype if left.dtype == right.dtype else promote(left.dtype, right.dtype)
    if is_storage_float(left.dtype) or is_storage_float(right.dtype):
        wide = binary(op, widen(left), widen(right))
        return wide if op in COMPARISON else cast(wide, dtype)
    left, right = cast(left, dtype), cast(right, dtype)
    if op in COMPARISON:
        return Binary(op, left, right, BOOL)
    check_binary(op, dtype)
    folded = _fold(op, left, right)
    return Binary(op, left, right, dtype) if folded is None else folded


def _bits(op: str, lhs: Expr, rhs: Any) -> Expr:
    """``and``, ``or``, ``xor`` of truth values or of the bits of integers."""
    if lhs.dtype != BOOL:
        return binary(f"bit_{op}", lhs, rhs)
    return binary("ne" if op == "xor" else op, lhs, rhs)


def _fold(op: str, left: Expr, right: Expr) -> Expr | None:
    """Integer identities, so that index expressions stay readable; floats are left alone."""
    if not is_integer(left.dtype):
        return None
    lhs = left.value if isinstance(left, Const) else None
    rhs = right.value if isinstance(right, Const) else None
    if lhs is not None and rhs is not None and op in ("add", "sub", "mul"):
        value = {"add": lhs + rhs, "sub": lhs - rhs, "mul": lhs * rhs}[op]
        return Const(wrap_integer(int(value), left.dtype), left.dtype)
    if (rhs == 0 and op in ("add", "sub")) or (rhs == 1 and op in ("mul", "floordiv", "trunc_div")):
        return left
    if (lhs == 0 and op == "add") or (lhs == 1 and op == "mul"):
        return right
    if op == "mul" and 0 in (lhs, rhs):
        return left if lhs == 0 else right
    return None


def unary(op: str, operand: Any) -> Expr:
    """Build ``op(operand)``.  Raises ExpressionError on an unknown op or a wrong operand type."""
    value = as_expr(operand)
    check_unary(op, value.dtype)
    wide = widen(value)
    if op in RESULTS:
        return Unary(op, wide, RESULTS[op])
    return cast(Unary(op, wide, wide.dtype), value.dtype)


def cast(value: Any, dtype: AnyDtype) -> Expr:
    """Convert to ``dtype``; a cast to the same dtype is the value itself."""
    node, dtype = as_expr(value), check_dtype(dtype)
    if node.dtype == dtype:
        return node
    if isinstance(node, Const) and is_float(dtype):
        return Const(float(node.value), dtype)
    if isinstance(node, Const) and is_integer(dtype) and is_integer(node.dtype):
        return Const(wrap_integer(int(node.value), dtype), dtype)
    return Cast(node, dtype)


def select(condition: Any, then: Any, otherwise: Any) -> Expr:
    """``then`` where ``condition`` holds, else ``otherwise``, promoted to one dtype.

    Raises ExpressionError unless the condition is bool.
    """
    test = as_expr(condition)
    if test.dtype != BOOL:
        raise ExpressionError(f"the condition of select must be bool, got {test.dtype}")
    yes, no = _operands(then, otherwise)
    dtype = yes.dtype if yes.dtype == no.dtype else promote(yes.dtype, no.dtype)
    return Select(test, cast(yes, dtype), cast(no, dtype))
