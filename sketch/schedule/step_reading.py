"""Steps from JSON values, for a program of the same structure under any names.

``ByPosition`` reads what ``step_json`` writes; other ``Places`` read what older releases wrote.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, replace
from typing import Any, Final, Protocol, TypeVar

from sketch.dag.dag import ComputeDAG
from sketch.errors import ScheduleError, quoted
from sketch.schedule.decision import DecisionId, LoopDecision
from sketch.schedule.loop import AxisIndex, LoopId
from sketch.schedule.program import Program, initial_program
from sketch.schedule.replay import apply_step
from sketch.schedule.stage import InputId, ResultId, StageId, TensorId
from sketch.schedule.step_fields import check_fields, rules_of
from sketch.schedule.steps import (
    STEP_KINDS,
    BlockOrder,
    ComputeAt,
    Factor,
    Pack,
    SharedTiles,
    Split,
    Step,
)

_T = TypeVar("_T")
_BY_KIND: Final = {cls.kind: cls for cls in STEP_KINDS}
# By kind: the fields that a step must have, and those that it may have.
_NAMES: Final = {
    cls.kind: (
        frozenset(item.name for item in fields(cls) if item.default is MISSING),
        frozenset(item.name for item in fields(cls)),
    )
    for cls in STEP_KINDS
}
_RULES: Final = {cls.kind: rules_of(cls) for cls in STEP_KINDS}
# Positions as they are written: no signs, no zeros before a number, and not too long to be one.
_INT: Final = "(0|[1-9][0-9]{0,8})"
_NUMBER: Final = re.compile(_INT)
_LOOP: Final = re.compile(_INT + r"\." + _INT)
_LOOP_DECISION: Final = re.compile(_INT + r"\." + _INT + "@([^@]*)")
_TENSOR: Final = re.compile("in" + _INT + "|" + _INT + r"(?:\." + _INT + ")?")
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
    cls = _BY_KIND.get(kind) if isinstance(kind, str) else None
    if cls is None:
        raise ScheduleError(
            f"unknown step kind {quoted(kind)}",
            hint=f"known: {', '.join(c.kind for c in STEP_KINDS)}",
        )
    if type(version) is not int or version != cls.version:
        raise ScheduleError(
            f"step {kind!r} has version {quoted(version)}, this release reads {cls.version}"
        )
    needed, known = _NAMES[kind]
    if not needed <= rest.keys() <= known:
        raise ScheduleError(f"step {kind!r} has wrong fields {quoted(sorted(rest))}")
    check_fields(kind, _RULES[kind], rest)
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


def steps_from_json(
    dag: ComputeDAG, steps: Sequence[Mapping[str, Any]], decisions: Sequence[str]
) -> tuple[tuple[Step, ...], tuple[DecisionId, ...]]:
    """The inverse of ``steps_to_json``, for a program of the same structure under any names.

    Raises ScheduleError when a step does not fit the program.
    """
    program = initial_program(dag)
    read = []
    for data in steps:
        read.append(step_from_json(data, ByPosition(program), str))
        program = apply_step(program, read[-1])
    # What decisions are about is told by the program that all steps make.
    found = tuple(_decision(text, program) for text in decisions)

    def number(factor: Factor) -> Factor:
        return factor if isinstance(factor, int) else _at(found, str(factor), "decision")

    return tuple(_with_factors(step, number) for step in read), found


def _with_factors(step: Step, change: Callable[[Factor], Factor]) -> Step:
    match step:
        case Split(factors=factors):
            return replace(step, factors=tuple(map(change, factors)))
        case Pack(prefetch=prefetch):
            return replace(step, prefetch=change(prefetch))
        case SharedTiles(count=count, layout=layout):
            return replace(step, count=change(count), layout=change(layout))
        case BlockOrder(rows=rows):
            return replace(step, rows=change(rows))
    return step


def _decision(text: str, program: Program) -> DecisionId:
    """By stage, axis and level; a free meaning where there is no such axis."""
    found = _LOOP_DECISION.fullmatch(text)
    if found is None:
        return text
    stage, axis = int(found[1]), int(found[2])
    if stage >= len(program.stages) or axis >= len(program.stages[stage].op.all_axes):
        return text
    return LoopDecision(program.stages[stage].id, axis, found[3])


@dataclass(frozen=True, slots=True)
class ByPosition:
    """What stands at a position of a program."""

    program: Program

    def stage(self, text: str) -> StageId:
        """The stage at a position."""
        return _at(self.program.stages, text, "stage").id

    def tensor(self, text: str) -> TensorId:
        """``2`` for a stage, ``2.1`` for its second result, ``in0`` for an input."""
        found = _TENSOR.fullmatch(text)
        if found is None:
            raise _nothing("tensor", text)
        given, stage, result = found.groups()
        if given is not None:
            return InputId(_at(range(len(self.program.dag.inputs)), given, "input"))
        plan = _at(self.program.stages, stage, "stage")
        if result is None:
            return plan.id
        results = len(plan.op.output_dtypes)
        return ResultId(plan.id, _at(range(results if results > 1 else 0), result, "result"))

    def axis(self, stage: StageId, text: str) -> AxisIndex:
        """The axis at a position."""
        return _at(range(len(self.program.stage(stage).op.all_axes)), text, "axis")

    def loop(self, stage: StageId, text: str) -> LoopId:
        """``0.1``: axis and level."""
        plan, found = self.program.stage(stage), _LOOP.fullmatch(text)
        if found is None:
            raise _nothing("loop", text)
        loop = LoopId(int(found[1]), int(found[2]))
        plan.check_loop(loop)
        return loop


def _at(values: Sequence[_T], position: str, what: str) -> _T:
    if _NUMBER.fullmatch(position) is None or int(position) >= len(values):
        raise _nothing(what, position)
    return values[int(position)]


def _nothing(what: str, position: str) -> ScheduleError:
    return ScheduleError(f"the program has no {what} at {quoted(position)}")
