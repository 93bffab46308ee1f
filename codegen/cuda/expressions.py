"""Scalar expressions and indices as CUDA C++ text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np

from codegen.cuda.names import Names
from codegen.errors import CodegenError
from codegen.passes.affine import flatten
from codegen.passes.simplify import affine_of
from sketch.dtypes import is_float
from sketch.expr import COMPARISON, Binary, Cast, Const, Expr, Select, Unary, Var
from sketch.loopnest import (
    UNBOUNDED,
    Affine,
    AffineValue,
    Buffer,
    BufferLoad,
    Index,
    LoopVar,
    Predicate,
)

C_TYPES: Final[Mapping[str, str]] = {
    "float32": "float", "int32": "int", "int64": "long long", "bool": "bool",
}  # fmt: skip
_INFIX: Final = {
    "add": "+", "sub": "-", "mul": "*", "div": "/", "lt": "<", "le": "<=", "gt": ">", "ge": ">=",
    "eq": "==", "ne": "!=", "and": "&&", "or": "||",
}  # fmt: skip
_BINARY_CALLS: Final = {
    "floordiv": "floor_div", "mod": "floor_mod", "min": "nan_min", "max": "nan_max", "pow": "powf",
}  # fmt: skip
_UNARY_CALLS: Final = {
    "exp": "expf", "log": "logf", "sqrt": "sqrtf", "rsqrt": "rsqrtf", "tanh": "tanhf",
    "erf": "erff", "sigmoid": "sigmoid", "floor": "floorf", "ceil": "ceilf",
}  # fmt: skip
_PREFIX: Final = {"neg": "-", "not": "!"}
_SPECIAL: Final = {"inf": "0x7f800000", "-inf": "0xff800000", "nan": "0x7fffffff"}

# Minimum and maximum are NaN where an operand is; integer division rounds down.
PRELUDE: Final = """\
template <class T> __device__ inline T nan_max(T a, T b) { return a > b || a != a ? a : b; }
template <class T> __device__ inline T nan_min(T a, T b) { return a < b || a != a ? a : b; }
template <class T> __device__ inline T floor_div(T a, T b) {
  return a / b - (a % b != 0 && (a < 0) != (b < 0));
}
template <class T> __device__ inline T floor_mod(T a, T b) { return a - floor_div(a, b) * b; }
__device__ inline float sigmoid(float x) { return 1.0f / (1.0f + expf(-x)); }
"""


class Expressions:
    """Expressions over the variables and buffers that ``names`` knows."""

    def __init__(self, names: Names) -> None:
        self._names = names

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
        form, rest = flatten(buffer, indices)
        parts = [self.expr(index.expr, {}) for index, _ in rest]
        strides = [stride for _, stride in rest]
        terms = [p if s == 1 else f"{s} * {p}" for p, s in zip(parts, strides, strict=True)]
        if form.terms or form.const or not terms:
            terms.append(self.affine(form))
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
        """An expression, fully parenthesised; ``values`` are the texts of a reducer's operands."""
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
                return _cast(self.expr(operand, values), dtype)
            case Unary(op, operand, dtype):
                return _unary(op, self.expr(operand, values), dtype)
            case Binary():
                return self._binary(node, values)
            case _:
                raise CodegenError(f"{type(node).__name__} cannot appear in CUDA code")

    def _binary(self, node: Binary, values: Mapping[Var, str]) -> str:
        lhs, rhs = affine_of(node.lhs), affine_of(node.rhs)
        if node.op in COMPARISON and lhs is not None and rhs is not None:
            return f"({self.affine(lhs)} {_INFIX[node.op]} {self.affine(rhs)})"
        left, right = self.expr(node.lhs, values), self.expr(node.rhs, values)
        if node.op in _INFIX:
            return f"({left} {_INFIX[node.op]} {right})"
        if node.op in _BINARY_CALLS and (node.op != "pow" or is_float(node.dtype)):
            return f"{_BINARY_CALLS[node.op]}({left}, {right})"
        raise CodegenError(f"{node.op} of {node.dtype} has no CUDA code")


def _unary(op: str, operand: str, dtype: str) -> str:
    if op in _PREFIX:
        return f"({_PREFIX[op]}{operand})"
    if op == "abs":
        negated = f"({operand} < 0 ? -{operand} : {operand})"
        return f"fabsf({operand})" if is_float(dtype) else negated
    if op in _UNARY_CALLS:
        return f"{_UNARY_CALLS[op]}({operand})"
    raise CodegenError(f"{op} of {dtype} has no CUDA code")


def _cast(operand: str, dtype: str) -> str:
    return f"({operand} != 0)" if dtype == "bool" else f"({C_TYPES[dtype]})({operand})"


def literal(value: float | int | bool, dtype: str) -> str:
    """A constant of ``dtype``, with the very bits."""
    if dtype == "bool":
        return "true" if value else "false"
    if is_float(dtype):
        text = str(np.float32(value))
        if text in _SPECIAL:
            return f"__int_as_float({_SPECIAL[text]})"
        return f"{text}f" if "." in text or "e" in text else f"{text}.0f"
    number, suffix = int(value), "" if dtype == "int32" else "LL"
    smallest = -(2**31) if dtype == "int32" else -(2**63)
    if number == smallest:
        return f"({number + 1}{suffix} - 1)"
    return f"{number}{suffix}" if number >= 0 else f"({number}{suffix})"
