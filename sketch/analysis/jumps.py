"""Whether results of a program jump: where rounding decides on which side of a jump they are."""

from __future__ import annotations

from collections.abc import Iterable

from sketch.lang.dtypes import is_float, is_integer, is_storage_float
from sketch.lang.expr import Cast, Expr, Unary
from sketch.lang.operator_names import STEPS
from sketch.lang.rewrite import walk
from sketch.lang.tensor import Compute


def jumps(stages: Iterable[Compute]) -> bool:
    """Whether some stage rounds floats: to integers, to 16 bits, or by a function that does.

    Conditions are not looked at: most of those of networks, such as a ReLU's, are continuous.
    """
    bodies = (body for op in stages for body in op.bodies)
    return any(_jumps(node) for body in bodies for node in walk(body))


def _jumps(node: Expr) -> bool:
    match node:
        case Unary(op, operand):
            return op in STEPS and is_float(operand.dtype)
        case Cast(operand):
            narrow = is_integer(node.dtype) or is_storage_float(node.dtype)
            return narrow and is_float(operand.dtype) and not is_storage_float(operand.dtype)
        case _:
            return False
