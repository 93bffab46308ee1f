"""Rules of users: their answers are checked, and their errors carry their name."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from sketch.errors import ScheduleError
from sketch.rules.rule import SketchRule, State, Verdict
from sketch.schedule.program import StagePlan
from sketch.schedule.sketch import Sketch
from sketch.schedule.step_fields import is_text
from sketch.schedule.step_json import steps_to_json
from sketch.schedule.step_reading import steps_from_json

# What faults in a rule's code raise.  Other exceptions (an interrupt, what a signal handler raises)
# are not about the rule.
_FAULTS: Final = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    NameError,
    RecursionError,
    TypeError,
    ValueError,
)
# Stages of a program for each stage and input that it began with: a copy of all that a stage reads,
# its partial sums and its result are fewer.
_MOST_GROWTH: Final = 8


def checked_rules(rules: Any) -> tuple[SketchRule, ...]:
    """``rules``; raises ScheduleError unless they are values with the two methods of a rule."""
    if not isinstance(rules, list | tuple):
        raise ScheduleError(f"{rules!r} are no rules", hint="give a tuple of rules")
    for rule in rules:
        _check_rule(rule)
    return tuple(rules)


def _check_rule(rule: Any) -> None:
    methods = callable(getattr(rule, "applies", None)) and callable(getattr(rule, "apply", None))
    if isinstance(rule, type) or not methods or not isinstance(getattr(rule, "eager", None), bool):
        raise ScheduleError(
            f"{rule!r} is no sketch rule",
            hint="give objects with the methods applies and apply, and with eager, True or False",
        )


def ask(rule: SketchRule, state: State, stage: StagePlan) -> Verdict:
    """What ``rule`` says about ``stage``; raises ScheduleError when that is no verdict."""
    where = place_of(rule, stage)
    try:
        verdict: Any = rule.applies(state, stage)
    except _FAULTS as error:
        raise _fault(error, where) from error
    if not isinstance(verdict, Verdict):
        raise ScheduleError(f"{verdict!r} is no verdict", where, "return one of Verdict's")
    return verdict


def offers(rule: SketchRule, state: State, stage: StagePlan) -> tuple[State, ...]:
    """What ``rule`` makes of a state, marked with its name.

    Raises:
        ScheduleError: a step does not fit, the rule's code failed, what it returned are no states,
            an eager rule returned several, or the program grows and grows.
    """
    where, name = place_of(rule, stage), type(rule).__name__
    try:
        found: tuple[Any, ...] = tuple(rule.apply(state, stage))
    except ScheduleError as error:
        raise error.at(where) from error
    except _FAULTS as error:
        raise _fault(error, where) from error
    for successor in found:
        if not isinstance(successor, State):
            raise ScheduleError(f"{successor!r} is no state", where, "return a tuple of states")
        _check_growth(successor, where)
    if rule.eager and len(found) != 1:
        raise ScheduleError(f"an eager rule offers {len(found)} states", where, "return one state")
    if name in state.foreign:
        return found
    return tuple(replace(successor, foreign=(*state.foreign, name)) for successor in found)


def _check_growth(state: State, where: str) -> None:
    dag = state.program.dag
    stages, first = len(state.program.stages), len(dag.stages) + len(dag.inputs)
    if stages > _MOST_GROWTH * first:
        raise ScheduleError(
            f"the program has grown to {stages} stages, from {len(dag.stages)}",
            where,
            "ask stage.roles whether a step has made the stage",
        )


def check_recordable(sketch: Sketch) -> None:
    """Check that logs hold the sketch: each of its decisions is read back as what it is.

    Raises:
        ScheduleError: a decision without a text, with one that no file can hold, with the one that
            another decision is written by, or of a step that a later one took the effect of;
            carries the names of the rules.
    """
    where, decisions = f"rule {', '.join(sketch.rules)}", [item.id for item in sketch.decisions]
    for label in sketch.labels.values():
        if not is_text(label):
            raise ScheduleError(f"a decision is called {label!r}", where, "call it otherwise")
    try:
        steps, written = steps_to_json(sketch.program, sketch.steps, decisions)
        _, found = steps_from_json(sketch.dag, steps, written)
    except ScheduleError as error:
        raise error.at(where) from error
    for decision, other in zip(decisions, found, strict=True):
        if other != decision:
            raise ScheduleError(
                f"logs cannot hold the decision {decision}: it is read as {other}", where,
                "give a LoopDecision a stage and an axis of the program and a plain level",
            )  # fmt: skip


def place_of(rule: SketchRule, stage: StagePlan) -> str:
    """For messages."""
    return f"rule {type(rule).__name__} on stage {stage.op.name}"


def _fault(error: Exception, where: str) -> ScheduleError:
    return ScheduleError(f"{type(error).__name__}: {error}", where, "the rule's code failed")
