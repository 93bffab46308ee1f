"""The traversals of expressions: ``rewrite`` with a function on leaves, ``walk``, ``children``."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import is_
from typing import Any, Final, TypeVar

from sketch.lang.dtypes import is_float
from sketch.lang.expr import Axis, Binary, Cast, Expr, Load, Reduce, Select, Unary, binary

Item = TypeVar("Item")


def rewrite(node: Expr, leaf: Callable[[Expr], Expr | None]) -> Expr:
    """Rebuild ``node`` bottom-up; ``leaf(n)`` may replace any node before its operands are seen.

    An unchanged node comes back as the same object.  Integer identities are folded again.
    """
    memo: dict[int, Expr] = {}

    def visit(n: Expr) -> Expr:
        known = memo.get(id(n))
        if known is not None:
            return known
        replaced = leaf(n)
        result = replaced if replaced is not None else _rebuild(n, visit)
        memo[id(n)] = result
        return result

    return visit(node)


def _rebuild(n: Expr, visit: Callable[[Expr], Expr]) -> Expr:
    rebuild = _REBUILD.get(type(n))
    return n if rebuild is None else rebuild(n, visit)


def _binary(n: Binary, visit: Callable[[Expr], Expr]) -> Expr:
    lhs, rhs = n.lhs, n.rhs
    a, b = visit(lhs), visit(rhs)
    if a is lhs and b is rhs:
        return n
    if n.dtype == lhs.dtype == a.dtype == rhs.dtype == b.dtype and is_float(n.dtype):
        return Binary(n.op, a, b, n.dtype)  # there is nothing to promote nor to fold
    return binary(n.op, a, b)


def _unary(n: Unary, visit: Callable[[Expr], Expr]) -> Expr:
    a = visit(n.operand)
    return n if a is n.operand else Unary(n.op, a, n.dtype)


def _cast(n: Cast, visit: Callable[[Expr], Expr]) -> Expr:
    a = visit(n.operand)
    return n if a is n.operand else Cast(a, n.dtype)


def _select(n: Select, visit: Callable[[Expr], Expr]) -> Expr:
    a, b, c = visit(n.condition), visit(n.then), visit(n.otherwise)
    same = a is n.condition and b is n.then and c is n.otherwise
    return n if same else Select(a, b, c)


def _load(n: Load, visit: Callable[[Expr], Expr]) -> Expr:
    parts = reused([visit(i) for i in n.indices], n.indices)
    return n if parts is n.indices else Load(n.tensor, parts)


def _reduce(n: Reduce, visit: Callable[[Expr], Expr]) -> Expr:
    values = reused([visit(s) for s in n.sources], n.sources)
    return n if values is n.sources else Reduce(n.reducer, values, n.axes)


def reused(new: Sequence[Item], old: tuple[Item, ...]) -> tuple[Item, ...]:
    """``old`` where ``new`` consists of the same objects, so that what holds it can stay, too."""
    return old if len(new) == len(old) and all(map(is_, new, old)) else tuple(new)


# By type: a ``match`` asks for one class after another, of every node of every program.
_REBUILD: Final[Mapping[type[Expr], Callable[[Any, Callable[[Expr], Expr]], Expr]]] = {
    Binary: _binary,
    Unary: _unary,
    Cast: _cast,
    Select: _select,
    Load: _load,
    Reduce: _reduce,
}


def substitute_axes(node: Expr, mapping: dict[Axis, Expr]) -> Expr:
    """Replace axes by expressions."""
    return rewrite(node, lambda n: mapping.get(n) if isinstance(n, Axis) else None)


def walk(node: Expr) -> Iterator[Expr]:
    """Every distinct node of an expression, parents first, indices of loads included."""
    seen: set[int] = set()
    pending = [node]
    while pending:
        current = pending.pop()
        if id(current) in seen:
            continue
        seen.add(id(current))
        yield current
        pending.extend(reversed(children(current)))


def children(node: Expr) -> Sequence[Expr]:
    """The direct operands of a node, in order."""
    operands = _OPERANDS.get(type(node))
    return () if operands is None else operands(node)


_OPERANDS: Final[Mapping[type[Expr], Callable[[Any], Sequence[Expr]]]] = {
    Binary: lambda n: (n.lhs, n.rhs),
    Unary: lambda n: (n.operand,),
    Cast: lambda n: (n.operand,),
    Select: lambda n: (n.condition, n.then, n.otherwise),
    Load: lambda n: n.indices,
    Reduce: lambda n: n.sources,
}
