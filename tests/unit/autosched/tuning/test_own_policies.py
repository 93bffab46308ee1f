"""Policies of users that do not keep to the protocol do not break the limits of a run."""

from __future__ import annotations

import numpy as np

from autosched.search.measured import Measured
from autosched.search.options import SearchOptions
from autosched.search.random_search import RandomPolicy
from autosched.search.scorer import Scorer
from autosched.search.space import Space
from autosched.tasks.candidate import Candidate
from autosched.tuning.job import TuneJob
from autosched.tuning.options import TuneOptions
from autosched.tuning.run import run_job
from autosched.workloads.builtin import get
from tests.support.fake_runner import FakeRunner
from tests.support.targets import SMALL


class Generous(RandomPolicy):
    """Gives three times what it is asked for."""

    def ask(self, count: int) -> list[Candidate]:
        return super().ask(3 * count)


def generous(space: Space, scorer: Scorer, rng: np.random.Generator, known: Measured) -> Generous:
    return Generous(space, rng, known)


def test_more_candidates_than_were_asked_for_are_not_measured() -> None:
    runner = FakeRunner()
    task = get("GMM").task(1, 64, 64, 64, target=SMALL)
    options = TuneOptions(trials=20, leaders=0, search=SearchOptions(policy=generous))
    assert run_job(TuneJob([task], options=options, runner=runner)).trials == 20
    assert len(runner.measured) == 20
