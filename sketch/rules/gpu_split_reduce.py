"""Split reductions: more blocks where tiles, or rows, are too few for all processors."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import ClassVar, Final

from sketch.lang.dtypes import size_of
from sketch.lang.tensor import Compute
from sketch.rules.gpu_reuse import shares_operands
from sketch.rules.patterns import fusable_consumer, is_output, longest
from sketch.rules.rule import State, Verdict
from sketch.rules.tiling import tiled_producer
from sketch.schedule.program import StagePlan
from sketch.schedule.stage import Role
from sketch.schedule.steps import SplitReduce
from sketch.target.target import Target

# Results of a block that keep its arithmetic ahead of its reads: 4 warps of 16 results a thread.
_WARPS: Final = 4
_RESULTS: Final = 16
# Ways to split are offered for as many parts as fill the processors, and for so many times that.
_STEP: Final = 4
# Least terms of a part along the axis that is split.
_LEAST_TERMS: Final = 8
# Least parts where they do not fill the processors: the second kernel has to pay.
_LEAST_PARTS: Final = 16
# Rounds of all processors up to which the last one counts: half of it idle is 5 % of the time.  So
# many blocks of half the terms leave less idle, and may have larger tiles.
_FEW_ROUNDS: Final = 10
# Terms of such a part, of all reduce axes, that pay for a result that is stored and read again.
_PAYING_TERMS: Final = 256
# Least terms of a part of a sum without tiles: a block reads them for longer than a launch takes.
_LEAST_OF_ROWS: Final = 8192


@dataclass(frozen=True, slots=True)
class SplitForBlocks:
    """Partial results by blocks in one kernel, their sum in the consumer's; no atomics.

    before:  C(i, j) += A[i, k]*B[k, j]
    after:   C.rf(p, i, j) += A[i, p*c + k]*B[p*c + k, j];  C(i, j) += C.rf[p, i, j]
    """

    eager: ClassVar[bool] = False

    def applies(self, state: State, stage: StagePlan) -> Verdict:
        """Stages that read a pending reduction with few tiles; it stays as it is as well.

        Not those that only hand its result on to another kernel: the sum would be one more.
        """
        if Role.COPY_OUT in stage.roles and not is_output(state.program, stage):
            return Verdict.SKIP
        inner = tiled_producer(state, stage)
        if inner is None or not shares_operands(inner.op) or Role.PARTIAL in inner.roles:
            return Verdict.SKIP
        return Verdict.APPLY if _parts(inner.op, state.target) else Verdict.SKIP

    def apply(self, state: State, stage: StagePlan) -> tuple[State, ...]:
        """One state for each number of parts; all stages are still to be scheduled."""
        inner = tiled_producer(state, stage)
        assert inner is not None
        axis = inner.axis(longest(inner.op.reduce_axes))
        return tuple(
            state.then(SplitReduce(inner.id, axis, parts))
            for parts in _parts(inner.op, state.target)
        )


@dataclass(frozen=True, slots=True)
class SplitRowsForBlocks:
    """The same for long reductions without tiles whose rows are fewer than the processors: a sum,
    a norm or an argmax of millions of elements.

    before:  s(i) += A[i, k]
    after:   s.rf(p, i) += A[i, p*c + k];  s(i) += s.rf[p, i]
    """

    eager: ClassVar[bool] = False

    def applies(self, state: State, stage: StagePlan) -> Verdict:
        """Reductions that are an output, or all that an output reads; one launch stays as well."""
        if stage.op.reduce is None or stage.roles or shares_operands(stage.op):
            return Verdict.SKIP
        follower = fusable_consumer(state.program, stage)
        last = is_output(state.program, stage if follower is None else follower)
        return Verdict.APPLY if last and _parts_of_rows(stage.op, state.target) else Verdict.SKIP

    def apply(self, state: State, stage: StagePlan) -> tuple[State, ...]:
        """One state for each number of parts; both stages are still to be scheduled."""
        axis = stage.axis(longest(stage.op.reduce_axes))
        return tuple(
            state.then(SplitReduce(stage.id, axis, parts))
            for parts in _parts_of_rows(stage.op, state.target)
        )


def _parts_of_rows(op: Compute, target: Target) -> list[int]:
    """Numbers of parts to offer; none where rows are enough, or have too few terms."""
    rows = prod(axis.extent for axis in op.axes)
    most = prod(axis.extent for axis in op.reduce_axes) // _LEAST_OF_ROWS
    most = min(most, longest(op.reduce_axes).extent)
    least = _to_fill(rows, target)
    return [parts for parts in (least, _STEP * least) if least > 1 and parts <= most]


def _to_fill(blocks: float, target: Target) -> int:
    """The least power of two that makes so many blocks one for every processor."""
    parts = 1
    while blocks * parts < target.threads:
        parts *= 2
    return parts


def _parts(op: Compute, target: Target) -> list[int]:
    """Numbers of parts to offer; none where the tiles are enough.

    Where the terms are too few for as many parts as fill the processors, as many as they allow, if
    these are not few.  Where the tiles fill them a few times, two, or the next few with parts of
    whole pieces.
    """
    tile = _WARPS * target.warp_size * _RESULTS
    tiles = prod(axis.extent for axis in op.axes) / tile
    least = _to_fill(tiles, target)
    extent = longest(op.reduce_axes).extent
    most = extent // _LEAST_TERMS
    piece = max(1, target.vector_bytes // size_of(op.output_dtypes[0]))
    if least == 1:
        terms = prod(axis.extent for axis in op.reduce_axes)
        few = tiles < _FEW_ROUNDS * target.threads
        whole = [parts for parts in range(2, _STEP + 1) if extent % (parts * piece) == 0]
        return [parts for parts in whole[:1] if few and terms >= parts * _PAYING_TERMS]
    offered = [parts for parts in (least, _STEP * least) if parts <= most]
    allowed = 1 << most.bit_length() - 1 if most else 1
    return offered or ([allowed] if _LEAST_PARTS <= allowed < least else [])
