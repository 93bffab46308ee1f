"""Whether results of a program jump: where rounding decides on which side of a jump they are."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from sketch.analysis.access import reads
from sketch.lang.dtypes import BOOL, is_float, is_integer, is_storage_float
from sketch.lang.expr import Binary, Cast, Expr, Unary
from sketch.lang.operator_names import COMPARISON, STEPS
from sketch.lang.rewrite import walk
from sketch.lang.tensor import Compute, Tensor

_ROUNDED: Final = ("float16", "bfloat16")  # the one with fewer digits last


def jumps(stages: Iterable[Compute]) -> bool:
    """Whether some stage rounds floats: to integers, to 16 bits, to truth values that are numbers
    again, or by a function that does.

    What conditions select is not looked at: most of those of networks, such as a ReLU's, are
    continuous.
    """
    nodes = [node for op in stages for body in op.bodies for node in walk(body)]
    counted = any(isinstance(node, Cast) and node.operand.dtype == BOOL for node in nodes)
    return any(_jumps(node) or (counted and _is_test(node)) for node in nodes)


def rounded_to(outputs: Iterable[Tensor]) -> str | None:
    """The 16-bit type that all that becomes of a program's sums is rounded to on its way to some
    outputs, that with the fewest digits; None: sums, or all values, come there as they are.
    """
    pending = list(outputs)
    seen: set[int] = set()
    found: set[str] = set()
    while pending:
        tensor = pending.pop()
        op = tensor.op
        if is_storage_float(tensor.dtype) and isinstance(op, Compute):
            found.add(tensor.dtype)
        elif id(op) not in seen and isinstance(op, Compute):
            if op.reduce is not None:
                return None
            seen.add(id(op))
            pending.extend(reads(op))
    return max(found, key=_ROUNDED.index, default=None)


def _jumps(node: Expr) -> bool:
    match node:
        case Unary(op, operand):
            return op in STEPS and is_float(operand.dtype)
        case Cast(operand):
            narrow = is_integer(node.dtype) or is_storage_float(node.dtype)
            return narrow and is_float(operand.dtype) and not is_storage_float(operand.dtype)
        case _:
            return False


def _is_test(node: Expr) -> bool:
    """Whether a truth value is whether floats are larger than others, or not zero."""
    match node:
        case Binary(op, lhs, _):
            return op in COMPARISON and is_float(lhs.dtype)
        case Cast(operand):
            return node.dtype == BOOL and is_float(operand.dtype)
        case _:
            return False
