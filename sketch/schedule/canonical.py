"""Steps free of names: stages, axes and loops are called by their positions.

Two programs that differ in names alone have equal canonical steps for equal schedules.  A stage is
its position in the program just before the step, so that stages which steps added count as well;
an axis is its position in its stage, spatial axes first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from sketch.dag.dag import ComputeDAG
from sketch.errors import ScheduleError, quoted
from sketch.lang.tensor import tensors_of
from sketch.schedule.decision import DecisionId, LoopDecision
from sketch.schedule.loop import loop_name
from sketch.schedule.program import Program, StagePlan, initial_program
from sketch.schedule.replay import apply_step
from sketch.schedule.step_names import step_with_factors, step_with_names
from sketch.schedule.steps import Factor, Step

_T = TypeVar("_T")


def canonical_steps(dag: ComputeDAG, steps: tuple[Step, ...]) -> Iterator[Step]:
    """The steps with positions for names: for hashes, see ``stored_steps`` for logs.

    Raises ScheduleError when a step does not fit the program.
    """
    program = initial_program(dag)
    for step in steps:
        after = apply_step(program, step)
        yield step_with_names(step, _Positions(program))
        program = after


def stored_steps(
    program: Program, steps: tuple[Step, ...], decisions: Sequence[DecisionId]
) -> tuple[tuple[Step, ...], tuple[DecisionId, ...]]:
    """Steps with positions for names and numbers for decisions, and those decisions.

    Args:
        program: what the steps make.
        steps: by names.
        decisions: all that the steps name.  Those about loops are given by the positions of their
            stage, in ``program``, and of their axis.

    Raises:
        ScheduleError: the steps name another decision.
    """
    numbers = {decision: str(number) for number, decision in enumerate(decisions)}

    def number(factor: Factor) -> Factor:
        if isinstance(factor, int):
            return factor
        if factor not in numbers:
            raise ScheduleError(f"no value for decision {quoted(str(factor))}")
        return numbers[factor]

    numbered = tuple(step_with_factors(step, number) for step in steps)
    places = _Positions(program)
    found = tuple(places.decision(decision) for decision in decisions)
    return tuple(canonical_steps(program.dag, numbered)), found


def named_steps(
    dag: ComputeDAG, steps: tuple[Step, ...], decisions: Sequence[DecisionId]
) -> tuple[tuple[Step, ...], tuple[DecisionId, ...]]:
    """The inverse of ``stored_steps``, for a program of the same structure under any names.

    Raises ScheduleError when a step does not fit the program.
    """
    program = initial_program(dag)
    named: list[Step] = []
    for step in steps:
        named.append(step_with_names(step, _Names(program)))
        program = apply_step(program, named[-1])
    names = _Names(program)
    found = tuple(names.decision(decision) for decision in decisions)
    numbered = {str(number): decision for number, decision in enumerate(found)}

    def factor(value: Factor) -> Factor:
        return value if isinstance(value, int) else _at(numbered, str(value), "decision")

    return tuple(step_with_factors(step, factor) for step in named), found


@dataclass(frozen=True, slots=True)
class _Positions:
    """What is where in a program, for steps that fit it."""

    program: Program

    def stage(self, name: str) -> str:
        return str(self.program.stages.index(self.program.stage(name)))

    def tensor(self, name: str) -> str:
        return _tensor_positions(self.program)[name]

    def axis(self, stage: str, name: str) -> str:
        return str(self.program.stage(stage).axis_names.index(name))

    def loop(self, stage: str, name: str) -> str:
        loop = self.program.stage(stage).loop_id(name)
        return loop_name(str(loop.axis), loop.level)

    def factor(self, factor: Factor) -> Factor:
        return factor if isinstance(factor, int) else self.decision(factor)

    def decision(self, decision: DecisionId) -> DecisionId:
        """By stage, axis and level; what is about no loop of the program stays."""
        if not isinstance(decision, LoopDecision):
            return decision
        plan = self.program.find(decision.stage)
        if plan is None or decision.axis not in plan.axis_names:
            return decision
        axis = self.axis(decision.stage, decision.axis)
        return LoopDecision(self.stage(decision.stage), axis, decision.level)


@dataclass(frozen=True, slots=True)
class _Names:
    """What stands at a position of a program; raises ScheduleError where nothing does."""

    program: Program

    def stage(self, name: str) -> str:
        return self._plan(name).op.name

    def tensor(self, name: str) -> str:
        positions = _tensor_positions(self.program)
        return _at({position: name for name, position in positions.items()}, name, "tensor")

    def axis(self, stage: str, name: str) -> str:
        return _at(_numbered(self._plan(stage).axis_names), name, "axis")

    def loop(self, stage: str, name: str) -> str:
        loops = self._plan(stage).loop_ids().items()
        places = {loop_name(str(loop.axis), loop.level): called for called, loop in loops}
        return _at(places, name, "loop")

    def factor(self, factor: Factor) -> Factor:
        return factor

    def decision(self, decision: DecisionId) -> DecisionId:
        if not isinstance(decision, LoopDecision):
            return decision
        plan = _numbered(self.program.stages).get(decision.stage)
        axis = None if plan is None else _numbered(plan.axis_names).get(decision.axis)
        if plan is None or axis is None:
            return decision
        return LoopDecision(plan.op.name, axis, decision.level)

    def _plan(self, position: str) -> StagePlan:
        return _at(_numbered(self.program.stages), position, "stage")


def _tensor_positions(program: Program) -> dict[str, str]:
    """``2`` for a stage, ``2.1`` for its second result, ``in0`` for an input, by name."""
    found = {tensor.name: f"in{n}" for n, tensor in enumerate(program.dag.inputs)}
    for number, plan in enumerate(program.stages):
        found |= {tensor.name: f"{number}.{tensor.output}" for tensor in tensors_of(plan.op)}
        found[plan.op.name] = str(number)
    return found


def _numbered(values: Sequence[_T]) -> dict[str, _T]:
    return {str(number): value for number, value in enumerate(values)}


def _at(places: Mapping[str, _T], position: str, what: str) -> _T:
    if position not in places:
        raise ScheduleError(f"the program has no {what} at {quoted(position)}")
    return places[position]
