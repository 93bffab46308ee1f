"""Carry steps and decisions over to a program of the same structure under other names.

A program's key ignores names, so a record made for one model must serve another that has the same
program.  Both programs are replayed side by side: a name of the one stands for whatever is at the
same place in the other, be it the program's own or what a step added.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from sketch.dag.dag import ComputeDAG
from sketch.errors import ScheduleError
from sketch.lang.expr import Axis, Expr, Load, Reduce
from sketch.lang.fresh_names import distinct_names
from sketch.lang.rewrite import rewrite
from sketch.lang.tensor import Compute, Operation, Placeholder, Tensor, tensors_of
from sketch.schedule.decision import DecisionId, LoopDecision
from sketch.schedule.loop import loop_name
from sketch.schedule.program import Program, StagePlan, initial_program
from sketch.schedule.replay import apply_step
from sketch.schedule.step_names import step_with_names
from sketch.schedule.steps import Factor, Step


@dataclass(frozen=True, slots=True)
class Names:
    """The names of a program: placeholders, and each stage with its axes (spatial, then reduce)."""

    inputs: tuple[str, ...]
    stages: tuple[tuple[str, tuple[str, ...]], ...]


def names_of(dag: ComputeDAG) -> Names:
    """The names of ``dag`` in canonical positions."""
    stages = tuple((op.name, tuple(axis.name for axis in _axes(op))) for op in dag.stages)
    return Names(tuple(tensor.name for tensor in dag.inputs), stages)


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


def rename(
    steps: tuple[Step, ...], decisions: Mapping[DecisionId, int], old: Names, dag: ComputeDAG
) -> tuple[tuple[Step, ...], dict[DecisionId, int]]:
    """Steps and decisions of a program called ``old`` for the same program ``dag``.

    Raises ScheduleError when the two do not have the same number of inputs, stages and axes, or
    when a step does not fit the program.
    """
    if old == names_of(dag):
        return steps, dict(decisions)
    before, after = initial_program(with_names(dag, old)), initial_program(dag)
    renamed: list[Step] = []
    factors: dict[DecisionId, LoopDecision] = {}
    for step in steps:
        pair = _Pair(before, after, factors)
        renamed.append(step_with_names(step, pair))
        before, after = apply_step(before, step), apply_step(after, renamed[-1])
    return tuple(renamed), {factors.get(name, name): value for name, value in decisions.items()}


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


@dataclass(frozen=True, slots=True)
class _Pair:
    """One program under two names, before a step; ``decisions`` collects those renamed so far."""

    old: Program
    new: Program
    decisions: dict[DecisionId, LoopDecision]

    def plan(self, name: str) -> tuple[StagePlan, StagePlan]:
        plan = self.old.stage(name)
        return plan, self.new.stages[self.old.stages.index(plan)]

    def stage(self, name: str) -> str:
        return self.plan(name)[1].op.name

    def tensor(self, name: str) -> str:
        for old, new in zip(_tensors(self.old), _tensors(self.new), strict=True):
            if old.name == name:
                return new.name
        raise ScheduleError(f"the program has no tensor {name!r}")

    def axis(self, stage: str, name: str) -> str:
        old, new = self.plan(stage)
        return _axes(new.op)[_axes(old.op).index(old.axis(name))].name

    def loop(self, stage: str, name: str) -> str:
        old, new = self.plan(stage)
        loop = old.loop_id(name)
        return loop_name(_axes(new.op)[loop.axis].name, loop.level)

    def factor(self, factor: Factor) -> Factor:
        if not isinstance(factor, LoopDecision):
            return factor
        if factor not in self.decisions:
            self.decisions[factor] = self._decision(factor)
        return self.decisions[factor]

    def _decision(self, decision: LoopDecision) -> LoopDecision:
        """One that is about no loop of the program stays."""
        plan = self.old.find(decision.stage)
        if plan is None or decision.axis not in plan.axis_names:
            return decision
        stage, axis = decision.stage, decision.axis
        return LoopDecision(self.stage(stage), self.axis(stage, axis), decision.level)


def _tensors(program: Program) -> list[Tensor]:
    stages = [tensor for plan in program.stages for tensor in tensors_of(plan.op)]
    return [*program.dag.inputs, *stages]
