"""Rules of users that are wrong: named when something is compiled, failed trials in a tune."""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import pytest

import autosched as asd
from autosched.measure.builder import Builder, build_candidate
from autosched.measure.function_reference import reference_of
from autosched.measure.result import Failure, Timing
from autosched.records.log import RecordLog
from autosched.search.options import SearchOptions
from autosched.system.user_warnings import AutoschedWarning
from autosched.tuning.options import TuneOptions
from sketch.errors import LoweringError, ScheduleError
from sketch.rules.backend import default_rules
from sketch.rules.rule import State, Verdict
from sketch.schedule.program import StagePlan
from sketch.schedule.steps import Annotate, ComputeAt, Reorder, Split

TARGET = asd.Target("cpu", threads=2)


@dataclass(frozen=True)
class SharedSums:
    """Threads share the terms of a sum, and all add to the same elements."""

    eager: ClassVar[bool] = False

    def applies(self, state: State, stage: StagePlan) -> Verdict:
        return Verdict.APPLY if stage.op.reduce_axes else Verdict.SKIP

    def apply(self, state: State, stage: StagePlan) -> tuple[State, ...]:
        first, *rest = stage.op.reduce_axes
        order = [stage.loop(axis) for axis in (first, *stage.op.axes, *rest)]
        steps = Reorder(stage.id, tuple(order)), Annotate(stage.id, order[0], "parallel")
        return (state.then(*steps).done([stage.id]),)


@dataclass(frozen=True)
class Elsewhere(SharedSums):
    """Computes the first stage inside the second, though the third reads it, too."""

    def applies(self, state: State, stage: StagePlan) -> Verdict:
        return Verdict.APPLY if stage is state.program.stages[0] else Verdict.SKIP

    def apply(self, state: State, stage: StagePlan) -> tuple[State, ...]:
        second = state.program.stages[1]
        step = ComputeAt(stage.id, second.id, second.loops()[0])
        return (state.then(step).done([stage.id]),)


@dataclass(frozen=True)
class NoSuchAxis(SharedSums):
    """Splits an axis that is not there."""

    def apply(self, state: State, stage: StagePlan) -> tuple[State, ...]:
        return (state.then(Split(stage.id, stage.axis("nowhere"), (2,))).done([stage.id]),)


def product() -> asd.ComputeDAG:
    a, b = asd.placeholder((24, 16), name="A"), asd.placeholder((16, 20), name="B")
    k = asd.reduce_axis(16, "k")
    return asd.ComputeDAG(
        [asd.compute((24, 20), lambda i, j: asd.sum(a[i, k] * b[k, j], axis=k), name="C")]
    )


def shares() -> asd.ComputeDAG:
    """Elements by the sum of their row: the first stage has two readers."""
    (total,) = product().outputs
    j = asd.reduce_axis(20, "j")
    row = asd.compute(24, lambda i: asd.sum(total[i, j], axis=j), name="R")
    return asd.ComputeDAG([asd.compute((24, 20), lambda i, j: total[i, j] / row[i], name="D")])


def test_what_is_compiled_is_verified_and_the_rule_is_named() -> None:
    task = asd.Task(product(), TARGET, rules=(SharedSums(),))
    for attempt in (task.module, task.compile):
        with pytest.raises(LoweringError, match=r"distributed.*C\.k\.0.*rule SharedSums.*rfactor"):
            attempt()


def test_in_tuning_it_is_a_failure_with_the_message() -> None:
    candidate = asd.Task(product(), TARGET, rules=(SharedSums(),)).draft_candidate()
    builder = Builder(reference_of(build_candidate))
    builder.sketch("key", pickle.dumps(candidate.sketch))
    result = builder.build("key", dict(candidate.values))
    assert isinstance(result, Failure) and result.stage == "lower"
    assert "distributed" in result.message and "SharedSums" in result.message


def test_a_tune_goes_on_with_the_other_sketches(tmp_path: Path) -> None:
    rules = (SharedSums(), *default_rules(TARGET))
    log = tmp_path / "log.jsonl"
    options = TuneOptions(trials=8, search=SearchOptions(population=32, batch_trials=8))
    asd.Task(product(), TARGET, rules=rules).tune(options=options, log=log)
    results = [record.result for record in RecordLog(log).read().records]
    assert any(isinstance(result, Timing) for result in results)
    failures = [result for result in results if isinstance(result, Failure)]
    assert all("SharedSums" in failure.message for failure in failures)


def test_a_sketch_that_cannot_become_loops_is_left_out_by_name() -> None:
    with pytest.warns(AutoschedWarning, match=r"left out.*attached.*rule Elsewhere"):
        sketches = asd.Task(shares(), TARGET, rules=(Elsewhere(), *default_rules(TARGET))).sketches
    assert sketches and not any("Elsewhere" in sketch.rules for sketch in sketches)


def test_a_rule_that_fails_is_named() -> None:
    task = asd.Task(product(), TARGET, rules=(NoSuchAxis(), *default_rules(TARGET)))
    with pytest.raises(ScheduleError, match=r"no axis 'nowhere'.*rule NoSuchAxis on stage C"):
        _ = task.sketches
