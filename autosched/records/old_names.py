"""Logs of schema 1 to 3 call stages, axes and decisions by name: from names to positions.

The names stand in each record.  The program is given them, so that the steps say what they said.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from sketch.dag.dag import ComputeDAG
from sketch.errors import ScheduleError
from sketch.lang.expr import Axis, Expr, Load, Reduce
from sketch.lang.fresh_names import distinct_names
from sketch.lang.rewrite import rewrite
from sketch.lang.tensor import Compute, Operation, Placeholder, Tensor
from sketch.schedule.canonical import stored_steps
from sketch.schedule.decision import DecisionId
from sketch.schedule.replay import replay
from sketch.schedule.steps import Step


@dataclass(frozen=True, slots=True)
class Names:
    """The names of a program: placeholders, and each stage with its axes (spatial, then reduce)."""

    inputs: tuple[str, ...]
    stages: tuple[tuple[str, tuple[str, ...]], ...]


def with_names(dag: ComputeDAG, names: Names) -> ComputeDAG:
    """The same program under other names; equal ones of axes of one stage are numbered.

    Raises ScheduleError when it has another number of inputs, stages or axes than ``names``.
    """
    here = [len(_axes(op)) for op in dag.stages]
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
    dag: ComputeDAG, names: Names | None, steps: tuple[Step, ...], decisions: Sequence[DecisionId]
) -> tuple[tuple[Step, ...], tuple[DecisionId, ...]]:
    """Steps and decisions as ``sketch.schedule.canonical.stored_steps`` has them.

    Args:
        dag: the program, under any names.
        names: that the steps use; None for those of ``dag``.
        steps: by these names.
        decisions: by these names, in the order of their values.

    Raises:
        ScheduleError: ``dag`` has another number of inputs, stages or axes than ``names``, a step
            does not fit it, or has a decision that is not among ``decisions``.
    """
    named = dag if names is None else with_names(dag, names)
    return stored_steps(replay(named, steps), steps, decisions)


def _axes(op: Compute) -> tuple[Axis, ...]:
    return (*op.axes, *op.reduce_axes)


def _renamed(
    op: Compute, name: str, labels: tuple[str, ...], made: Mapping[int, Operation]
) -> Compute:
    axes = {
        axis: Axis(label, axis.extent, axis.kind)
        for axis, label in zip(_axes(op), distinct_names(labels), strict=True)
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
