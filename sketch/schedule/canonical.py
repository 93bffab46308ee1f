"""Steps free of names: stages and axes by their positions.

Two programs that differ in names alone have equal canonical steps for equal schedules.  A stage is
its position in the program just before the step, so that stages which steps added count as well;
an axis is its position in its stage, spatial axes first.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from sketch.dag.dag import ComputeDAG
from sketch.lang.tensor import tensors_of
from sketch.schedule.decision import decision_parts
from sketch.schedule.program import Program, StagePlan, apply_step, initial_program
from sketch.schedule.steps import (
    Annotate,
    CacheRead,
    CacheWrite,
    ComputeAt,
    Factor,
    Inline,
    Pack,
    Reorder,
    Rfactor,
    Split,
    Step,
)


def canonical_steps(dag: ComputeDAG, steps: tuple[Step, ...]) -> Iterator[list[Any]]:
    """Each step as lists of numbers and words that no name takes part in; JSON can hold them.

    Raises ScheduleError when a step does not fit the program.
    """
    program = initial_program(dag)
    for step in steps:
        after = apply_step(program, step)
        yield [step.kind, step.version, *_Positions(program).of(step)]
        program = after


@dataclass(frozen=True, slots=True)
class _Positions:
    """Where the stages, tensors, axes and loops of a program are."""

    program: Program

    def of(self, step: Step) -> list[Any]:
        """The fields of a step that fits the program."""
        match step:
            case Inline(stage) | CacheWrite(stage):
                return [self._stage(stage)]
            case CacheRead(tensor, consumer, scope):
                return [self._tensor(tensor), self._stage(consumer), scope]
            case Rfactor(stage, axis, parts, interleave):
                return [self._stage(stage), self._axis(stage, axis), parts, interleave]
            case Split(stage, axis, factors):
                place = [self._stage(stage), self._axis(stage, axis)]
                return [*place, [self._factor(factor) for factor in factors]]
            case Reorder(stage, order):
                return [self._stage(stage), self._loops(stage, order)]
            case ComputeAt(stage, target, loop):
                return [self._stage(stage), self._stage(target), self._loops(target, (loop,))]
            case Annotate(stage, loop, execution):
                return [self._stage(stage), self._loops(stage, (loop,)), execution]
            case Pack():
                return self._pack(step)

    def _pack(self, step: Pack) -> list[Any]:
        writer = self._loops(step.tensor, step.writer_loops) if step.writer_loops else []
        return [
            self._tensor(step.tensor),
            step.dim,
            self._stage(step.reader),
            self._loops(step.reader, step.loops),
            writer,
            self._factor(step.prefetch),
        ]

    def _plan(self, name: str) -> StagePlan:
        return self.program.stage(name)

    def _stage(self, name: str) -> int:
        return self.program.stages.index(self._plan(name))

    def _tensor(self, name: str) -> list[int]:
        """A result of a stage, a stage as a whole, or an input."""
        for number, plan in enumerate(self.program.stages):
            if plan.op.name == name:
                return [number]
            for tensor in tensors_of(plan.op):
                if tensor.name == name:
                    return [number, tensor.output]
        names = [tensor.name for tensor in self.program.dag.inputs]
        return [-1, names.index(name)]

    def _axis(self, stage: str, name: str) -> int:
        op = self._plan(stage).op
        return [axis.name for axis in (*op.axes, *op.reduce_axes)].index(name)

    def _loops(self, stage: str, names: tuple[str, ...]) -> list[list[int]]:
        ids = self._plan(stage).loop_ids()
        return [[ids[name].axis, ids[name].level] for name in names]

    def _factor(self, factor: Factor) -> Any:
        """A number; a decision as stage, axis and level, or the name that a rule chose freely."""
        if isinstance(factor, int):
            return factor
        parts = decision_parts(factor)
        plan = None if parts is None else self.program.find(parts[0])
        if parts is None or plan is None:
            return factor
        names = [axis.name for axis in (*plan.op.axes, *plan.op.reduce_axes)]
        if parts[1] not in names:
            return factor
        return [self._stage(parts[0]), names.index(parts[1]), parts[2]]
