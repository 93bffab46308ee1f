"""Steps as JSON values: what keys are hashes of, and what logs hold.

Stages, axes and loops are written by position, so that programs that differ in names alone have
equal texts for equal schedules.  A stage is its position in the program just before the step, so
that stages which steps added count as well; a tensor is ``2`` for a stage, ``2.1`` for its second
result, ``in0`` for an input.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields
from typing import Any

from sketch.dag.dag import ComputeDAG
from sketch.errors import ScheduleError, quoted
from sketch.schedule.decision import DecisionId, LoopDecision
from sketch.schedule.program import Program
from sketch.schedule.stage import InputId, ResultId, Role, StageId, TensorId, new_stage
from sketch.schedule.steps import CacheRead, CacheWrite, Factor, Inline, Rfactor, SplitReduce, Step


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
