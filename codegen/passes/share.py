"""Share: equal parts of values become one object, which what follows looks at once.

    a[i // 14] if i // 14 < 9 else 0     ->     one i // 14

Bodies of variants repeat the same index arithmetic in every term.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace

from codegen.passes.rewrite import Nodes, map_body
from sketch.lang.expr import Binary, Cast, Const, Expr, Select, Unary
from sketch.nest.loopnest import AffineValue, BufferLoad, Index, LoopNest, Node, Quasi, Store


def share(nest: LoopNest) -> LoopNest:
    """The nest with equal subexpressions shared."""
    return replace(nest, roots=_Shared().nodes(nest.roots))


class _Shared:
    """The first of all equal expressions, by what it is and by identity of what it was."""

    def __init__(self) -> None:
        self._first: dict[Hashable, Expr] = {}
        self._done: dict[int, Expr] = {}
        self._indices: dict[Hashable, Index] = {}
        self._tuples: dict[tuple[int, ...], tuple[Index, ...]] = {}

    def nodes(self, nodes: Nodes) -> Nodes:
        """A sequence of nodes."""
        return tuple(self._node(node) for node in nodes)

    def _node(self, node: Node) -> Node:
        if not isinstance(node, Store):
            return map_body(node, self.nodes)
        values = tuple(self._value(value) for value in node.values)
        return replace(node, values=values, indices=self._all(node.indices))

    def _value(self, expr: Expr) -> Expr:
        done = self._done.get(id(expr))
        if done is None:
            done = self._done[id(expr)] = self._equal(expr)
        return done

    def _equal(self, expr: Expr) -> Expr:
        """``expr`` of shared operands, or what is equal to it."""
        key: Hashable
        match expr:
            case Binary(op, lhs, rhs, dtype):
                left, right = self._value(lhs), self._value(rhs)
                key = (op, dtype, id(left), id(right))
                if left is not lhs or right is not rhs:
                    expr = Binary(op, left, right, dtype)
            case Unary(op, operand, dtype):
                part = self._value(operand)
                key = (op, dtype, id(part))
                expr = expr if part is operand else Unary(op, part, dtype)
            case Cast(operand, dtype):
                part = self._value(operand)
                key = ("cast", dtype, id(part))
                expr = expr if part is operand else Cast(part, dtype)
            case Select(condition, then, otherwise):
                parts = self._value(condition), self._value(then), self._value(otherwise)
                key = ("select", *map(id, parts))
                expr = Select(*parts)
            case BufferLoad(buffer, indices):
                shared = self._all(indices)
                key = (buffer, id(shared))
                expr = expr if shared is indices else BufferLoad(buffer, shared)
            case AffineValue(index):
                key = index
            case Const(value, dtype):
                key = (dtype, repr(value))  # 0.0 and -0.0 are equal but not the same
            case _:
                return expr
        return self._first.setdefault(key, expr)

    def _all(self, indices: tuple[Index, ...]) -> tuple[Index, ...]:
        shared = tuple(self._index(index) for index in indices)
        return self._tuples.setdefault(tuple(map(id, shared)), shared)

    def _index(self, index: Index) -> Index:
        if not isinstance(index, Quasi):
            return self._indices.setdefault(index, index)
        expr = self._value(index.expr)
        key = (id(expr), index.low, index.high)
        known = self._indices.get(key)
        if known is None:
            known = self._indices[key] = Quasi(expr, index.low, index.high)
        return known
