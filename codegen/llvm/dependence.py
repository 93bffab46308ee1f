"""What values depend on: loop variables, and memory or the operands of a reducer."""

from __future__ import annotations

from collections.abc import Container, Iterator

from codegen.passes.affine import variables
from sketch.lang.expr import Binary, Expr, Select, Var
from sketch.lang.operator_names import LOGICAL
from sketch.lang.rewrite import children
from sketch.nest.loopnest import AffineValue, BufferLoad, LoopVar

_NONE: frozenset[LoopVar] = frozenset()


class Dependence:
    """Looks at every expression once, by its identity: the nest keeps them alive."""

    def __init__(self) -> None:
        self._variables: dict[int, frozenset[LoopVar] | None] = {}
        self._reads: dict[int, bool] = {}
        self._shared: dict[int, tuple[Expr, ...]] = {}

    def variables(self, expr: Expr) -> frozenset[LoopVar] | None:
        """The loop variables that alone decide a value; None where there is more."""
        key = id(expr)
        if key not in self._variables:
            self._variables[key] = self._find(expr)
        return self._variables[key]

    def _find(self, expr: Expr) -> frozenset[LoopVar] | None:
        match expr:
            case LoopVar():
                return frozenset((expr,))
            case AffineValue(index):
                return frozenset(variables(index))
            case BufferLoad() | Var():
                return None
        found = _NONE
        for operand in children(expr):
            part = self.variables(operand)
            if part is None:
                return None
            found |= part
        return found

    def reads(self, expr: Expr) -> bool:
        """Whether a value is computed from memory."""
        key = id(expr)
        known = self._reads.get(key)
        if known is None:
            operands = children(expr)
            known = isinstance(expr, BufferLoad) or any(map(self.reads, operands))
            self._reads[key] = known
        return known

    def shared(self, select: Select) -> tuple[Expr, ...]:
        """The largest values computed from memory that both branches need in any case."""
        key = id(select)
        if key not in self._shared:
            known = {id(value) for value in self._needed(select.then)}
            needed = self._needed(select.otherwise, known)
            self._shared[key] = tuple(value for value in needed if id(value) in known)
        return self._shared[key]

    def _needed(self, expr: Expr, complete: Container[int] = ()) -> Iterator[Expr]:
        """Values computed from memory that ``expr`` needs whatever its conditions are.

        ``complete``: identities of those whose operands are left out.
        """
        waiting, seen = [expr], set[int]()
        while waiting:
            value = waiting.pop()
            if id(value) in seen or isinstance(value, BufferLoad) or not self.reads(value):
                continue
            seen.add(id(value))
            yield value
            if id(value) not in complete:
                waiting += _always(value)


def _always(expr: Expr) -> tuple[Expr, ...]:
    """The operands that are evaluated in any case."""
    if isinstance(expr, Select):
        return (expr.condition,)
    if isinstance(expr, Binary) and expr.op in LOGICAL:
        return (expr.lhs,)
    return tuple(children(expr))
