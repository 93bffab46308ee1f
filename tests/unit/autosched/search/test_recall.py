"""What a log with several records of a candidate says of it to a search."""

from __future__ import annotations

import math

import pytest

from autosched.measure.result import WRONG_RESULT, Failure, MeasureResult, Timing
from autosched.records.record import Phase, record_of
from autosched.search.recall import recall
from autosched.workloads.builtin import get
from codegen.host import host_target

TASK = get("GMM").task(1, 8, 8, 8, target=host_target(1))
CRASH, WRONG = Failure("run", "SIGKILL", ""), Failure("verify", WRONG_RESULT, "")

Outcome = tuple[Phase, MeasureResult]


@pytest.mark.parametrize(
    ("outcomes", "seconds"),
    [
        ([("trial", Timing((2.0,))), ("final", Timing((1.5,)))], 2.0),
        ([("trial", Timing((2.0,))), ("trial", Timing((1.5,)))], 1.5),
        ([("trial", Timing((2.0,))), ("trial", Timing((2.5,)))], 2.0),
        ([("trial", CRASH), ("trial", Timing((2.0,)))], 2.0),
        ([("trial", Timing((2.0,))), ("final", CRASH)], math.inf),
        ([("trial", Timing((2.0,))), ("final", WRONG), ("trial", Timing((2.0,)))], math.inf),
    ],
)
def test_the_last_outcome_and_the_fastest_burst_count(
    outcomes: list[Outcome], seconds: float
) -> None:
    candidate = TASK.draft_candidate()
    records = [
        record_of(TASK.key, candidate, TASK.target, result, phase=phase)
        for phase, result in outcomes
    ]
    found = recall(TASK, records)
    (result,) = found.results
    assert (result.median if isinstance(result, Timing) else math.inf) == seconds
    assert math.isinf(found.best_s) == math.isinf(seconds)
