"""Which axes decide what a stage computes: rows of a constant matrix are selected so."""

from __future__ import annotations

from sketch.lang.expr import Axis, Binary, Const, Expr, Load, Select
from sketch.lang.kept import kept
from sketch.lang.operator_names import COMPARISON
from sketch.lang.rewrite import walk
from sketch.lang.tensor import Compute


@kept  # asked again in every sketch of a program
def selecting_axes(op: Compute) -> frozenset[Axis]:
    """The axes whose values alone decide between two terms that read."""
    found: set[Axis] = set()
    for node in (node for body in op.bodies for node in walk(body)):
        if isinstance(node, Select) and _reads(node.then) and _reads(node.otherwise):
            axis = _compared_axis(node.condition)
            found |= set() if axis is None else {axis}
    return frozenset(found)


def _reads(term: Expr) -> bool:
    return any(isinstance(node, Load) for node in walk(term))


def _compared_axis(condition: Expr) -> Axis | None:
    """The axis that a condition compares with a number."""
    match condition:
        case Binary(op, Axis() as axis, Const()) if op in COMPARISON:
            return axis
    return None
