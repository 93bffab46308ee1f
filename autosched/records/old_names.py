"""Logs of schema 1 to 3 call stages, axes and decisions by name: from names to positions.

The names stand in each record.  The program is given them, so that the steps say what they said.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sketch.dag.dag import ComputeDAG
from sketch.errors import ScheduleError, quoted
from sketch.lang.expr import Axis, Expr, Load, Reduce
from sketch.lang.fresh_names import distinct_names
from sketch.lang.rewrite import rewrite
from sketch.lang.tensor import Compute, Operation, Placeholder, Tensor, tensors_of
from sketch.schedule.decision import DecisionId
from sketch.schedule.labels import decision_label, loop_label
from sketch.schedule.loop import AxisIndex, LoopId
from sketch.schedule.program import Program, initial_program
from sketch.schedule.replay import apply_step
from sketch.schedule.stage import InputId, StageId, TensorId
from sketch.schedule.step_json import decision_to_text, steps_to_json
from sketch.schedule.step_reading import step_from_json


@dataclass(frozen=True, slots=True)
class Names:
    """The names of a program: placeholders, and each stage with its axes (spatial, then reduce)."""

    inputs: tuple[str, ...]
    stages: tuple[tuple[str, tuple[str, ...]], ...]


def with_names(dag: ComputeDAG, names: Names) -> ComputeDAG:
    """The same program under other names; equal ones of axes of one stage are numbered.

    Raises ScheduleError when it has another number of inputs, stages or axes than ``names``.
    """
    here = [len(op.all_axes) for op in dag.stages]
    there = [len(axes) for _, axes in names.stages]
    if len(names.inputs) != len(dag.inputs) or here != there:
        raise ScheduleError(
            f"a record of a program with {len(names.inputs)} inputs and axes {there} does not "
            "fit this program",
            hint="tune it again",
        )
    made: dict[int, Operation] = {}
    for tensor, name in zip(dag.inputs, names.inputs, strict=True):
        assert isinstance(tensor.op, Placeholder)
        made[id(tensor.op)] = replace(tensor.op, name=name)
    for op, (name, axes) in zip(dag.stages, names.stages, strict=True):
        made[id(op)] = _renamed(op, name, axes, made)
    return ComputeDAG([Tensor(made[id(t.op)], t.output) for t in dag.outputs])


def positions(
    dag: ComputeDAG,
    names: Names | None,
    steps: Sequence[Mapping[str, Any]],
    decisions: Sequence[str],
) -> tuple[tuple[Mapping[str, Any], ...], tuple[str, ...]]:
    """Steps and decisions as ``sketch.schedule.step_json.steps_to_json`` writes them.

    Args:
        dag: the program, under any names.
        names: that the steps use; None for those of ``dag``.
        steps: as JSON values, by these names.
        decisions: by these names, in the order of their values.

    Raises:
        ScheduleError: ``dag`` has another number of inputs, stages or axes than ``names``, a step
            does not fit it, or has a decision that is not among ``decisions``.
    """
    program = initial_program(dag if names is None else with_names(dag, names))
    read = []
    for data in steps:
        read.append(step_from_json(data, _ByName(program), str))
        program = apply_step(program, read[-1])
    written, _ = steps_to_json(program, read, decisions)
    stages = [plan.id for plan in program.stages]
    return written, tuple(decision_to_text(_decision(d, program), stages) for d in decisions)


def _decision(printed: str, program: Program) -> DecisionId:
    """What ``stage.axis@level`` is about; a free meaning where it is nothing of the program."""
    _, _, level = printed.rpartition("@")
    for plan in program.stages:
        for axis in plan.op.all_axes:
            found = plan.decision(axis, level)
            if decision_label(found, program) == printed:
                return found
    return printed


@dataclass(frozen=True, slots=True)
class _ByName:
    """What a program calls so."""

    program: Program

    def stage(self, text: str) -> StageId:
        """The stage of a name."""
        return self.program.named(text).id

    def tensor(self, text: str) -> TensorId:
        """The input or the result of a name."""
        for position, tensor in enumerate(self.program.dag.inputs):
            if tensor.name == text:
                return InputId(position)
        for plan in self.program.stages:
            for tensor in tensors_of(plan.op):
                if tensor.name == text:
                    return self.program.tensor_id(tensor)
        return self.stage(text)

    def axis(self, stage: StageId, text: str) -> AxisIndex:
        """The axis of a name."""
        return self.program.stage(stage).axis(text)

    def loop(self, stage: StageId, text: str) -> LoopId:
        """The loop that is printed so."""
        plan = self.program.stage(stage)
        for loop in plan.loops():
            if loop_label(plan.op, loop) == text:
                return loop
        raise ScheduleError(f"stage {plan.op.name} has no loop {quoted(text)}")


def _renamed(
    op: Compute, name: str, labels: tuple[str, ...], made: Mapping[int, Operation]
) -> Compute:
    axes = {
        axis: Axis(label, axis.extent, axis.kind)
        for axis, label in zip(op.all_axes, distinct_names(labels), strict=True)
    }

    def leaf(node: Expr) -> Expr | None:
        if isinstance(node, Axis):
            return axes[node]
        if isinstance(node, Load):
            indices = tuple(rewrite(index, leaf) for index in node.indices)
            return Load(Tensor(made[id(node.tensor.op)], node.tensor.output), indices)
        return None

    bodies = tuple(rewrite(body, leaf) for body in op.bodies)
    if op.reduce is not None and isinstance(bodies[0], Reduce):
        bodies = (replace(bodies[0], axes=tuple(axes[axis] for axis in op.reduce_axes)),)
    return Compute(name, tuple(axes[axis] for axis in op.axes), bodies, op.store)
