"""Ctrl-C while a batch is timed: what was timed of it is kept."""

from __future__ import annotations

import pkgutil
from pathlib import Path
from typing import Any

import pytest

from autosched.measure.errors import BatchInterrupted
from autosched.measure.options import MeasureOptions
from autosched.measure.protocol import Ticket
from autosched.measure.result import Failure, MeasureResult, Timing
from autosched.measure.runner import LocalRunner
from autosched.records.log import RecordLog
from autosched.task import Task
from autosched.tuning.job import TuneJob
from autosched.tuning.options import TuneOptions
from autosched.tuning.run import run_job
from tests.support import faulty_task
from tests.support.fake_runner import FakeRunner
from tests.support.targets import SMALL
from tests.support.workloads import matmul_dag


class InterruptedRunner(FakeRunner):
    """Ctrl-C comes when two candidates of the third batch are timed."""

    def collect(self, ticket: Ticket, best_s: float | None = None) -> list[MeasureResult]:
        results = super().collect(ticket, best_s)
        if len(self.batches) < 3:
            return results
        raise BatchInterrupted(results[:2])


def test_the_log_and_the_result_have_what_was_timed(tmp_path: Path) -> None:
    runner, log = InterruptedRunner(), RecordLog(tmp_path / "log.jsonl")
    job = TuneJob(
        [Task(matmul_dag(), SMALL)], runner=runner, options=TuneOptions(trials=96), log=log
    )
    result = run_job(job)
    count = sum(count for _, count in runner.batches[:2]) + 2
    assert result.interrupted and result.trials == count
    times = [runner.time(candidate).median for _, candidate in runner.measured[:count]]
    assert [record.result.median for record in log.read().records] == times
    assert len(result.records) == count


@pytest.mark.parametrize("where", ["verify_new_best", "Disturbances.undisturbed"])
def test_ctrl_c_after_a_batch_was_timed_keeps_it(
    where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runner, log = FakeRunner(), RecordLog(tmp_path / "log.jsonl")
    place = f"autosched.tuning.loop.{where}"
    usual = pkgutil.resolve_name(f"autosched.tuning.loop:{where}")

    def interrupted(*arguments: Any) -> list[MeasureResult]:
        if len(runner.batches) == 3:
            raise KeyboardInterrupt
        found: list[MeasureResult] = usual(*arguments)
        return found

    monkeypatch.setattr(place, interrupted)
    options = TuneOptions(trials=96, leaders=0)
    result = run_job(TuneJob([Task(matmul_dag(), SMALL)], runner=runner, options=options, log=log))
    count = sum(count for _, count in runner.batches)
    assert len(runner.batches) == 3 and result.interrupted
    assert result.trials == result.tasks[0].trials == len(result.records) == count
    assert len(log.read().records) == count


def test_a_runner_gives_what_it_has(monkeypatch: pytest.MonkeyPatch) -> None:
    with LocalRunner(
        faulty_task.TARGET, MeasureOptions(samples=3, min_sample_s=1e-6), faulty_task.faults.build
    ) as runner:
        measure, timed = runner._timer.measure, list[Any]()

        def interrupted(*arguments: Any) -> MeasureResult:
            if len(timed) == 2:
                raise KeyboardInterrupt
            timed.append(measure(*arguments))
            return timed[-1]

        monkeypatch.setattr(runner._timer, "measure", interrupted)
        batch = [faulty_task.candidate(faulty_task.faults.RIGHT)] * 4
        with pytest.raises(BatchInterrupted) as raised:
            runner.measure(faulty_task.TASK, batch)
    assert len(raised.value.results) == 2
    assert all(isinstance(result, Timing) for result in raised.value.results)


class FailingRunner(FakeRunner):
    """Ctrl-C comes when the first candidate has failed."""

    def collect(self, ticket: Ticket, best_s: float | None = None) -> list[MeasureResult]:
        raise BatchInterrupted([Failure("compile", "LoweringError", "")])


def test_failures_do_not_hide_who_interrupted() -> None:
    job = TuneJob(
        [Task(matmul_dag(), SMALL)], runner=FailingRunner(), options=TuneOptions(trials=96)
    )
    result = run_job(job)
    assert result.interrupted and result.trials == 1
