"""GPU schedule of stages without tiling: points to threads, reductions to the lanes of a point.

A host is a root stage; its row axes are those by which it reads what is computed inside it.

    element-wise, pooling, vector times matrix     rows: softmax, layer normalisation
      block i.0, thread i.1                          block i.0, thread i.1     (rows of a block)
        acc = 0                                        acc = 0
        serial r.0, thread r.1: acc[i.2] += ...        serial r.0, thread r.1: acc += ...
        unrolled i.2: out = ... acc                    serial j.0, thread j.1: out = ... acc
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

from sketch.analysis.access import affine_index, stage_loads
from sketch.lang.expr import Axis
from sketch.lang.tensor import Compute
from sketch.nest.loopnest import LoopKind
from sketch.rules.gpu_reuse import shares_operands
from sketch.rules.patterns import coefficient_of, is_output, longest
from sketch.rules.rule import State, Verdict
from sketch.schedule.loop import LoopId
from sketch.schedule.program import Program, StagePlan, root_host
from sketch.schedule.stage import Role, StageId
from sketch.schedule.steps import Annotate, CacheWrite, ComputeAt, Factor, Reorder, Split, Step

# Levels of the loops of a host: BLOCK, THREAD, and the elements of one thread.
_THREADS: Final = 1
# Axes of a host, innermost first, of which a thread computes several elements.
_AXES_OF_ELEMENTS: Final = 2
# Elements from which on an axis that lies in order in memory is the one to share out among lanes.
_LEAST_LANES: Final = 32


@dataclass(frozen=True, slots=True)
class ScheduleOnThreads:
    """Before: ``for i, for j``; after: ``block i.0, block j.0, thread i.1, thread j.1, j.2``."""

    eager: ClassVar[bool] = False

    def applies(self, state: State, stage: StagePlan) -> Verdict:
        """Every stage that no other rule took."""
        return Verdict.APPLY_AND_STOP

    def apply(self, state: State, stage: StagePlan) -> tuple[State, ...]:
        """One state: what the stage reads can then be computed inside it."""
        if not stage.op.axes:
            steps = _single_value(stage) if stage.op.reduce is not None else ()
            return (state.then(*steps).done([stage.id]),)
        rows = row_axes(state, stage)
        columns = [axis for axis in stage.op.axes if axis not in rows]
        return (state.then(*_host_steps(stage, rows, columns)).done([stage.id]),)


@dataclass(frozen=True, slots=True)
class ComputeInThreads:
    """Compute a stage for the points of the thread that needs them, reductions by all its lanes."""

    eager: ClassVar[bool] = False

    def applies(self, state: State, stage: StagePlan) -> Verdict:
        """Stages whose consumers are all in one host and read them at the host's row alone."""
        op = stage.op
        if is_output(state.program, stage) or op.store is not None or shares_operands(op):
            return Verdict.SKIP
        found = _host_of(state.program, stage)
        return Verdict.SKIP if found is None else Verdict.APPLY_AND_STOP

    def apply(self, state: State, stage: StagePlan) -> tuple[State, ...]:
        """One state, with the stage attached inside the host's threads."""
        host = _host_of(state.program, stage)
        assert host is not None
        steps = [ComputeAt(stage.id, host.id, point_loops(host)[-1])]
        inside = _reduce_steps(stage, _lane_factors(state.program, host), steps)
        return (state.then(*inside).done([stage.id]),)


@dataclass(frozen=True, slots=True)
class AddPrivateSum:
    """Accumulate in registers and copy out: ``C.local += ...; C = C.local``, whatever is reduced,
    so that every reduction to several points has a host.
    """

    eager: ClassVar[bool] = False

    def applies(self, state: State, stage: StagePlan) -> Verdict:
        """Reductions that are not computed inside another stage."""
        op = stage.op
        private = op.reduce is None or not op.axes or stage.roles[-1:] == (Role.ACCUMULATE,)
        return Verdict.SKIP if private else Verdict.APPLY_AND_STOP

    def apply(self, state: State, stage: StagePlan) -> tuple[State, ...]:
        """One state with the stage split in two; both are still to be scheduled."""
        return (state.then(CacheWrite(stage.id)),)


def row_axes(state: State, stage: StagePlan) -> list[Axis]:
    """The axes of a stage by which it reads what could be computed inside it: all of them where
    there is nothing of that kind.
    """
    axes = list(stage.op.axes)
    rows = set(axes)
    for producer in state.program.stages:
        if producer.id in state.scheduled or shares_operands(producer.op):
            continue
        read = _axes_of_reads(stage.op, producer.op)
        if read and (producer.op.reduce is not None or read < set(axes)):
            rows &= read
    chosen = [axis for axis in axes if axis in rows or axis.extent == 1]
    return chosen if chosen and rows else axes


def _axes_of_reads(op: Compute, producer: Compute) -> set[Axis] | None:
    """The axes in what ``op`` reads of a stage; None where an index is not affine."""
    found: set[Axis] = set()
    for load in stage_loads(op):
        if load.tensor.op is producer:
            for index in load.indices:
                form = affine_index(index)
                if form is None:
                    return None
                found |= set(form[0])
    return found


