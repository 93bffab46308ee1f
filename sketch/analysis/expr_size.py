"""How large expressions are, and how large they may be.

Statements are printed, rewritten, analysed and compiled as trees, so a sub-expression that is used
twice counts twice, and every level is a level of nested calls.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from sketch.errors import ExpressionError
from sketch.lang.expr import Axis, Expr, Load
from sketch.lang.kept import kept
from sketch.lang.rewrite import children
from sketch.lang.tensor import Compute, Operation

# A statement may have so many operations, so deeply nested.
MOST_OPERATIONS: Final = 16384
MOST_LEVELS: Final = 200


@dataclass(frozen=True, slots=True)
class Size:
    """Size of an expression written out as a tree.

    Attributes:
        operations: nodes.
        levels: nodes on the longest path.
        axes: how often an axis occurs.
    """

    operations: int
    levels: int
    axes: int


def is_allowed(size: Size) -> bool:
    """Whether a statement may be so large."""
    return size.operations <= MOST_OPERATIONS and size.levels <= MOST_LEVELS


def check_size(op: Compute) -> None:
    """Raise ExpressionError where a body of ``op`` is larger than a statement may be."""
    size = stage_size(op)
    if is_allowed(size):
        return
    raise ExpressionError(
        f"a statement of {_number(size.operations)} operations, {size.levels} levels deep (what is "
        "used twice counts twice)",
        f"stage {op.name}",
        f"at most {MOST_OPERATIONS} and {MOST_LEVELS} levels: give parts of it stages of their own",
    )


@kept  # inlining asks for the same stages again and again
def stage_size(op: Compute) -> Size:
    """The largest number of operations, levels and axes among the bodies of a stage."""
    return _largest([_size(body, None, None) for body in op.bodies])


def inlined_size(consumer: Compute, producer: Compute) -> Size:
    """The size of ``consumer`` with ``producer`` computed where it is read; at least that."""
    known = _inlined_sizes(consumer)
    if producer not in known:
        part = stage_size(producer)
        known[producer] = _largest([_size(body, producer, part) for body in consumer.bodies])
    return known[producer]


@kept
def _inlined_sizes(_: Compute) -> dict[Compute, Size]:
    """``inlined_size`` of a consumer, by producer, as they are asked for."""
    return {}


def _size(body: Expr, producer: Operation | None, part: Size | None) -> Size:
    """Bottom-up without recursion; loads of ``producer`` count as ``part``."""
    known: dict[int, Size] = {}
    pending = [body]
    while pending:
        node = pending[-1]
        operands = children(node)
        missing = [operand for operand in operands if id(operand) not in known]
        if missing and id(node) not in known:
            pending.extend(missing)
            continue
        pending.pop()
        if id(node) in known:
            continue
        sizes = [known[id(operand)] for operand in operands]
        if part is not None and isinstance(node, Load) and _reads(node, producer):
            known[id(node)] = _substituted(part, sizes)
        else:
            known[id(node)] = Size(
                1 + sum(size.operations for size in sizes),
                1 + max((size.levels for size in sizes), default=0),
                isinstance(node, Axis) + sum(size.axes for size in sizes),
            )
    return known[id(body)]


def _reads(load: Load, producer: Operation | None) -> bool:
    return producer is not None and load.tensor.op is producer


def _substituted(part: Size, indices: Sequence[Size]) -> Size:
    """A body in which every axis is replaced by an index of the reader."""
    index = _largest(indices)
    return Size(
        part.operations + part.axes * index.operations,
        part.levels + index.levels,
        part.axes * index.axes,
    )


def _largest(sizes: Sequence[Size]) -> Size:
    return Size(
        max((size.operations for size in sizes), default=0),
        max((size.levels for size in sizes), default=0),
        max((size.axes for size in sizes), default=0),
    )


def _number(count: int) -> str:
    return str(count) if count < 10**9 else f"more than 10^{len(str(count)) - 1}"
