"""What measured programs say about their neighbours, as the search asks for it."""

from __future__ import annotations

import math

import numpy as np
import pytest

from autosched.measure.result import Failure, Timing
from autosched.search.learner import Learner
from autosched.search.options import LearnerOptions
from autosched.search.task_process import TaskProcess
from autosched.tasks.candidate import Candidate
from autosched.workloads.builtin import get
from costmodel.extract import draft_seconds
from costmodel.gbdt import GradientBoostedModel
from costmodel.gbdt_options import GbdtOptions
from costmodel.model import DraftModel
from sketch.population.population import Population, sample
from sketch.rules.generate import generate
from sketch.target.target import Target

TARGET = Target("cpu", "znver4", threads=2)


@pytest.fixture(scope="module")
def rows() -> Population:
    sketch = generate(get("GMM").task(1, 64, 64, 64, target=TARGET).dag, TARGET)[0]
    return sample(sketch, 400, np.random.default_rng(0))


def told(process: TaskProcess, rows: Population, slower: float = 1.0) -> None:
    """As the draft has it, but for a factor."""
    seconds = (slower * draft_seconds(rows)).tolist()
    process.tell(
        [Candidate(rows.sketch, rows.row(n)) for n in range(rows.count)],
        [Timing((time,)) for time in seconds],
    )


def test_it_is_silent_until_something_is_known(rows: Population) -> None:
    process = TaskProcess()
    assert process.errors(rows) is None
    process.tell([Candidate(rows.sketch, rows.row(0))] * 9, [Failure("run", "SIGSEGV", "")] * 9)
    assert process.errors(rows) is None
    told(process, rows.take(np.arange(4)), slower=2.0)
    found = process.errors(rows)
    assert found is not None
    np.testing.assert_allclose(found, math.log(2.0), atol=1e-6)


def test_a_machine_that_was_slower_is_taken_off(rows: Population) -> None:
    process = TaskProcess()
    told(process, rows.take(np.arange(8)), slower=2.0)
    process.scale(0.5)
    found = process.errors(rows)
    assert found is not None
    np.testing.assert_allclose(found, 0.0, atol=1e-6)


def test_without_the_draft_it_is_about_times(rows: Population) -> None:
    process = TaskProcess(draft=False)
    few = rows.take(np.arange(32))
    told(process, few)
    found = process.errors(few)
    assert found is not None
    np.testing.assert_allclose(found, np.log(draft_seconds(few)), atol=0.1)


def test_of_many_programs_the_fastest_and_the_newest_count(rows: Population) -> None:
    process = TaskProcess()
    told(process, rows)
    chosen = process._chosen()
    assert chosen == sorted(set(chosen)) and len(chosen) == 256
    assert set(range(rows.count - 128, rows.count)) <= set(chosen)
    order = np.argsort(draft_seconds(rows.take(np.arange(rows.count - 128))), kind="stable")
    assert set(order[:128].tolist()) <= set(chosen)


class Greedy(DraftModel):
    """A model that wants more than there is."""

    process_share = 3.0


def test_a_model_says_what_share_a_process_has(rows: Population) -> None:
    few = rows.take(np.arange(12))
    candidates = [Candidate(rows.sketch, few.row(n)) for n in range(few.count)]
    bent = draft_seconds(few) * np.exp(np.log2(few.values + 1.0)[:, 0])
    scores = {}
    for share in (0.0, 0.5, 1.0):
        learner = Learner(GradientBoostedModel(GbdtOptions(process_share=share)))
        learner.tell("task", candidates, [Timing((float(s),)) for s in bent])
        scores[share] = np.log(learner.scorer("task").score(rows))
        learner.scale("task", 3.0)
        np.testing.assert_allclose(
            np.log(learner.scorer("task").score(rows)) - scores[share],
            share * math.log(3.0), atol=1e-6,
        )  # fmt: skip
    np.testing.assert_allclose(scores[0.0], np.log(draft_seconds(rows)), atol=1e-6)
    np.testing.assert_allclose(scores[0.5], (scores[0.0] + scores[1.0]) / 2, atol=1e-6)
    assert not np.allclose(scores[1.0], scores[0.0], atol=0.1)
    options = LearnerOptions(process=False)
    learner = Learner(GradientBoostedModel(), options=options)
    learner.tell("task", candidates, [Timing((float(s),)) for s in bent])
    np.testing.assert_allclose(learner.scorer("task").score(rows), draft_seconds(rows))
    learner = Learner(Greedy())
    assert "process_share is 3.0" in learner.faults[0]
    np.testing.assert_allclose(learner.scorer("task").score(rows), draft_seconds(rows))
