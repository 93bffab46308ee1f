"""Steps free of names: stages, axes and loops are called by their positions.

Two programs that differ in names alone have equal canonical steps for equal schedules.  A stage is
its position in the program just before the step, so that stages which steps added count as well;
an axis is its position in its stage, spatial axes first.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sketch.dag.dag import ComputeDAG
from sketch.lang.tensor import tensors_of
from sketch.schedule.decision import LoopDecision
from sketch.schedule.loop import loop_name
from sketch.schedule.program import Program, initial_program
from sketch.schedule.replay import apply_step
from sketch.schedule.step_names import step_with_names
from sketch.schedule.steps import Factor, Step


def canonical_steps(dag: ComputeDAG, steps: tuple[Step, ...]) -> Iterator[Step]:
    """The steps with positions for names: for hashes, they cannot be replayed.

    Raises ScheduleError when a step does not fit the program.
    """
    program = initial_program(dag)
    for step in steps:
        after = apply_step(program, step)
        yield step_with_names(step, _Positions(program))
        program = after


@dataclass(frozen=True, slots=True)
class _Positions:
    """What is where in a program, for steps that fit it."""

    program: Program

    def stage(self, name: str) -> str:
        return str(self.program.stages.index(self.program.stage(name)))

    def tensor(self, name: str) -> str:
        """``2`` for a stage, ``2.1`` for its second result, ``in0`` for an input."""
        for number, plan in enumerate(self.program.stages):
            if plan.op.name == name:
                return str(number)
            for tensor in tensors_of(plan.op):
                if tensor.name == name:
                    return f"{number}.{tensor.output}"
        inputs = [tensor.name for tensor in self.program.dag.inputs]
        return f"in{inputs.index(name)}"

    def axis(self, stage: str, name: str) -> str:
        op = self.program.stage(stage).op
        return str([axis.name for axis in (*op.axes, *op.reduce_axes)].index(name))

    def loop(self, stage: str, name: str) -> str:
        loop = self.program.stage(stage).loop_id(name)
        return loop_name(str(loop.axis), loop.level)

    def factor(self, factor: Factor) -> Factor:
        """A decision by stage, axis and level; a name that a rule chose freely stays."""
        if not isinstance(factor, LoopDecision):
            return factor
        plan = self.program.find(factor.stage)
        if plan is None or factor.axis not in plan.axis_names:
            return factor
        return LoopDecision(
            self.stage(factor.stage), self.axis(factor.stage, factor.axis), factor.level
        )
