"""The runners that compile nothing keep what every runner promises; the local runner has tests of
its own.
"""

from __future__ import annotations

import numpy as np
import pytest

from autosched.measure.protocol import Runner
from autosched.measure.replay import NOT_RECORDED, ReplayRunner
from autosched.measure.result import Failure, Timing
from autosched.measure.simulated import SimulatedRunner
from autosched.search.random_search import RandomPolicy
from autosched.system.errors import OptionError
from autosched.tasks.candidate import Candidate
from autosched.testing import RunnerConformance
from autosched.testing.programs import large_task

TASK = large_task()
BATCH = RandomPolicy(TASK.space, np.random.default_rng(0)).ask(12)


class TestSimulated(RunnerConformance):
    def make(self) -> Runner:
        return SimulatedRunner(seed=3)

    def test_times_do_not_depend_on_the_best(self) -> None:
        runner = self.make()
        assert runner.measure(TASK, BATCH) == runner.measure(TASK, BATCH, best_s=1e-12)

    def test_seeds_and_noise_change_times(self) -> None:
        times = [
            [r.median for r in SimulatedRunner(**k).measure(TASK, BATCH)]
            for k in ({"seed": 0}, {"seed": 1}, {"noise": 0.3}, {"bias": 0.0, "noise": 0.0})
        ]
        assert len({tuple(t) for t in times}) == 4

    def test_without_bias_and_noise_it_is_the_draft_model(self) -> None:
        best = Candidate(TASK.sketches[0], TASK.space.samples[0].row(0))
        (result,) = SimulatedRunner(bias=0, noise=0).measure(TASK, [best])
        assert result.median == pytest.approx(TASK.space.drafts[0][0])

    def test_some_fail(self) -> None:
        results = SimulatedRunner(failure_share=0.5).measure(TASK, BATCH)
        assert 0 < sum(isinstance(r, Failure) for r in results) < len(BATCH)

    @pytest.mark.parametrize("wrong", [{"bias": -1}, {"noise": -0.1}, {"failure_share": 2}])
    def test_machines_that_make_no_sense(self, wrong: dict[str, float]) -> None:
        with pytest.raises(OptionError, match="no machine"):
            SimulatedRunner(**wrong)


class TestReplay(RunnerConformance):
    def make(self) -> Runner:
        table = {c.key: Timing((1e-3 * (n + 1),), error=1e-7) for n, c in enumerate(BATCH)}
        table[BATCH[2].key] = Failure("run", "SIGSEGV", "crash")
        table[BATCH[3].key] = Timing((1.0,))
        return ReplayRunner({TASK.key: table})

    def test_answers_do_not_depend_on_the_best(self) -> None:
        assert self.make().measure(TASK, BATCH) == self.make().measure(TASK, BATCH, best_s=1e-12)

    def test_answers_with_the_record(self) -> None:
        results = self.make().measure(TASK, BATCH)
        assert results[0] == Timing((1e-3,), error=1e-7)
        assert results[2] == Failure("run", "SIGSEGV", "crash")
        assert self.make().verify(TASK, BATCH[0]) == 1e-7
        assert self.make().verify(TASK, BATCH[3]) == 0.0

    def test_what_was_not_recorded_is_a_failure(self) -> None:
        (other,) = RandomPolicy(TASK.space, np.random.default_rng(9)).ask(1)
        (result,) = self.make().measure(TASK, [other])
        assert isinstance(result, Failure) and result.kind == NOT_RECORDED
        assert other.sketch.key in result.message
        (foreign,) = ReplayRunner({}).measure(TASK, BATCH[:1])
        assert isinstance(foreign, Failure) and TASK.key in foreign.message