def _host_steps(stage: StagePlan, rows: list[Axis], columns: list[Axis]) -> list[Step]:
    """Rows to blocks and threads; columns to lanes, or several elements a thread without any."""
    op, name = stage.op, stage.id
    wide = [axis for axis in rows if axis.extent > 1]
    several = [] if columns else wide[-_AXES_OF_ELEMENTS:]
    lanes = _lane_axis(columns, op) if columns else None
    steps: list[Step] = []
    for axis in wide:
        levels = (1, 2) if axis in several else (1,)
        steps.append(Split(name, stage.axis(axis), _factors(stage, axis, levels)))
    if lanes is not None:
        steps.append(Split(name, stage.axis(lanes), _factors(stage, lanes, (1, 2))))
    blocks = [stage.loop(axis) for axis in rows]
    threads = [stage.loop(axis, _THREADS) for axis in wide]
    elements = [stage.loop(axis, 2) for axis in several]
    serial = [stage.loop(axis) for axis in (*columns, *op.reduce_axes)]
    if lanes is not None:
        last = stage.loop(lanes)
        serial = [loop for loop in serial if loop != last] + [last]
        threads_inside, elements = [stage.loop(lanes, 1)], [stage.loop(lanes, 2)]
    else:
        threads_inside = []
    steps.append(Reorder(name, (*blocks, *threads, *serial, *threads_inside, *elements)))
    steps += _annotations(name, blocks, LoopKind.BLOCK)
    steps += _annotations(name, [*threads, *threads_inside], LoopKind.THREAD)
    return [*steps, *_annotations(name, elements, LoopKind.UNROLLED)]


def _reduce_steps(
    stage: StagePlan, lanes: tuple[Factor, ...], before: Sequence[Step]
) -> list[Step]:
    """Reduce loops around the elements of a thread; the lane axis split by ``lanes``."""
    steps = list(before)
    op, name = stage.op, stage.id
    spatial = [stage.loop(axis) for axis in op.axes]
    if op.reduce is None:
        return [*steps, *_annotations(name, spatial, LoopKind.UNROLLED)]
    axis = _lane_axis(op.reduce_axes, op)
    factors = lanes or _factors(stage, axis, (1, 2))
    split = [stage.loop(axis, level) for level in range(3)]
    serial = [stage.loop(other) for other in op.reduce_axes if other is not axis]
    steps.append(Split(name, stage.axis(axis), factors))
    steps.append(Reorder(name, (*serial, *split, *spatial)))
    steps.append(Annotate(name, split[1], LoopKind.THREAD.value))
    return [*steps, *_annotations(name, [split[2], *spatial], LoopKind.UNROLLED)]


def _single_value(stage: StagePlan) -> list[Step]:
    """The lanes of a reduction without axes."""
    return _reduce_steps(stage, (), ())


def _factors(stage: StagePlan, axis: Axis, levels: tuple[int, ...]) -> tuple[Factor, ...]:
    return tuple(stage.decision(axis, level) for level in levels)


def _annotations(stage: StageId, loops: Sequence[LoopId], kind: LoopKind) -> list[Step]:
    return [Annotate(stage, loop, kind.value) for loop in loops]


def _lane_axis(axes: Sequence[Axis], op: Compute) -> Axis:
    """The axis to share out among lanes: one that lies in order in memory, if it is long."""
    ordered = [axis for axis in axes if axis.extent >= _LEAST_LANES and _in_order(axis, op)]
    return longest(tuple(ordered or axes))


def _in_order(axis: Axis, op: Compute) -> bool:
    return any(
        coefficient_of(load, len(load.indices) - 1, axis, op) == 1
        for load in stage_loads(op)
        if load.indices
    )


def _host_of(program: Program, stage: StagePlan) -> StagePlan | None:
    """The host inside whose threads all that reads the stage is computed, point by point."""
    consumers = program.consumers(stage.op)
    hosts = {root_host(program, consumer).id for consumer in consumers}
    if len(hosts) != 1:
        return None
    host = program.stage(next(iter(hosts)))
    if not _is_host(host):
        return None
    rows = _rows_of(host)
    for consumer in consumers:
        if consumer.id.role is Role.CACHE:
            return None  # all threads of a block fill it together
        allowed = rows if consumer is host else set(consumer.op.axes)
        read = _axes_of_reads(consumer.op, stage.op)
        if read is None or not read <= allowed:
            return None
    return host


def _is_host(plan: StagePlan) -> bool:
    """Whether ``ScheduleOnThreads`` made it: blocks, and no tiles of shared memory."""
    kinds = plan.kinds.values()
    return LoopKind.BLOCK in kinds and LoopKind.VTHREAD not in kinds


def _rows_of(host: StagePlan) -> set[Axis]:
    return {host.loop_axis(loop) for loop, kind in host.kinds.items() if kind is LoopKind.BLOCK}


def point_loops(host: StagePlan) -> list[LoopId]:
    """The loops of blocks and of threads around what is computed for a point."""
    found: list[LoopId] = []
    for loop in host.loops():
        if host.kinds.get(loop) not in (LoopKind.BLOCK, LoopKind.THREAD):
            break
        found.append(loop)
    return found


def _lane_factors(program: Program, host: StagePlan) -> tuple[Factor, ...]:
    """How the loops of lanes inside a host are split; empty when there are none yet."""
    outer = point_loops(host)
    for plan in program.stages:
        inside = plan.attach is not None and plan.attach[0] == host.id
        if plan is not host and not inside:
            continue
        for loop, kind in plan.kinds.items():
            if kind is LoopKind.THREAD and (inside or loop not in outer):
                return plan.splits[loop.axis]
    return ()
