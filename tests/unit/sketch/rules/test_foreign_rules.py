"""Rules whose code is wrong: one error of ours that names them, whatever they do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sketch.errors import AutoschedError, ScheduleError
from sketch.rules.backend import default_rules
from sketch.rules.generate import generate
from sketch.rules.rule import Verdict
from sketch.schedule.decision import LoopDecision
from sketch.schedule.loop import LoopId
from sketch.schedule.stage import InputId, StageId
from sketch.schedule.steps import STEP_KINDS, CacheWrite, Split
from tests.support.targets import AVX512
from tests.support.workloads import matmul_dag


@dataclass(frozen=True)
class Odd:
    """Answers what it is told to."""

    offer: Callable[[Any, Any], Any]
    verdict: Any = Verdict.APPLY
    eager: Any = False

    def applies(self, state: Any, stage: Any) -> Any:
        return self.verdict

    def apply(self, state: Any, stage: Any) -> Any:
        return self.offer(state, stage)


def for_ever(state: Any, stage: Any) -> Any:
    return for_ever(state, stage)


def grow(state: Any, stage: Any) -> Any:
    return (state.then(CacheWrite(StageId(0))).done([stage.id]),)


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        (Odd(lambda state, stage: None), "TypeError: 'NoneType' object is not iterable"),
        (Odd(lambda state, stage: (3,)), "3 is no state"),
        (Odd(lambda state, stage: 1 / 0), "ZeroDivisionError"),
        (Odd(lambda state, stage: stage.op.name.axes), "AttributeError"),
        (Odd(lambda state, stage: {}["k"]), "KeyError"),
        (Odd(for_ever), "RecursionError"),
        (Odd(lambda state, stage: (state.then(None),)), "None is no step"),
        (Odd(lambda state, stage: (), None), "None is no verdict"),
        (Odd(lambda state, stage: (), Verdict.APPLY_AND_STOP, True), "an eager rule offers 0"),
    ],
)
def test_the_error_names_the_rule(rule: Odd, message: str) -> None:
    for rules in ((rule,), (rule, *default_rules(AVX512))):
        with pytest.raises(ScheduleError, match=rf"{message}.*rule Odd on stage C"):
            generate(matmul_dag(), AVX512, rules)


def test_a_program_that_grows_and_grows() -> None:
    with pytest.raises(ScheduleError, match=r"has grown to 25 stages, from 1.*rule Odd"):
        generate(matmul_dag(), AVX512, (Odd(grow),))


@pytest.mark.parametrize("rules", [(None,), ("abc",), (Odd,), 3, "abc", (Odd(grow, eager=None),)])
def test_what_is_no_rule(rules: Any) -> None:
    with pytest.raises(ScheduleError, match=r"no sketch rule|are no rules"):
        generate(matmul_dag(), AVX512, rules)


def test_exceptions_that_are_not_about_the_rule_pass() -> None:
    def interrupted(state: Any, stage: Any) -> Any:
        raise TimeoutError("from a signal handler")

    with pytest.raises(TimeoutError):
        generate(matmul_dag(), AVX512, (Odd(interrupted),))


C = StageId(0)
ODD_LOOPS = [LoopId(0, 0), (LoopId(0, 0),), LoopId(None, 9), "i.0"]  # type: ignore[arg-type]
ODD_PLACES = ["", "C", C, StageId(C), InputId(0), InputId(7), *ODD_LOOPS]
ODD_VALUES = [None, 1, -1, 2.5, float("nan"), *ODD_PLACES, (), (None,), (2.5,), [], {}]


@settings(max_examples=150, deadline=None, derandomize=True)
@given(st.sampled_from(STEP_KINDS), st.data())
def test_steps_with_any_fields_are_refused_with_our_error(kind: Any, data: st.DataObject) -> None:
    values = [data.draw(st.sampled_from(ODD_VALUES)) for _ in fields(kind)]
    rule = Odd(lambda state, stage: (state.then(kind(*values)).done([stage.id]),))
    try:
        generate(matmul_dag(), AVX512, (rule, *default_rules(AVX512)))
    except AutoschedError as error:
        assert "rule Odd" in str(error)


def tiled_by(*decisions: Any) -> Callable[[Any, Any], Any]:
    """Splits each of the first axes by a decision."""

    def offer(state: Any, stage: Any) -> Any:
        steps = [Split(stage.id, axis, (decision,)) for axis, decision in enumerate(decisions)]
        return (state.then(*steps).done([stage.id]),)

    return offer


@pytest.mark.parametrize(
    "decision",
    ["", "\ud800", LoopDecision(C, 0, "a@b.c"), LoopDecision(C, 9, "1"), "0.1@rows"],
)
def test_a_decision_that_no_log_can_hold_is_refused(decision: Any) -> None:
    rule = Odd(tiled_by(LoopDecision(C, 0, "1"), decision), Verdict.APPLY_AND_STOP)
    with pytest.raises(ScheduleError, match="rule Odd"):
        generate(matmul_dag(), AVX512, (rule,))


@pytest.mark.parametrize("decision", ["width", "größe\u2028", "7", "%2E@", "C.j@rows"])
def test_free_meanings_and_printed_decisions_are_taken(decision: str) -> None:
    rule = Odd(tiled_by(LoopDecision(C, 0, "1"), decision), Verdict.APPLY_AND_STOP)
    (sketch,) = generate(matmul_dag(), AVX512, (rule,))
    assert list(sketch.labels.values()) == ["C.i@1", decision]
