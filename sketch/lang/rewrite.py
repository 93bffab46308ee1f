"""The traversals of expressions: ``rewrite`` with a function on leaves, ``walk``, ``children``."""

from collections.abc import Callable, Iterator, Sequence

from sketch.lang.expr import Axis, Binary, Cast, Expr, Load, Reduce, Select, Unary, binary


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
    match n:
        case Binary(op, lhs, rhs, _):
            a, b = visit(lhs), visit(rhs)
            return n if a is lhs and b is rhs else binary(op, a, b)
        case Unary(op, operand, dtype):
            a = visit(operand)
            return n if a is operand else Unary(op, a, dtype)
        case Cast(operand, dtype):
            a = visit(operand)
            return n if a is operand else Cast(a, dtype)
        case Select(condition, then, otherwise):
            a, b, c = visit(condition), visit(then), visit(otherwise)
            same = a is condition and b is then and c is otherwise
            return n if same else Select(a, b, c)
        case Load(tensor, indices):
            parts = tuple(visit(i) for i in indices)
            same = all(p is i for p, i in zip(parts, indices, strict=True))
            return n if same else Load(tensor, parts)
        case Reduce(reducer, sources, axes):
            values = tuple(visit(s) for s in sources)
            same = all(v is s for v, s in zip(values, sources, strict=True))
            return n if same else Reduce(reducer, values, axes)
        case _:
            return n


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
    match node:
        case Binary(_, lhs, rhs, _):
            return (lhs, rhs)
        case Unary(_, operand, _) | Cast(operand, _):
            return (operand,)
        case Select(condition, then, otherwise):
            return (condition, then, otherwise)
        case Load(_, indices):
            return indices
        case Reduce(_, sources, _):
            return sources
        case _:
            return ()
