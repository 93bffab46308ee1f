"""What values depend on: loop variables, and memory or the operands of a reducer."""

from __future__ import annotations

from codegen.passes.affine import variables
from sketch.lang.expr import Expr, Var
from sketch.lang.rewrite import children
from sketch.nest.loopnest import AffineValue, BufferLoad, LoopVar

_NONE: frozenset[LoopVar] = frozenset()


class Dependence:
    """Looks at every expression once, by its identity: the nest keeps them alive."""

    def __init__(self) -> None:
        self._variables: dict[int, frozenset[LoopVar] | None] = {}
        self._reads: dict[int, bool] = {}

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
