"""Steps as JSON values: what keys are hashes of, and what logs hold.

Stages, axes and loops are written by position, so that programs that differ in names alone have
equal texts for equal schedules.  A stage is its position in the program just before the step, so
that stages which steps added count as well; a tensor is ``2`` for a stage, ``2.1`` for its second
result, ``in0`` for an input.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from typing import Any, Final, Protocol, TypeVar

from sketch.dag.dag import ComputeDAG
from sketch.errors import ScheduleError, quoted
from sketch.schedule.decision import DecisionId, LoopDecision
from sketch.schedule.loop import AxisIndex, LoopId
from sketch.schedule.program import Program, initial_program
from sketch.schedule.replay import apply_step
from sketch.schedule.stage import InputId, ResultId, Role, StageId, TensorId, new_stage
from sketch.schedule.step_fields import check_fields
from sketch.schedule.steps import (
    STEP_KINDS,
    CacheRead,
    CacheWrite,
    ComputeAt,
    Factor,
    Inline,
    Pack,
    Rfactor,
    SplitReduce,
    Step,
)

_T = TypeVar("_T")
_LOOP_DECISION: Final = re.compile(r"(\d+)\.(\d+)@([^@]*)")
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
        case "OperationId" | "TensorId":
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


def step_to_json(
    step: Step, stages: Sequence[StageId], factor: Callable[[Factor], Any]
) -> dict[str, Any]:
    """A step as a JSON value.

    Args:
        step: of a schedule.
        stages: of the program before it, in their order.
        factor: how a factor is written.

    Raises:
        ScheduleError: the step names another stage.
    """
    data: dict[str, Any] = {"kind": step.kind, "version": step.version}
    for item in fields(step):
        data[item.name] = _write(str(item.type), getattr(step, item.name), stages, factor)
    return data


def _write(
    declared: str, value: Any, stages: Sequence[StageId], factor: Callable[[Factor], Any]
) -> Any:
    match declared:
        case "StageId" | "OperationId" | "TensorId":
            return tensor_to_text(value, stages)
        case "AxisIndex" | "LoopId":
            return str(value)
        case "tuple[LoopId, ...]":
            return list(map(str, value))
        case "Factor":
            return factor(value)
        case "tuple[Factor, ...]":
            return list(map(factor, value))
    return value


def tensor_to_text(tensor: TensorId, stages: Sequence[StageId]) -> str:
    """``2`` for a stage, ``2.1`` for its second result, ``in0`` for an input.

    Raises ScheduleError when it is of no stage of ``stages``.
    """
    if isinstance(tensor, InputId):
        return str(tensor)
    if isinstance(tensor, ResultId):
        return f"{tensor_to_text(tensor.stage, stages)}.{tensor.output}"
    if tensor not in stages:
        raise ScheduleError(f"no stage {tensor!s}")
    return str(stages.index(tensor))


def decision_to_text(decision: DecisionId, stages: Sequence[StageId]) -> str:
    """By stage, axis and level; what is about no stage of ``stages`` stays."""
    if not isinstance(decision, LoopDecision) or decision.stage not in stages:
        return str(decision)
    return f"{stages.index(decision.stage)}.{decision.axis}@{decision.level}"


def steps_for_key(dag: ComputeDAG, steps: Sequence[Step]) -> Iterator[dict[str, Any]]:
    """The steps, with decisions as they are where each step stands: for hashes.

    Raises ScheduleError when a step names a stage that there is not.
    """
    for step, stages in zip(steps, _stages_before(dag, steps), strict=True):

        def factor(value: Factor, stages: Sequence[StageId] = stages) -> Any:
            return value if isinstance(value, int) else decision_to_text(value, stages)

        yield step_to_json(step, stages, factor)


def _stages_before(dag: ComputeDAG, steps: Sequence[Step]) -> Iterator[list[StageId]]:
    """The stages before each step, in their order; a new one stands before its origin."""
    stages = [StageId(n) for n in range(len(dag.stages))]
    for step in steps:
        yield stages
        match step:
            case Inline(stage):
                stages = [other for other in stages if other != stage]
            case CacheWrite(stage):
                stages = _with_new(stages, stage, Role.ACCUMULATE)
            case CacheRead(consumer=stage):
                stages = _with_new(stages, stage, Role.CACHE)
            case Rfactor(stage) | SplitReduce(stage):
                stages = _with_new(stages, stage, Role.PARTIAL)


def _with_new(stages: list[StageId], origin: StageId, role: Role) -> list[StageId]:
    at = stages.index(origin)
    return [*stages[:at], new_stage(origin, role, stages), *stages[at:]]


def steps_to_json(
    program: Program, steps: Sequence[Step], decisions: Sequence[DecisionId]
) -> tuple[tuple[dict[str, Any], ...], tuple[str, ...]]:
    """The steps, with numbers for decisions, and those decisions: for logs.

    Args:
        program: what the steps make.
        steps: of a schedule.
        decisions: all that the steps name.

    Raises:
        ScheduleError: the steps name another decision, or a stage that there is not.
    """
    numbers = {decision: str(number) for number, decision in enumerate(decisions)}

    def number(factor: Factor) -> Any:
        if isinstance(factor, int):
            return factor
        if factor not in numbers:
            raise ScheduleError(f"no value for decision {quoted(str(factor))}")
        return numbers[factor]

    written = tuple(
        step_to_json(step, stages, number)
        for step, stages in zip(steps, _stages_before(program.dag, steps), strict=True)
    )
    stages = [plan.id for plan in program.stages]
    return written, tuple(decision_to_text(decision, stages) for decision in decisions)


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
    found = tuple(_decision(text, program) for text in decisions)
    numbered = _numbered(found)

    def factor(text: str) -> DecisionId:
        return _at(numbered, text, "decision")

    read = (
        step_from_json(data, ByPosition(before), factor)
        for data, before in zip(steps, programs, strict=True)
    )
    return tuple(read), found


def _decision(text: str, program: Program) -> DecisionId:
    """By stage, axis and level; a free meaning where there is no such axis."""
    found = _LOOP_DECISION.fullmatch(text)
    if found is None:
        return text
    stage, axis, level = found.groups()
    plan = _numbered(program.stages).get(stage)
    position = None if plan is None else _numbered(range(len(plan.op.all_axes))).get(axis)
    if plan is None or position is None:
        return text
    return LoopDecision(plan.id, position, level)


@dataclass(frozen=True, slots=True)
class ByPosition:
    """What stands at a position of a program."""

    program: Program

    def stage(self, text: str) -> StageId:
        """The stage at a position."""
        return _at(_numbered(self.program.stages), text, "stage").id

    def tensor(self, text: str) -> TensorId:
        """``2`` for a stage, ``2.1`` for its second result, ``in0`` for an input."""
        inputs = map(InputId, range(len(self.program.dag.inputs)))
        found: dict[str, TensorId] = {str(called): called for called in inputs}
        for number, plan in enumerate(self.program.stages):
            found[str(number)] = plan.id
            results = len(plan.op.output_dtypes)
            for output in range(results if results > 1 else 0):
                found[f"{number}.{output}"] = ResultId(plan.id, output)
        return _at(found, text, "tensor")

    def axis(self, stage: StageId, text: str) -> AxisIndex:
        """The axis at a position."""
        return _at(_numbered(range(len(self.program.stage(stage).op.all_axes))), text, "axis")

    def loop(self, stage: StageId, text: str) -> LoopId:
        """``0.1``: axis and level."""
        loops = self.program.stage(stage).loops()
        return _at({str(loop): loop for loop in loops}, text, "loop")


def _numbered(values: Sequence[_T]) -> dict[str, _T]:
    return {str(number): value for number, value in enumerate(values)}


def _at(places: Mapping[str, _T], position: str, what: str) -> _T:
    if position not in places:
        raise ScheduleError(f"the program has no {what} at {quoted(position)}")
    return places[position]
