"""A program: which stages exist, how their loops are split, ordered, run and attached.

It is purely structural; it holds names of decisions, never their values.  What a stage was made by
is data (``StagePlan.roles``), never read from a name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import lru_cache

from sketch.analysis.access import reads, stage_loads
from sketch.dag.dag import ComputeDAG
from sketch.errors import ScheduleError
from sketch.lang.expr import Axis
from sketch.lang.tensor import Compute, Tensor
from sketch.nest.loopnest import LoopKind
from sketch.schedule.loop import LoopId, loop_ids
from sketch.schedule.steps import (
    Factor,
    Pack,
    SharedTiles,
)


class Role(Enum):
    """What a step made a stage for."""

    ACCUMULATE = "accumulate"  # CacheWrite: computes what its consumer copies out
    COPY_OUT = "copy_out"  # CacheWrite: copies the result out
    CACHE = "cache"  # CacheRead: holds a copy of a tensor
    PARTIAL = "partial"  # Rfactor, SplitReduce: partial reductions
    COMBINE = "combine"  # Rfactor, SplitReduce: combines them


@dataclass(frozen=True, slots=True, eq=False)
class StagePlan:
    """One stage and the shape of its loops.

    Attributes:
        op: the computation.
        splits: inner factors per axis name; an absent axis is one loop.
        order: all loop names, outermost first.
        kinds: execution of loops that are not serial.
        attach: (stage, loop) inside which it is computed; None at the root.
        shared: whether the threads of a GPU block compute it together.
        roles: what steps made it for, the last one last; empty for a stage of the DAG as it was.
        tiles: how they lie in shared memory; None: one, row-major.
    """

    op: Compute
    splits: Mapping[str, tuple[Factor, ...]] = field(default_factory=dict)
    order: tuple[str, ...] = ()
    kinds: Mapping[str, LoopKind] = field(default_factory=dict)
    attach: tuple[str, str] | None = None
    shared: bool = False
    roles: tuple[Role, ...] = ()
    tiles: SharedTiles | None = None

    def axis(self, name: str) -> Axis:
        """The axis called ``name``; raises ScheduleError when the stage has none."""
        axes = (*self.op.axes, *self.op.reduce_axes)
        for axis in axes:
            if axis.name == name:
                return axis
        raise ScheduleError(
            f"stage {self.op.name} has no axis {name!r}", hint=f"it has {list(self.axis_names)}"
        )

    @property
    def axis_names(self) -> tuple[str, ...]:
        """Names of its axes, spatial ones first."""
        return tuple(axis.name for axis in (*self.op.axes, *self.op.reduce_axes))

    def loops(self) -> tuple[str, ...]:
        """Loop names in execution order (the order of the axes where none was given)."""
        return self.order or tuple(self.loop_ids())

    def loop_ids(self) -> Mapping[str, LoopId]:
        """Its loops by name, axis by axis."""
        return loop_ids(self.op, tuple(len(self.splits.get(a, ())) + 1 for a in self.axis_names))

    def loop_id(self, name: str) -> LoopId:
        """The loop called ``name``; raises ScheduleError when the stage has none."""
        found = self.loop_ids().get(name)
        if found is None:
            raise ScheduleError(
                f"stage {self.op.name} has no loop {name!r}", hint=f"it has {self.loops()}"
            )
        return found

    def loop_axis(self, name: str) -> Axis:
        """The axis that the loop called ``name`` walks; raises ScheduleError as ``loop_id``."""
        return (*self.op.axes, *self.op.reduce_axes)[self.loop_id(name).axis]


@dataclass(frozen=True, slots=True, eq=False)
class Program:
    """All stages in topological order, and how tensors are packed."""

    dag: ComputeDAG
    stages: tuple[StagePlan, ...]
    packs: tuple[Pack, ...] = ()

    def stage(self, name: str) -> StagePlan:
        """The stage called ``name``; raises ScheduleError when there is none."""
        plan = self.find(name)
        if plan is None:
            stages = [p.op.name for p in self.stages]
            raise ScheduleError(f"no stage {name!r}", hint=f"stages: {stages}")
        return plan

    def find(self, name: str) -> StagePlan | None:
        """The stage called ``name``, if there is one."""
        return next((p for p in self.stages if p.op.name == name), None)

    def pack_of(self, tensor: str) -> Pack | None:
        """How ``tensor`` is packed, if it is."""
        return next((p for p in self.packs if p.tensor == tensor), None)

    @property
    def attached(self) -> bool:
        """Whether some stage is computed inside another."""
        return any(plan.attach is not None for plan in self.stages)

    def with_stage(self, plan: StagePlan) -> Program:
        """The program with the plan of the same name replaced."""
        stages = tuple(plan if p.op.name == plan.op.name else p for p in self.stages)
        return replace(self, stages=stages)

    def consumers(self, name: str) -> tuple[StagePlan, ...]:
        """The stages that read an output of stage or placeholder ``name``."""
        return tuple(p for p in self.stages if name in stages_read(p.op))


def root_host(program: Program, plan: StagePlan, inside: str = "") -> StagePlan:
    """The root stage inside whose nest ``plan`` is computed (itself, when it is at the root), or
    the stage ``inside`` if that is reached before.
    """
    while plan.attach is not None and plan.op.name != inside:
        plan = program.stage(plan.attach[0])
    return plan


def tensors_read(op: Compute) -> tuple[Tensor, ...]:
    """Every tensor that ``op`` reads, once, in order of first appearance."""
    return tuple(reads(op))


@lru_cache(maxsize=16384)  # every step asks every stage
def stages_read(op: Compute) -> frozenset[str]:
    """Names of the stages and placeholders that ``op`` reads."""
    return frozenset(load.tensor.op.name for load in stage_loads(op))


def initial_program(dag: ComputeDAG) -> Program:
    """The program before any step: every stage at the root, all loops serial."""
    return Program(dag, tuple(StagePlan(op) for op in dag.stages))
