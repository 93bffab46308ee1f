"""A task of which nothing runs is no reason not to tune the others."""

from __future__ import annotations

import pytest

from autosched.measure.result import Failure, MeasureResult
from autosched.search.options import SearchOptions
from autosched.system.errors import TuningError
from autosched.task import Task
from autosched.tasks.candidate import Candidate
from autosched.tuning.job import TuneJob
from autosched.tuning.options import TuneOptions
from autosched.tuning.run import run_job
from tests.support.fake_runner import FakeRunner
from tests.support.targets import SMALL
from tests.support.workloads import matmul_dag

OPTIONS = TuneOptions(
    trials=64, task_trials=8, search=SearchOptions(population=256, generations=1, sketch_rows=64)
)
FAILED = Failure("compile", "CodegenError", "this cannot be compiled")


def tasks() -> tuple[Task, Task]:
    """The heavier comes first."""
    return Task(matmul_dag(64, 64, 64), SMALL, "big"), Task(matmul_dag(), SMALL, "small")


def test_others_are_tuned_after_a_task_has_used_up_its_trials() -> None:
    big, small = tasks()

    def rule(candidate: Candidate) -> MeasureResult | None:
        return FAILED if candidate.sketch.dag.key == big.key else None

    runner = FakeRunner(rule)
    result = run_job(TuneJob([big, small], runner=runner, options=OPTIONS))
    assert [task.best is None for task in result.tasks] == [True, False]
    assert sum(count for key, count in runner.batches if key == big.key) == 8


def test_where_nothing_at_all_runs_every_task_was_tried() -> None:
    runner = FakeRunner(lambda candidate: FAILED)
    with pytest.raises(TuningError, match="candidates ran"):
        run_job(TuneJob(tasks(), runner=runner, options=OPTIONS))
    assert {key for key, _ in runner.batches} == {task.key for task in tasks()}
