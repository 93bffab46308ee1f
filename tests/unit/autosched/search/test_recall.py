"""What a log with several records of a candidate says of it to a search."""

from __future__ import annotations

import math

import numpy as np
import pytest

from autosched.measure.result import WRONG_RESULT, Failure, MeasureResult, Timing
from autosched.records.record import Phase, record_of
from autosched.search.recall import recall
from autosched.tasks.candidate import Candidate
from autosched.workloads.builtin import get
from codegen.host import host_target
from sketch.population.population import sample

TASK = get("GMM").task(1, 8, 8, 8, target=host_target(1))
CRASH, WRONG = Failure("run", "SIGKILL", ""), Failure("verify", WRONG_RESULT, "")

Outcome = tuple[Phase, MeasureResult]


@pytest.mark.parametrize(
    ("outcomes", "seconds"),
    [
        ([("trial", Timing((2.0,))), ("final", Timing((1.9,)))], 2.0),
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


@pytest.mark.parametrize(("again", "before"), [(4.0, [4.0, 6.0]), (2.1, [2.0, 3.0])])
def test_results_are_in_the_times_of_the_machine_that_was_last(
    again: float, before: list[float]
) -> None:
    rng = np.random.default_rng(0)
    sketch = TASK.draft_candidate().sketch
    rows = sample(sketch, 32, rng)
    drawn = [Candidate(sketch, rows.row(n)) for n in range(rows.count)]
    candidates = list({candidate.key: candidate for candidate in drawn}.values())[:3]
    told: list[tuple[int, Phase, float]] = [
        (0, "trial", 2.0), (1, "trial", 3.0), (0, "final", again), (2, "trial", 5.0),
    ]  # fmt: skip
    records = [
        record_of(TASK.key, candidates[n], TASK.target, Timing((s,)), phase=phase, time=float(t))
        for t, (n, phase, s) in enumerate(told)
    ]
    found = recall(TASK, records)
    seconds = {
        candidate.key: result.median
        for candidate, result in zip(found.candidates, found.results, strict=True)
        if isinstance(result, Timing)
    }
    assert [seconds[candidate.key] for candidate in candidates] == [*before, 5.0]
