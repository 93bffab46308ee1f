"""Packing: let the innermost loops of a tiled reduction walk its operands contiguously."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from sketch.analysis.access import stage_loads
from sketch.lang.expr import Axis, Load
from sketch.lang.rewrite import walk
from sketch.lang.tensor import Placeholder
from sketch.nest.loopnest import LoopKind
from sketch.rules.patterns import batch_positions, coefficient_of, loops_in_batch
from sketch.rules.rule import State
from sketch.schedule.loop import LoopId
from sketch.schedule.program import Program, StagePlan, root_host
from sketch.schedule.stage import StageId
from sketch.schedule.stage_steps import cache_id
from sketch.schedule.steps import (
    Annotate,
    CacheRead,
    ComputeAt,
    Factor,
    Pack,
    Reorder,
    Split,
)


@dataclass(frozen=True, slots=True)
class Panel:
    """The part of the vector axis that one register tile covers.

    Attributes:
        axis: of the reduction.
        loops: that walk it, outermost first.
        factors: their trips.
        terms: the axis of which a tensor unit takes several elements at a time; None: no unit.
        together: how many of them lie together.
    """

    axis: Axis
    loops: tuple[LoopId, ...]
    factors: tuple[Factor, ...]
    terms: Axis | None = None
    together: int = 1


def packing_choices(state: State, reader: StageId, panel: Panel) -> tuple[State, ...]:
    """States with the operands of the stage ``reader`` packed along the axis of ``panel``.

    Constants are always packed: it costs nothing at run time.  An operand that is no constant is
    packed by a stage of its own in one state and read in place in another, unless a tensor unit
    needs it packed.  A constant that several stages read stays as it is, in the one layout that
    serves all of them.
    """
    stage = state.program.stage(reader)
    states: tuple[State, ...] = (state,)
    for load, dim in packable(stage, panel.axis):
        source = load.tensor.op
        constant = isinstance(source, Placeholder) and source.constant
        if constant and len(state.program.consumers(source)) > 1:
            continue
        if constant:
            ahead = stage.decision(panel.axis, "prefetch")
            called = state.program.operation_id(source)
            pack = Pack(called, dim, reader, panel.loops, prefetch=ahead)
            states = tuple(s.then(pack) for s in states)
        elif panel.terms is not None:
            states = tuple(_cache_grouped(s, reader, load, dim, panel) for s in states)
        elif _is_reused(stage, load):
            states = (*states, *(_cache_packed(s, reader, load, dim, panel) for s in states))
    return states


def packable(stage: StagePlan, axis: Axis) -> list[tuple[Load, int]]:
    """Operands indexed by exactly ``axis`` in one dimension and not by it in any other, that are
    read in one way only.
    """
    found = []
    loads = stage_loads(stage.op)
    for load in loads:
        plain = [d for d, index in enumerate(load.indices) if index is axis]
        once = len([x for x in loads if x.tensor.op is load.tensor.op]) == 1
        moving = [d for d, index in enumerate(load.indices) if axis in walk(index)]
        if once and len(plain) == 1 and moving == plain:
            found.append((load, plain[0]))
    return found


def _is_reused(stage: StagePlan, load: Load) -> bool:
    """Whether points of the stage share elements of the operand, so that a copy can pay."""
    dims = range(len(load.indices))
    wide = [axis for axis in stage.op.axes if axis.extent > 1]
    return any(all(coefficient_of(load, d, axis, stage.op) == 0 for d in dims) for axis in wide)


def _cache_packed(state: State, reader: StageId, load: Load, dim: int, panel: Panel) -> State:
    """The operand copied into panels by a stage of its own, before the reduction runs: by the
    thread that reads it where threads share a batch of them, and else as far as they do.
    """
    tensor, cache = state.program.tensor_id(load.tensor), cache_id(state.program, reader)
    op = state.program.stage(reader).op
    batch = {op.axes[n] for n in batch_positions(op, 0)}
    shared = [n for n, index in enumerate(load.indices) if index in batch]
    others = [n for n in range(len(load.indices)) if n not in (dim, *shared)]
    within = tuple(LoopId(dim, level) for level in range(1, len(panel.factors) + 1))
    outer = [LoopId(n, 0) for n in (*shared, dim, *others)]
    extents = [load.tensor.shape[n] for n in shared]
    around = _around_batch(state.program, reader, prod(extents))
    parallel = outer[: len(shared) + 1] if around is None else []
    return state.then(
        CacheRead(tensor, reader),
        *(() if around is None else (ComputeAt(cache, *around),)),
        Split(cache, dim, panel.factors),
        Reorder(cache, (*outer, *within)),
        *(Annotate(cache, loop, LoopKind.PARALLEL.value) for loop in parallel),
        *(Annotate(cache, loop, LoopKind.UNROLLED.value) for loop in within[:-1]),
        Annotate(cache, within[-1], LoopKind.VECTORIZED.value),
        Pack(cache, dim, reader, panel.loops, within),
    ).done([cache])


def _around_batch(program: Program, reader: StageId, number: int) -> tuple[StageId, LoopId] | None:
    """The loop inside which a thread reads one of ``number`` operands for several blocks of rows;
    None where there is no such loop.
    """
    host = root_host(program, program.stage(reader))
    loops, blocks = host.loops(), loops_in_batch(host)
    if not blocks:
        return None
    shared = loops[: loops.index(blocks[0])]
    each = prod(host.loop_axis(loop).extent for loop in shared)
    return (host.id, shared[-1]) if each == number else None


def _cache_grouped(state: State, reader: StageId, load: Load, dim: int, panel: Panel) -> State:
    """The operand copied into panels in which what a tensor unit takes lies together."""
    tensor, cache = state.program.tensor_id(load.tensor), cache_id(state.program, reader)
    terms = [index is panel.terms for index in load.indices].index(True)
    others = [n for n in range(len(load.indices)) if n not in (dim, terms)]
    panels, lanes = (LoopId(dim, level) for level in range(1, len(panel.factors) + 1))
    group = LoopId(terms, 1)
    shared = [LoopId(n, 0) for n in (*others, dim)]
    return state.then(
        CacheRead(tensor, reader),
        Split(cache, dim, panel.factors),
        Split(cache, terms, (panel.together,)),
        Reorder(cache, (*shared, LoopId(terms, 0), panels, lanes, group)),
        *(Annotate(cache, loop, LoopKind.PARALLEL.value) for loop in shared),
        Annotate(cache, lanes, LoopKind.UNROLLED.value),
        Annotate(cache, group, LoopKind.VECTORIZED.value),
        Pack(cache, dim, reader, panel.loops, (panels, lanes)),
    ).done([cache])
