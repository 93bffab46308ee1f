"""Steps as JSON values: what keys are hashes of, and what logs hold.

Stages, axes and loops are written by position, so that programs that differ in names alone have
equal texts for equal schedules.  A stage is its position in the program just before the step, so
that stages which steps added count as well; a tensor is ``2`` for a stage, ``2.1`` for its second
result, ``in0`` for an input.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from typing import Any, Final, Protocol, TypeVar

from sketch.dag.dag import ComputeDAG
from sketch.errors import ScheduleError, quoted
from sketch.lang.tensor import tensors_of
from sketch.schedule.decision import DecisionId, LoopDecision, decision_of
from sketch.schedule.loop import AxisIndex, LoopId
from sketch.schedule.program import Program, StagePlan, initial_program
from sketch.schedule.replay import apply_step
from sketch.schedule.stage import StageId, TensorId
from sketch.schedule.step_fields import check_fields
from sketch.schedule.steps import STEP_KINDS, ComputeAt, Factor, Pack, Step

_T = TypeVar("_T")
# The field that says whose loops another field lists, where that is not ``stage``.
_OWNERS: Final = {
    (ComputeAt.kind, "loop"): "target",
    (Pack.kind, "loops"): "reader",
    (Pack.kind, "writer_loops"): "tensor",
}


class Places(Protocol):
    """What the texts of a step mean; raises ScheduleError for what the program does not have."""

    def stage(self, text: str) -> StageId:
        """A stage."""
        ...

    def tensor(self, text: str) -> TensorId:
        """An input, or the result of a stage."""
        ...

    def axis(self, stage: StageId, text: str) -> AxisIndex:
        """An axis of a stage."""
        ...

    def loop(self, stage: StageId, text: str) -> LoopId:
        """A loop of a stage."""
        ...


def check_step(data: Mapping[str, Any]) -> type[Step]:
    """The class of the step that ``data`` is.

    Raises:
        ScheduleError: an unknown kind, another version, or a field of a wrong name or type.
    """
    rest = dict(data)
    kind, version = rest.pop("kind", None), rest.pop("version", None)
    cls = next((c for c in STEP_KINDS if c.kind == kind), None)
    if cls is None:
        raise ScheduleError(
            f"unknown step kind {quoted(kind)}",
            hint=f"known: {', '.join(c.kind for c in STEP_KINDS)}",
        )
    if type(version) is not int or version != cls.version:
        raise ScheduleError(
            f"step {kind!r} has version {quoted(version)}, this release reads {cls.version}"
        )
    known = {item.name for item in fields(cls)}
    needed = {item.name for item in fields(cls) if item.default is MISSING}
    if not needed <= rest.keys() <= known:
        raise ScheduleError(f"step {kind!r} has wrong fields {quoted(sorted(rest))}")
    check_fields(cls, rest)
    return cls


def step_from_json(
    data: Mapping[str, Any], places: Places, factor: Callable[[str], DecisionId]
) -> Step:
    """A step; ``factor``: the decision that a text is.

    Raises ScheduleError as ``check_step`` does, or where the program has no such stage or loop.
    """
    cls = check_step(data)
    values: dict[str, Any] = {}
    for item in fields(cls):
        if item.name in data:
            owner = values.get(_OWNERS.get((cls.kind, item.name), "stage"), "")
            values[item.name] = _read(str(item.type), data[item.name], owner, places, factor)
    return cls(**values)


def _read(
    declared: str, value: Any, owner: StageId, places: Places, factor: Callable[[str], DecisionId]
) -> Any:
    match declared:
        case "StageId":
            return places.stage(value)
        case "TensorId":
            return places.tensor(value)
        case "AxisIndex":
            return places.axis(owner, value)
        case "LoopId":
            return places.loop(owner, value)
        case "tuple[LoopId, ...]":
            return tuple(places.loop(owner, text) for text in value)
        case "Factor":
            return factor(value) if isinstance(value, str) else value
        case "tuple[Factor, ...]":
            return tuple(factor(item) if isinstance(item, str) else item for item in value)
    return value


def step_to_json(step: Step, program: Program, factor: Callable[[Factor], Any]) -> dict[str, Any]:
    """A step for ``program``, the one before it; ``factor``: how a factor is written."""
    data: dict[str, Any] = {"kind": step.kind, "version": step.version}
    for item in fields(step):
        data[item.name] = _write(str(item.type), getattr(step, item.name), program, factor)
    return data


def _write(declared: str, value: Any, program: Program, factor: Callable[[Factor], Any]) -> Any:
    match declared:
        case "StageId":
            return str(program.position(value))
        case "TensorId":
            return _tensor_positions(program)[value]
        case "AxisIndex" | "LoopId":
            return str(value)
        case "tuple[LoopId, ...]":
            return list(map(str, value))
        case "Factor":
            return factor(value)
        case "tuple[Factor, ...]":
            return list(map(factor, value))
    return value


def steps_for_key(dag: ComputeDAG, steps: Sequence[Step]) -> Iterator[dict[str, Any]]:
    """The steps, with decisions as they are where each step stands: for hashes.

    Raises ScheduleError when a step does not fit the program.
    """
    program = initial_program(dag)
    for step in steps:
        before = program
        program = apply_step(before, step)

        def factor(value: Factor, before: Program = before) -> Any:
            return value if isinstance(value, int) else decision_to_text(value, before)

        yield step_to_json(step, before, factor)


def steps_to_json(
    program: Program, steps: Sequence[Step], decisions: Sequence[DecisionId]
) -> tuple[tuple[dict[str, Any], ...], tuple[str, ...]]:
    """The steps, with numbers for decisions, and those decisions: for logs.

    Args:
        program: what the steps make.
        steps: of a schedule.
        decisions: all that the steps name.

    Raises:
        ScheduleError: the steps name another decision.
    """
    numbers = {decision: str(number) for number, decision in enumerate(decisions)}

    def number(factor: Factor) -> Any:
        if isinstance(factor, int):
            return factor
        if factor not in numbers:
            raise ScheduleError(f"no value for decision {quoted(str(factor))}")
        return numbers[factor]

    written = []
    before = initial_program(program.dag)
    for step in steps:
        written.append(step_to_json(step, before, number))
        before = apply_step(before, step)
    return tuple(written), tuple(decision_to_text(d, program) for d in decisions)


def steps_from_json(
    dag: ComputeDAG, steps: Sequence[Mapping[str, Any]], decisions: Sequence[str]
) -> tuple[tuple[Step, ...], tuple[DecisionId, ...]]:
    """The inverse of ``steps_to_json``, for a program of the same structure under any names.

    Raises ScheduleError when a step does not fit the program.
    """
    program = initial_program(dag)
    programs = []
    for data in steps:
        programs.append(program)
        program = apply_step(program, step_from_json(data, ByPosition(program), str))
    found = tuple(ByPosition(program).decision(text) for text in decisions)
    numbered = _numbered(found)

    def factor(text: str) -> DecisionId:
        return _at(numbered, text, "decision")

    read = (
        step_from_json(data, ByPosition(before), factor)
        for data, before in zip(steps, programs, strict=True)
    )
    return tuple(read), found


def decision_to_text(decision: DecisionId, program: Program) -> str:
    """By stage, axis and level; what is about no loop of the program stays."""
    if not isinstance(decision, LoopDecision):
        return decision
    plan = program.find(decision.stage)
    names = [] if plan is None else [axis.name for axis in plan.op.all_axes]
    if decision.axis not in names:
        return str(decision)
    stage, axis = program.position(decision.stage), names.index(decision.axis)
    return str(LoopDecision(str(stage), str(axis), decision.level))


@dataclass(frozen=True, slots=True)
class ByPosition:
    """What stands at a position of a program."""

    program: Program

    def stage(self, text: str) -> StageId:
        """The stage at a position."""
        return self._plan(text).op.name

    def tensor(self, text: str) -> TensorId:
        """``2`` for a stage, ``2.1`` for its second result, ``in0`` for an input."""
        positions = _tensor_positions(self.program)
        return _at({position: name for name, position in positions.items()}, text, "tensor")

    def axis(self, stage: StageId, text: str) -> AxisIndex:
        """The axis at a position."""
        return _at(_numbered(range(len(self.program.stage(stage).op.all_axes))), text, "axis")

    def loop(self, stage: StageId, text: str) -> LoopId:
        """``0.1``: axis and level."""
        loops = self.program.stage(stage).loops()
        return _at({str(loop): loop for loop in loops}, text, "loop")

    def decision(self, text: str) -> DecisionId:
        """By stage, axis and level; a free meaning where there is no such loop."""
        decision = decision_of(text)
        if not isinstance(decision, LoopDecision):
            return decision
        plan = _numbered(self.program.stages).get(decision.stage)
        axis = None if plan is None else _numbered(plan.op.all_axes).get(decision.axis)
        if plan is None or axis is None:
            return decision
        return LoopDecision(plan.op.name, axis.name, decision.level)

    def _plan(self, position: str) -> StagePlan:
        return _at(_numbered(self.program.stages), position, "stage")


def _tensor_positions(program: Program) -> dict[TensorId, str]:
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
