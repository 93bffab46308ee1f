"""Scalar expressions and indices as CUDA C++ text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from codegen.cuda.names import Identifiers
from codegen.cuda.scalars import C_TYPES, call, convert, literal, power_function
from codegen.errors import CodegenError
from codegen.passes.affine import flatten
from sketch.lang.affine import UNBOUNDED
from sketch.lang.dtypes import is_integer
from sketch.lang.expr import Binary, Cast, Const, Expr, Select, Unary, Var
from sketch.lang.operator_names import BITWISE, COMPARISON
from sketch.nest.intervals import affine_of
from sketch.nest.loopnest import (
    Affine,
    AffineValue,
    Buffer,
    BufferLoad,
    Index,
    LoopVar,
    Predicate,
    Swizzle,
)

_INFIX: Final = {
    "add": "+", "sub": "-", "mul": "*", "div": "/", "lt": "<", "le": "<=", "gt": ">", "ge": ">=",
    "eq": "==", "ne": "!=", "and": "&&", "or": "||", "bit_and": "&", "bit_or": "|", "bit_xor": "^",
}  # fmt: skip
_BINARY_CALLS: Final = {
    "floordiv": "floor_div", "mod": "floor_mod", "trunc_div": "trunc_div",
    "trunc_mod": "trunc_mod", "min": "nan_min", "max": "nan_max", "shift_left": "shift_left",
    "shift_right": "shift_right",
}  # fmt: skip
# Never merged with a product, as the compiler does with ``+`` and ``-``.
_ROUNDED: Final = {
    ("add", "float32"): "__fadd_rn", ("sub", "float32"): "__fsub_rn",
    ("add", "float64"): "__dadd_rn", ("sub", "float64"): "__dsub_rn",
}  # fmt: skip
_WRAPPING: Final = ("add", "sub", "mul")


class Expressions:
    """Expressions over the variables and buffers that ``names`` knows."""

    def __init__(self, names: Identifiers) -> None:
        self._names = names
        self._starts: dict[Buffer, str] = {}

    def start(self, buffer: Buffer, place: str) -> None:
        """From now on the elements of a buffer lie behind ``place``."""
        self._starts[buffer] = place

    def variable(self, var: LoopVar) -> str:
        """The identifier of a loop variable."""
        return self._names.of(var, var.name)

    def buffer(self, buffer: Buffer) -> str:
        """The identifier of a buffer."""
        return self._names.of(buffer, buffer.name)

    def affine(self, form: Affine) -> str:
        """``i + 4*j - 1``, of the index type."""
        text = ""
        for var, coefficient in form.terms:
            size = abs(coefficient)
            part = self.variable(var) if size == 1 else f"{size} * {self.variable(var)}"
            if text:
                text += f" + {part}" if coefficient > 0 else f" - {part}"
            else:
                text = part if coefficient > 0 else f"-{part}"
        if not text:
            return str(form.const)
        if form.const:
            text += f" + {form.const}" if form.const > 0 else f" - {-form.const}"
        return text

    def element(self, buffer: Buffer, indices: tuple[Index, ...]) -> str:
        """One element of a buffer: ``A[36 * i + k]``."""
        return self._element(buffer, indices, buffer.swizzle if buffer.swizzled else None)

    def plain_element(self, buffer: Buffer, indices: tuple[Index, ...]) -> str:
        """Where it would be if rows were not swizzled."""
        return self._element(buffer, indices, None)

    def _element(self, buffer: Buffer, indices: tuple[Index, ...], swizzle: Swizzle | None) -> str:
        form, rest = flatten(buffer, indices)
        parts = [self.expr(index.expr, {}) for index, _ in rest]
        strides = [stride for _, stride in rest]
        terms = [p if s == 1 else f"{s} * {p}" for p, s in zip(parts, strides, strict=True)]
        if form.terms or form.const or not terms:
            terms.append(self.affine(form))
        if swizzle is not None:
            shape = f"<{int(swizzle.row)}, {int(swizzle.pieces)}, {swizzle.piece}>"
            terms = [f"swizzled{shape}({' + '.join(terms)})"]
        if buffer in self._starts:
            terms.insert(0, self._starts[buffer])
        return f"{self.buffer(buffer)}[{' + '.join(terms)}]"

    def predicate(self, predicate: Predicate) -> str:
        """The test that a predicate makes."""
        index = self.affine(predicate.index)
        tests = []
        if predicate.low > -UNBOUNDED:
            tests.append(f"{index} >= {predicate.low}")
        if predicate.high < UNBOUNDED:
            tests.append(f"{index} < {predicate.high}")
        return " && ".join(tests) or "true"

    def all_hold(self, predicates: tuple[Predicate, ...]) -> str:
        """The conjunction of predicates."""
        return " && ".join(map(self.predicate, predicates))

    def expr(self, node: Expr, values: Mapping[Var, str]) -> str:
        """An expression, fully parenthesised; ``values`` are the texts of a reducer's operands.

        Raises:
            CodegenError: the expression has no CUDA text.
        """
        match node:
            case Const(value, dtype):
                return literal(value, dtype)
            case AffineValue(index):
                return f"(long long)({self.affine(index)})"
            case LoopVar():
                return f"(long long){self.variable(node)}"
            case Var() if node in values:
                return values[node]
            case BufferLoad(buffer, indices):
                return self.element(buffer, indices)
            case Select(condition, then, otherwise):
                parts = [self.expr(part, values) for part in (condition, then, otherwise)]
                return f"({parts[0]} ? {parts[1]} : {parts[2]})"
            case Cast(operand, dtype):
                return convert(self.expr(operand, values), operand.dtype, dtype)
            case Unary(op, operand, _):
                return call(op, self.expr(operand, values), operand.dtype)
            case Binary():
                return self._binary(node, values)
            case _:
                raise CodegenError(f"{type(node).__name__} cannot appear in CUDA code")

    def _binary(self, node: Binary, values: Mapping[Var, str]) -> str:
        lhs, rhs = affine_of(node.lhs), affine_of(node.rhs)
        if node.op in COMPARISON and lhs is not None and rhs is not None:
            return f"({self.affine(lhs)} {_INFIX[node.op]} {self.affine(rhs)})"
        left, right = self.expr(node.lhs, values), self.expr(node.rhs, values)
        if node.op in _WRAPPING and is_integer(node.dtype) and node.dtype != "int64":
            # C++ computes in int and leaves overflow undefined
            total = f"((unsigned)({left}) {_INFIX[node.op]} (unsigned)({right}))"
            return f"({C_TYPES[node.dtype]}){total}"
        if (node.op, node.dtype) in _ROUNDED and _are_rounded(node.lhs, node.rhs):
            return f"{_ROUNDED[node.op, node.dtype]}({left}, {right})"
        if node.op in _INFIX:
            text = f"({left} {_INFIX[node.op]} {right})"
            return f"({C_TYPES[node.dtype]}){text}" if node.op in BITWISE else text
        if node.op == "pow":
            return f"{power_function(node.dtype)}({left}, {right})"
        if node.op in _BINARY_CALLS:
            return f"{_BINARY_CALLS[node.op]}({left}, {right})"
        raise CodegenError(f"{node.op} of {node.dtype} has no CUDA code")


def _are_rounded(lhs: Expr, rhs: Expr) -> bool:
    """Whether these are products that are not merged with their sum; see ``codegen.llvm``."""
    scaled = [_is_scaled(lhs), _is_scaled(rhs)]
    return None not in scaled and not all(scaled)


def _is_scaled(expr: Expr) -> bool | None:
    """Whether a factor of a product is a literal; None: it is no product."""
    match expr:
        case Binary("mul", lhs, rhs):
            return isinstance(lhs, Const) or isinstance(rhs, Const)
        case Unary("neg", operand):
            return _is_scaled(operand)
        case _:
            return None
