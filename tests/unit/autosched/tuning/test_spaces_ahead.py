"""Spaces that the runner's processes build: the log is the same, whoever builds them."""

from __future__ import annotations

from concurrent.futures import Future
from pathlib import Path

from autosched.measure.function_reference import resolve
from autosched.measure.simulated import SimulatedRunner
from autosched.records.log import RecordLog
from autosched.search.options import SearchOptions
from autosched.search.space_options import SpaceOptions
from autosched.task import Task
from autosched.tuning.job import TuneJob
from autosched.tuning.options import TuneOptions
from autosched.tuning.run import run_job
from autosched.tuning.spaces_ahead import SpacesAhead
from tests.support.targets import SMALL
from tests.support.workloads import matmul_dag

SPACE = SpaceOptions(rows=32)
SEARCH = SearchOptions(population=64, generations=1, sketch_rows=32, space=SPACE)
OPTIONS = TuneOptions(trials=9, finish_share=0.0, search=SEARCH)


class Worker(SimulatedRunner):
    """Does what is asked in the background, at once or never."""

    def __init__(self, fails: bool = False) -> None:
        super().__init__()
        self.asked = 0
        self._fails = fails

    def in_background(self, function: str, payload: bytes) -> Future[bytes | None]:
        self.asked += 1
        done: Future[bytes | None] = Future()
        done.set_result(None if self._fails else resolve(function)(payload))
        return done


def tasks(count: int) -> list[Task]:
    return [Task(matmul_dag(8 * n, 16, 16), SMALL) for n in range(1, count + 1)]


def log_of(runner: SimulatedRunner, path: Path) -> bytes:
    job = TuneJob(tasks(3), options=OPTIONS, log=RecordLog(path), runner=runner, now=lambda: 0.0)
    run_job(job)
    return path.read_bytes()


def test_the_log_is_the_same_whoever_builds_the_spaces(tmp_path: Path) -> None:
    runners = SimulatedRunner(), Worker(), Worker(fails=True)
    logs = [log_of(runner, tmp_path / f"{n}.jsonl") for n, runner in enumerate(runners)]
    assert logs[0] == logs[1] == logs[2]
    assert [runner.asked for runner in runners if isinstance(runner, Worker)] == [2, 2]


def test_few_are_on_their_way_and_each_is_built_once() -> None:
    worker = Worker(fails=True)
    spaces = SpacesAhead(worker, tasks(8), SPACE)
    spaces.finish(0)
    spaces.begin(range(8))
    assert worker.asked == 4
    spaces.begin(range(8))
    assert worker.asked == 4
    for index in (1, 2):
        spaces.finish(index)
    spaces.begin(range(8))
    assert worker.asked == 6
