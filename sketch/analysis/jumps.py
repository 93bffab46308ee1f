"""Whether results of a program jump: where rounding decides on which side of a jump they are."""

from __future__ import annotations

from collections.abc import Iterable

from sketch.analysis.access import reads
from sketch.lang.dtypes import BOOL, is_float, is_integer, is_storage_float
from sketch.lang.expr import Binary, Cast, Expr, Unary
from sketch.lang.operator_names import COMPARISON, STEPS
from sketch.lang.rewrite import walk
from sketch.lang.tensor import Compute, Operation, Tensor


def jumps(stages: Iterable[Compute]) -> bool:
    """Whether some stage rounds floats: to integers, to 16 bits, to truth values that are numbers
    again, or by a function that does.

    What conditions select is not looked at: most of those of networks, such as a ReLU's, are
    continuous.
    """
    nodes = [node for op in stages for body in op.bodies for node in walk(body)]
    counted = any(isinstance(node, Cast) and node.operand.dtype == BOOL for node in nodes)
    return any(_jumps(node) or (counted and _is_test(node)) for node in nodes)


def rounds_sums(outputs: Iterable[Tensor]) -> bool:
    """Whether all that becomes of a program's sums is rounded to 16 bits before it leaves it."""
    pending: list[Operation] = [tensor.op for tensor in outputs]
    seen: set[int] = set()
    while pending:
        op = pending.pop()
        if id(op) in seen or not isinstance(op, Compute) or _is_narrow(op):
            continue
        if op.reduce is not None:
            return False
        seen.add(id(op))
        pending.extend(tensor.op for tensor in reads(op))
    return True


def _is_narrow(op: Compute) -> bool:
    return all(map(is_storage_float, op.output_dtypes))


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
