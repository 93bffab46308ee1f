"""Candidates are dropped early next to the best that the caller may use."""

from __future__ import annotations

import math

import pytest

from autosched.measure.options import MeasureOptions
from autosched.measure.result import MeasureResult, Timing
from autosched.measure.runner import LocalRunner
from autosched.tasks.candidate import Candidate
from autosched.workloads.builtin import get
from codegen.host import host_target


@pytest.mark.parametrize(
    ("told", "expected"), [(2.0, 2.0), (math.inf, math.inf), (None, 1.0), (0.5, 0.5)]
)
def test_the_best_is_what_the_caller_says(
    monkeypatch: pytest.MonkeyPatch, told: float | None, expected: float
) -> None:
    """Not what the runner has seen of a variant that may not be used."""
    task = get("GMM").task(1, 8, 8, 8, target=host_target(1))
    candidate = task.draft_candidate()
    asked: list[float] = []

    def measure(state: object, one: Candidate, kernel: bytes, best_s: float) -> MeasureResult:
        asked.append(best_s)
        return Timing((3.0,) if len(asked) > 1 else (1.0,))

    with LocalRunner(task.target, MeasureOptions(check="none")) as runner:
        monkeypatch.setattr(runner._timer, "measure", measure)
        monkeypatch.setattr(runner._timer, "prepare", lambda *_: None)
        runner.measure(task, [candidate])
        runner.measure(task, [candidate], told)
    assert asked == [math.inf, expected]
