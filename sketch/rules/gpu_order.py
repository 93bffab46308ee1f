"""The order of blocks: a decision where L2 does not hold all that they read and write."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod

from sketch.lang.dtypes import size_of
from sketch.lang.expr import Axis
from sketch.rules.patterns import longest
from sketch.schedule.program import StagePlan, tensors_read
from sketch.schedule.steps import BlockOrder
from sketch.target.target import Target


def block_order(
    host: StagePlan, inner: StagePlan, tiled: Sequence[Axis], target: Target
) -> Iterator[BlockOrder]:
    """How many rows of blocks start together, if it matters: those that run at a time then share
    parts of both operands, instead of the whole of one.

    Args:
        host: whose blocks they are.
        inner: the reduction that it reads.
        tiled: axes of the host that blocks walk, the fastest one last.
        target: the machine.
    """
    several = tuple(axis for axis in tiled if axis.extent > 1)
    if len(several) > 1 and _bytes(host, inner) > target.l2_bytes:
        rows = longest(several[:-1])
        yield BlockOrder(host.id, host.loop(rows), host.decision(rows, "together"))


def _bytes(host: StagePlan, inner: StagePlan) -> int:
    """Of the operands of a reduction and of what is made of it."""
    read = sum(prod(t.shape) * size_of(t.dtype) for t in tensors_read(inner.op))
    results = prod(axis.extent for axis in host.op.axes)
    return read + results * sum(map(size_of, host.op.output_dtypes))
