"""A program: which stages exist, how their loops are split, ordered, run and attached.

It is purely structural; it holds decisions, never their values.  What a stage was made by is data
(``StagePlan.roles``), never read from a name.

Steps rewrite stages, so a stage is known by its ``StageId``; within one program, who reads what is
told by the operations themselves, which are compared by identity.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from sketch.analysis.access import divisors, reads, residues, stage_loads
from sketch.dag.dag import ComputeDAG
from sketch.errors import ScheduleError
from sketch.lang.expr import Axis
from sketch.lang.kept import KeepsResults, kept
from sketch.lang.tensor import Compute, Operation, Tensor
from sketch.nest.loopnest import LoopKind
from sketch.schedule.decision import LoopDecision
from sketch.schedule.labels import loop_label
from sketch.schedule.loop import AxisIndex, LoopId, LoopRole
from sketch.schedule.stage import InputId, OperationId, ResultId, Role, StageId, TensorId
from sketch.schedule.steps import BlockOrder, Factor, Pack, SharedTiles

# Of loops by how they run, but for those that their place tells apart.
_ROLES: Final = {
    LoopKind.SERIAL: LoopRole.SERIAL,
    LoopKind.PARALLEL: LoopRole.PARALLEL,
    LoopKind.UNROLLED: LoopRole.REGISTER_TILE,
    LoopKind.VECTORIZED: LoopRole.VECTOR,
    LoopKind.TENSOR: LoopRole.UNIT,
    LoopKind.BLOCK: LoopRole.BLOCK,
    LoopKind.VTHREAD: LoopRole.VTHREAD,
    LoopKind.THREAD: LoopRole.THREAD,
}


@dataclass(frozen=True, slots=True, eq=False)
class StagePlan:
    """One stage and the shape of its loops.

    Attributes:
        id: what steps call it.
        op: the computation.
        splits: inner factors by axis; an absent axis is one loop.
        order: all loops, outermost first.
        kinds: execution of loops that are not serial.
        attach: (stage, loop) inside which it is computed; None at the root.
        shared: whether the threads of a GPU block compute it together.
        roles: what steps made it for, the last one last; empty for a stage of the DAG as it was.
        tiles: how they lie in shared memory; None: one, row-major.
        blocks: in which order they start; None: the innermost loop of blocks is the fastest.
    """

    id: StageId
    op: Compute
    splits: Mapping[AxisIndex, tuple[Factor, ...]] = field(default_factory=dict)
    order: tuple[LoopId, ...] = ()
    kinds: Mapping[LoopId, LoopKind] = field(default_factory=dict)
    attach: tuple[StageId, LoopId] | None = None
    shared: bool = False
    roles: tuple[Role, ...] = ()
    tiles: SharedTiles | None = None
    blocks: BlockOrder | None = None

    def axis(self, axis: Axis | str) -> AxisIndex:
        """The position of an axis, given as itself or by its name.

        Raises ScheduleError when it is none of the stage.
        """
        axes = self.op.all_axes
        for position, own in enumerate(axes):
            if own is axis or own.name == axis:
                return position
        name = axis.name if isinstance(axis, Axis) else axis
        raise ScheduleError(
            f"stage {self.op.name} has no axis {name!r}", hint=f"it has {[a.name for a in axes]}"
        )

    def axis_at(self, position: AxisIndex) -> Axis:
        """The axis at a position; raises ScheduleError when there is none."""
        axes = self.op.all_axes
        if type(position) is not int or not 0 <= position < len(axes):
            raise ScheduleError(
                f"stage {self.op.name} has no axis {position!r}", hint=f"it has {len(axes)}"
            )
        return axes[position]

    def loop(self, axis: Axis | str, level: int = 0) -> LoopId:
        """The loop at a level of an axis, whether it is split so far or will be; as ``axis``."""
        return LoopId(self.axis(axis), level)

    def decision(self, axis: Axis | str, level: int | str) -> LoopDecision:
        """The trips of the loop at ``level`` of an axis, or a number called so about its loops."""
        return LoopDecision(self.id, self.axis(axis), str(level))

    def loops(self) -> tuple[LoopId, ...]:
        """Its loops in execution order (the order of the axes where none was given)."""
        return self.order or tuple(
            LoopId(axis, level)
            for axis in range(len(self.op.all_axes))
            for level in range(len(self.splits.get(axis, ())) + 1)
        )

    def check_loop(self, loop: LoopId) -> None:
        """Raise ScheduleError unless the stage has the loop."""
        known = isinstance(loop, LoopId) and 0 <= loop.axis < len(self.op.all_axes)
        if not known or not 0 <= loop.level <= len(self.splits.get(loop.axis, ())):
            raise ScheduleError(
                f"stage {self.op.name} has no loop {loop!s}", hint=f"it has {self.labels()}"
            )

    def labels(self, loops: Iterable[LoopId] | None = None) -> str:
        """Loops (None: all) for printing, by the names of their axes: ``i.0, i.1, k.0``."""
        found = self.loops() if loops is None else loops
        return ", ".join(loop_label(self.op, loop) for loop in found)

    def role(self, loop: LoopId) -> LoopRole:
        """What a loop of the stage is for."""
        kind = self.kinds.get(loop, LoopKind.SERIAL)
        spatial = loop.axis < len(self.op.axes)
        if kind is LoopKind.SERIAL and spatial and loop.level == 1:
            return LoopRole.L2_TILE
        if kind is LoopKind.UNROLLED and not spatial:
            return LoopRole.TERMS
        outside = self.kinds.get(LoopId(loop.axis, loop.level - 1))
        if kind is LoopKind.THREAD and outside is LoopKind.THREAD:
            return LoopRole.LANE
        return _ROLES[kind]

    def loop_axis(self, loop: LoopId) -> Axis:
        """The axis that a loop of the stage walks."""
        return self.op.all_axes[loop.axis]


@dataclass(frozen=True, slots=True, eq=False)
class Program(KeepsResults):
    """All stages in topological order, and how tensors are packed."""

    dag: ComputeDAG
    stages: tuple[StagePlan, ...]
    packs: tuple[Pack, ...] = ()

    def stage(self, stage: StageId) -> StagePlan:
        """A stage; raises ScheduleError when the program does not have it."""
        plan = self.find(stage)
        if plan is None:
            known = {str(plan.id): plan.op.name for plan in self.stages}
            raise ScheduleError(f"no stage {stage!s}", hint=f"stages: {known}")
        return plan

    def find(self, stage: StageId) -> StagePlan | None:
        """A stage, if the program has it."""
        for plan in self.stages:
            if plan.id == stage:
                return plan
        return None

    def named(self, name: str) -> StagePlan:
        """The stage that is printed so; raises ScheduleError when there is none."""
        for plan in self.stages:
            if plan.op.name == name:
                return plan
        names = [plan.op.name for plan in self.stages]
        raise ScheduleError(f"no stage is called {name!r}", hint=f"stages: {names}")

    def plan_of(self, op: Operation) -> StagePlan | None:
        """The stage that computes ``op``; None for an input."""
        return next((plan for plan in self.stages if plan.op is op), None)

    def operation_id(self, op: Operation) -> OperationId:
        """What steps call an input, or the operation of a stage."""
        plan = self.plan_of(op)
        if plan is not None:
            return plan.id
        return InputId([tensor.op for tensor in self.dag.inputs].index(op))

    def operation(self, called: OperationId) -> Operation:
        """The inverse of ``operation_id``; raises ScheduleError when there is nothing of it."""
        if not isinstance(called, InputId):
            return self.stage(called).op
        if not 0 <= called.position < len(self.dag.inputs):
            raise ScheduleError(f"no input {called!s}", hint=f"there are {len(self.dag.inputs)}")
        return self.dag.inputs[called.position].op

    def tensor_id(self, tensor: Tensor) -> TensorId:
        """What steps call a tensor that a stage reads."""
        called = self.operation_id(tensor.op)
        several = isinstance(tensor.op, Compute) and len(tensor.op.output_dtypes) > 1
        if several and not isinstance(called, InputId):
            return ResultId(called, tensor.output)
        return called

    def label(self, called: TensorId) -> str:
        """The name of a stage, input or result, for printing; its id where there is none."""
        if isinstance(called, ResultId):
            plan = self.find(called.stage)
            return str(called) if plan is None else Tensor(plan.op, called.output).name
        if isinstance(called, InputId):
            inside = 0 <= called.position < len(self.dag.inputs)
            return self.dag.inputs[called.position].name if inside else str(called)
        plan = self.find(called)
        return str(called) if plan is None else plan.op.name

    def position(self, stage: StageId) -> int:
        """Where a stage stands; raises ScheduleError as ``stage``."""
        return self.stages.index(self.stage(stage))

    def is_output(self, stage: StageId) -> bool:
        """Whether a stage computes a result of the program."""
        return stage.role is None and stage.origin in self.dag.output_stages

    @property
    def attached(self) -> bool:
        """Whether some stage is computed inside another."""
        return any(plan.attach is not None for plan in self.stages)

    def with_stage(self, plan: StagePlan) -> Program:
        """The program with another plan of a stage."""
        stages = tuple(plan if p.id == plan.id else p for p in self.stages)
        return replace(self, stages=stages)

    def consumers(self, op: Operation) -> tuple[StagePlan, ...]:
        """The stages that read a result of a stage, or an input."""
        return tuple(p for p in self.stages if op in operations_read(p.op))


def tile_of(plan: StagePlan, axis: AxisIndex) -> tuple[int, int]:
    """Where the loops of an axis walk tiles of the size by which indices of the stage divide it.

    Returns:
        the innermost level around such a tile, and its size; (-1, 1) where there is none.
    """
    return _level_around(plan, axis, divisors(plan.op).get(plan.axis_at(axis)))


def residues_of(plan: StagePlan, axis: AxisIndex) -> tuple[int, int]:
    """``tile_of`` for the number by which indices divide what is left of the axis in a tile."""
    return _level_around(plan, axis, residues(plan.op).get(plan.axis_at(axis)))


def _level_around(plan: StagePlan, axis: AxisIndex, size: int | None) -> tuple[int, int]:
    """The innermost level around so many coordinates of an axis, and that size; or (-1, 1)."""
    inner = 1
    factors = plan.splits.get(axis, ())
    for level in range(len(factors) - 1, -1, -1):
        factor = factors[level]
        if size is None or not isinstance(factor, int):
            break
        inner *= factor
        if inner == size:
            return level, size
    return -1, 1


def walks_tiles(plan: StagePlan) -> bool:
    """Whether loops of a stage walk tiles of a size by which its indices divide an axis."""
    return any(tile_of(plan, axis)[0] > 0 for axis in range(len(plan.op.axes)))


def root_host(program: Program, plan: StagePlan, inside: StageId | None = None) -> StagePlan:
    """The root stage inside whose nest ``plan`` is computed (itself, when it is at the root), or
    the stage ``inside`` if that is reached before.
    """
    while plan.attach is not None and plan.id != inside:
        plan = program.stage(plan.attach[0])
    return plan


def tensors_read(op: Compute) -> tuple[Tensor, ...]:
    """Every tensor that ``op`` reads, once, in order of first appearance."""
    return tuple(reads(op))


@kept  # every step asks every stage
def operations_read(op: Compute) -> frozenset[Operation]:
    """The stages and placeholders that ``op`` reads."""
    return frozenset(load.tensor.op for load in stage_loads(op))


def initial_program(dag: ComputeDAG) -> Program:
    """The program before any step: every stage at the root, all loops serial."""
    return Program(dag, tuple(StagePlan(StageId(n), op) for n, op in enumerate(dag.stages)))
