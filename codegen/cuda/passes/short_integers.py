"""Integers in 32 bits, where the loops bound them: a GPU computes 64 bits in parts, and a division
by a constant then takes tens of instructions.

    x[floor_div((long long)(i), 7) - 1]    ->    x[(long long)(trunc_div((int)(i), 7) - 1)]

Divisions of what is never negative also need no rounding down.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from codegen.passes.affine import Ranges, interval, loop_range
from codegen.passes.rewrite import Nodes, map_body
from sketch.lang.affine import Interval
from sketch.lang.dtypes import integer_limits
from sketch.lang.expr import Binary, Cast, Const, Expr, Select, Unary
from sketch.lang.operator_names import COMPARISON
from sketch.lang.rewrite import reused
from sketch.nest.intervals import affine_of, interval_visitor
from sketch.nest.loopnest import (
    AffineValue,
    Branch,
    BufferLoad,
    Index,
    Loop,
    LoopNest,
    Node,
    Quasi,
    Store,
)

_LONG: Final = "int64"
_SHORT: Final = "int32"
# What of an operand that is never negative, by a positive one, needs no rounding down.
_TRUNCATED: Final = {"floordiv": "trunc_div", "mod": "trunc_mod"}
_KEPT: Final = ("add", "sub", "mul", "min", "max")


def short_integers(nest: LoopNest) -> LoopNest:
    """The nest with integer expressions in 32 bits, where all their parts fit."""
    return replace(nest, roots=_visit(nest.roots, {}))


def _visit(nodes: Nodes, ranges: Ranges) -> Nodes:
    return reused([_visit_node(node, ranges) for node in nodes], nodes)


def _visit_node(node: Node, ranges: Ranges) -> Node:
    match node:
        case Store():
            shortening = _Shortening(ranges)
            values = reused([shortening.value(value) for value in node.values], node.values)
            indices = reused([shortening.index(index) for index in node.indices], node.indices)
            if values is node.values and indices is node.indices:
                return node
            return replace(node, values=values, indices=indices)
        case Loop():
            inside = {**ranges, node.var: loop_range(node)}
            return map_body(node, lambda body: _visit(body, inside))
        case Branch():
            return node
        case _:
            return map_body(node, lambda body: _visit(body, ranges))


class _Shortening:
    """Expressions of one statement."""

    def __init__(self, ranges: Ranges) -> None:
        self._bounds: Callable[[Expr], Interval | None] = interval_visitor(
            lambda form: interval(form, ranges)
        )
        self._values: dict[int, tuple[Expr, Expr]] = {}
        self._shorts: dict[int, tuple[Expr, Expr | None]] = {}

    def value(self, node: Expr) -> Expr:
        """The same value; what it is made of may be computed in 32 bits."""
        if id(node) not in self._values:
            self._values[id(node)] = node, self._value(node)
        return self._values[id(node)][1]

    def index(self, index: Index) -> Index:
        """The same index."""
        if not isinstance(index, Quasi):
            return index
        expr = self.value(index.expr)
        return index if expr is index.expr else Quasi(expr, index.low, index.high)

    def _value(self, node: Expr) -> Expr:
        match node:
            case Binary(op, lhs, rhs, dtype):
                short = self._compared(node) if op in COMPARISON else self._whole(node)
                if short is not None:
                    return short
                a, b = self.value(lhs), self.value(rhs)
                return node if a is lhs and b is rhs else Binary(op, a, b, dtype)
            case Select(condition, then, otherwise):
                parts = self.value(condition), self.value(then), self.value(otherwise)
                same = parts[0] is condition and parts[1] is then and parts[2] is otherwise
                return node if same else Select(*parts)
            case Unary(_, operand, _) | Cast(operand, _):
                inner = self.value(operand)
                return node if inner is operand else replace(node, operand=inner)
            case BufferLoad(buffer, indices):
                new = reused([self.index(index) for index in indices], indices)
                return node if new is indices else BufferLoad(buffer, new)
            case _:
                return node

    def _whole(self, node: Binary) -> Expr | None:
        """An integer computed in 32 bits and made long again."""
        if node.dtype != _LONG or affine_of(node) is not None:
            return None
        short = self._short(node)
        return None if short is None else Cast(short, _LONG)

    def _compared(self, node: Binary) -> Expr | None:
        """A comparison of integers of 32 bits."""
        lhs, rhs = node.lhs, node.rhs
        if lhs.dtype != _LONG or (affine_of(lhs) is not None and affine_of(rhs) is not None):
            return None
        a, b = self._short(lhs), self._short(rhs)
        return None if a is None or b is None else Binary(node.op, a, b, node.dtype)

    def _short(self, node: Expr) -> Expr | None:
        """An integer as one of 32 bits; None where some part of it may not fit."""
        if id(node) not in self._shorts:
            self._shorts[id(node)] = node, self._as_short(node)
        return self._shorts[id(node)][1]

    def _as_short(self, node: Expr) -> Expr | None:
        bounds = self._bounds(node)
        low, high = integer_limits(_SHORT)
        if bounds is None or not low <= bounds[0] <= bounds[1] <= high:
            return None
        form = affine_of(node)
        if form is not None:
            return Const(form.const, _SHORT) if not form.terms else Cast(AffineValue(form), _SHORT)
        match node:
            case Binary(op, lhs, rhs, dtype) if dtype == _LONG:
                a, b = self._short(lhs), self._short(rhs)
                return None if a is None or b is None else self._binary(op, node, a, b)
            case Select(condition, then, otherwise):
                a, b = self._short(then), self._short(otherwise)
                return None if a is None or b is None else Select(self.value(condition), a, b)
            case Cast(operand, dtype) if dtype == _LONG and operand.dtype == _SHORT:
                return self.value(operand)
            case _:
                return None

    def _binary(self, op: str, node: Binary, lhs: Expr, rhs: Expr) -> Expr | None:
        if op in _KEPT:
            return Binary(op, lhs, rhs, _SHORT)
        numerator, divisor = self._bounds(node.lhs), self._bounds(node.rhs)
        if op not in _TRUNCATED or numerator is None or divisor is None:
            return None
        positive = numerator[0] >= 0 and divisor[0] > 0
        return Binary(_TRUNCATED[op] if positive else op, lhs, rhs, _SHORT)
