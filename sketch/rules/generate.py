"""Sketch generation: apply rules to stages, consumers first, until every stage is scheduled."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace
from typing import Final

from sketch.dag.dag import ComputeDAG
from sketch.errors import ScheduleError
from sketch.rules.backend import SKETCH_BACKENDS, default_rules
from sketch.rules.foreign import ask, check_recordable, checked_rules, offers, place_of
from sketch.rules.rule import SketchRule, State, Verdict
from sketch.schedule.program import StagePlan, initial_program
from sketch.schedule.sketch import Sketch
from sketch.schedule.stage import Role, StageId
from sketch.target.target import Target

# Bound on the sketches of a program.  Which of them are searched is the caller's choice; this only
# limits the time and memory that making them takes.
MAX_SKETCHES: Final = 192
# Bound on the states that are followed up at a time: alternatives of many stages multiply.
MAX_PENDING: Final = 128
# From so many stages on both are fewer, so that the work grows with the program only.
_MANY_STAGES: Final = 8
_LEAST: Final = 16
# A rule that forgets to mark its stage as scheduled is asked about it again and again.
_MAX_IDLE: Final = 8

_BUILT_IN: Final = frozenset(type(rule) for backend in SKETCH_BACKENDS for rule in backend.rules)


@dataclass(frozen=True, slots=True)
class Generation:
    """What the rules lead to.

    Attributes:
        sketches: in a fixed order, at most 192.
        dropped: alternatives that were not followed up, because there were too many.
    """

    sketches: tuple[Sketch, ...]
    dropped: int = 0


def generate(
    dag: ComputeDAG,
    target: Target,
    rules: tuple[SketchRule, ...] | None = None,
    variant: str = "direct",
) -> tuple[Sketch, ...]:
    """All sketches of ``dag``, in a fixed order, at most 192.

    Args:
        dag: the program.
        target: the machine.
        rules: asked in order for every stage; None: the target's default rules.  User rules go
            before the built-in ones: ``(MyRule(), *default_rules(target))``.
        variant: name of the form of the task that ``dag`` is; it is kept in the sketches.

    Raises:
        ScheduleError: rules leave a stage unscheduled, or go on without scheduling any, or the code
            of a user's rule fails, or logs cannot hold what it decides.
    """
    return explore(dag, target, rules, variant).sketches


def explore(
    dag: ComputeDAG,
    target: Target,
    rules: tuple[SketchRule, ...] | None = None,
    variant: str = "direct",
) -> Generation:
    """The sketches of ``generate``, and how much was left out.

    Where something was, the last sketch is the one with every stage at the root, so that cutting
    the space never takes away the schedule that always fits.

    Args:
        dag: the program.
        target: the machine.
        rules: as ``generate`` has them.
        variant: name of the form of the task that ``dag`` is; it is kept in the sketches.

    Raises:
        ScheduleError: no rule applies to a stage.
    """
    rules = default_rules(target) if rules is None else checked_rules(rules)
    pending = deque([_apply_eagerly(State(target, initial_program(dag)), rules)])
    sketches: list[Sketch] = []
    dropped = 0
    most, room = _bounds(len(dag.stages))
    while pending and len(sketches) < most:
        state = pending.popleft()
        stage = state.current()
        if stage is None:
            sketches.append(_sketch(dag, state, variant))
            if state.foreign:
                check_recordable(sketches[-1])
            continue
        successors = _successors(state, stage, rules)
        if not successors:
            raise ScheduleError(
                f"no rule applies to stage {stage.op.name}",
                hint="end the rules with one that always applies",
            )
        pending += _alike(state, stage, successors)
        while len(pending) > room:
            pending.pop()
            dropped += 1
    dropped += len(pending)
    if dropped and all(sketch.program.attached for sketch in sketches):
        dropped += len(sketches[most - 1 :])
        sketches[most - 1 :] = [at_root(dag, target, variant)]
    return Generation(tuple(sketches), dropped)


def _bounds(stages: int) -> tuple[int, int]:
    """Most sketches of a program of so many stages, most states that are followed up at a time."""
    room = min(MAX_PENDING, max(_LEAST, MAX_PENDING * _MANY_STAGES // stages))
    return (MAX_SKETCHES if stages <= _MANY_STAGES else room), room


def at_root(dag: ComputeDAG, target: Target, variant: str = "direct") -> Sketch:
    """The sketch with every stage in a nest of its own: it has rows that fit any target."""
    last = default_rules(target)[-1]
    state = State(target, initial_program(dag))
    while (stage := state.current()) is not None:
        state = last.apply(state, stage)[0]
    return _sketch(dag, state, variant)


def _sketch(dag: ComputeDAG, state: State, variant: str) -> Sketch:
    """The sketch of a finished state, which has replayed the steps already."""
    sketch = Sketch(dag, state.steps, state.target, variant, state.foreign)
    sketch.__dict__["program"] = state.program
    return sketch


def _successors(state: State, stage: StagePlan, rules: tuple[SketchRule, ...]) -> list[State]:
    """What the rules offer for a stage."""
    found: list[State] = []
    for rule in rules:
        verdict = _ask(rule, state, stage)
        if verdict is not Verdict.SKIP:
            offered = [_counted(state, successor, rule) for successor in _apply(rule, state, stage)]
            found += _asked_first(state, stage, rules, rule, offered)
        if verdict is Verdict.APPLY_AND_STOP:
            break
    return found


def _asked_first(
    state: State,
    stage: StagePlan,
    rules: tuple[SketchRule, ...],
    rule: SketchRule,
    offered: list[State],
) -> list[State]:
    """``offered``, and before it what user rules that go before ``rule`` offer for the stages that
    it schedules together with ``stage`` (the reduction that tiling fuses with its consumer), or
    splits for it.

    Where one of them answers APPLY_AND_STOP, nothing else is offered.
    """
    own = [r for r in rules[: rules.index(rule)] if type(r) not in _BUILT_IN]
    if not own:
        return offered
    taken = frozenset[StageId]().union(*(_taken(state, successor) for successor in offered))
    found: list[State] = []
    for plan in state.program.stages:
        if plan is stage or plan.id not in taken:
            continue
        for asked in own:
            verdict = _ask(asked, state, plan)
            if verdict is not Verdict.SKIP:
                found += [_counted(state, s, asked) for s in _apply(asked, state, plan)]
            if verdict is Verdict.APPLY_AND_STOP:
                return found
    return [*found, *offered]


def _taken(state: State, successor: State) -> frozenset[StageId]:
    """The stages that a rule has scheduled, and the reductions that it has split."""
    plans = successor.program.stages
    split = {plan.id for plan in plans if Role.COMBINE in plan.roles}
    before = {plan.id for plan in state.program.stages if Role.COMBINE in plan.roles}
    return (successor.scheduled - state.scheduled) | (split - before)


def _ask(rule: SketchRule, state: State, stage: StagePlan) -> Verdict:
    own = type(rule) in _BUILT_IN
    return rule.applies(state, stage) if own else ask(rule, state, stage)


def _apply(rule: SketchRule, state: State, stage: StagePlan) -> tuple[State, ...]:
    """What a rule makes of a stage; its errors and its sketches carry its name."""
    if type(rule) not in _BUILT_IN:
        return offers(rule, state, stage)
    try:
        return rule.apply(state, stage)
    except ScheduleError as error:
        raise error.at(place_of(rule, stage)) from error


def _counted(state: State, successor: State, rule: SketchRule) -> State:
    """``successor``, with the number of rules applied since a stage was scheduled or inlined."""
    inlined = len(successor.program.stages) < len(state.program.stages)
    progress = inlined or len(successor.scheduled) > len(state.scheduled)
    idle = 0 if progress else state.idle + 1
    if idle > _MAX_IDLE:
        stage = state.current()
        raise ScheduleError(
            f"{idle} rules in a row scheduled no stage, {rule!r} was the last",
            "" if stage is None else f"stage {stage.op.name}",
            "let the rule mark the stages that it is done with: state.then(...).done([stage.id])",
        )
    return replace(successor, idle=idle)


def _alike(state: State, stage: StagePlan, successors: list[State]) -> list[State]:
    """Stages that share a buffer do alike work (the phases of a transposed convolution): what is
    chosen for the first of them is chosen for all, else their choices would multiply.
    """
    if stage.op.store is None or len(successors) < 2:
        return successors
    key = (stage.op.store.buffer, len(successors))
    if key in state.choices:
        return [successors[state.choices[key]]]
    return [
        replace(successor, choices={**state.choices, key: number})
        for number, successor in enumerate(successors)
    ]


def _apply_eagerly(state: State, rules: tuple[SketchRule, ...]) -> State:
    """Run the eager rules over all stages, consumers first."""
    for called in [plan.id for plan in reversed(state.program.stages)]:
        for rule in (rule for rule in rules if rule.eager):
            stage = state.program.find(called)
            if stage is not None and _ask(rule, state, stage) is Verdict.APPLY_AND_STOP:
                (state,) = _apply(rule, state, stage)
    return state
