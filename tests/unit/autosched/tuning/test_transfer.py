"""What a task of a run begins with: the best schedules of other tasks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import autosched as asd
from autosched.cli.app import main
from autosched.measure.result import Timing
from autosched.measure.simulated import SimulatedRunner
from autosched.records.errors import RecordError
from autosched.records.log import RecordLog
from autosched.records.record import Record, record_of
from autosched.records.title import title_of
from autosched.search.learner import Learner
from autosched.search.nearest import bests_of_tasks, nearest, rescaled
from autosched.search.space import space_of
from autosched.task import Task
from autosched.tasks.candidate import Candidate
from autosched.tuning.job import TuneJob
from autosched.tuning.options import TuneOptions
from autosched.tuning.run import run_job
from autosched.tuning.task_progress import Turn
from autosched.tuning.task_run import TaskRun
from autosched.tuning.transfer import Transfer
from sketch.schedule.sketch import Sketch
from tests.support.targets import SMALL
from tests.support.workloads import conv2d_relu

OPTIONS = TuneOptions(task_trials=12, finish_share=0.0, leaders=0)


@cache
def conv(channels: int) -> Task:
    return Task(conv2d_relu(channels=channels), SMALL, f"conv{channels}", weight=1 / channels)


def records_of(
    tasks: list[Task], options: TuneOptions = OPTIONS, examples: tuple[Record, ...] = ()
) -> tuple[Record, ...]:
    job = TuneJob(tasks, options=options, examples=examples, runner=SimulatedRunner())
    return run_job(job).records


def first_keys(records: tuple[Record, ...], task: Task, count: int) -> set[object]:
    mine = [record for record in records if record.task == task.key][:count]
    return {record.candidate(task.variant(record.variant).dag).key for record in mine}


def test_a_task_begins_with_the_best_of_an_example() -> None:
    source, task = conv(8), conv(16)
    rows = space_of(source).samples[-1]
    odd = Candidate(rows.sketch, rows.row(rows.count - 1))  # nothing would propose it soon
    result = Timing((1e-6,), "warm")
    examples = (record_of(source.key, odd, SMALL, result, title=title_of(source)),)
    wanted = {c.key for c in nearest(task, bests_of_tasks(examples), 2)}
    assert wanted and wanted <= first_keys(records_of([task], examples=examples), task, 3)
    without = replace(OPTIONS, search=replace(OPTIONS.search, transferred=0))
    assert not wanted <= first_keys(records_of([task], without, examples), task, 3)


def test_the_favourite_of_the_draft_comes_first() -> None:
    task = conv(16)
    examples = records_of([conv(8)])
    first = next(r for r in records_of([task], examples=examples) if r.task == task.key)
    favourite = space_of(task).draft_candidate()
    assert first.candidate(task.variant(first.variant).dag).key == favourite.key


def test_tasks_of_one_run_help_each_other() -> None:
    tasks = [conv(channels) for channels in (4, 8, 12, 16)]
    records = records_of(tasks)
    last = next(r.task for r in reversed(records) if r.trial == 1)
    (task,) = (task for task in tasks if task.key == last)
    began = next(n for n, r in enumerate(records) if r.task == last)
    before = [r for r in records[:began] if isinstance(r.result, Timing)]
    keys = {found.key for r in before if (found := rescaled(task, r)) is not None}
    assert first_keys(records, task, 3) & keys


def test_a_faster_machine_does_not_hide_the_best_of_this_one() -> None:
    source, task = conv(8), conv(16)
    own = records_of([source])
    wide = replace(source.target, vector_bytes=64, registers=32)
    foreign = [
        replace(r, target=wide, result=Timing((1e-12,)))
        for r in own
        if isinstance(r.result, Timing)
    ]
    transfer = Transfer((), 2)
    transfer.note(own)
    expected = [candidate.key for candidate in transfer.seeds(task)]
    transfer.note(foreign)
    assert expected and expected[0] == transfer.seeds(task)[0].key


def test_a_task_that_is_resumed_goes_on(tmp_path: Path) -> None:
    source, task = conv(8), conv(16)
    log = RecordLog(tmp_path / "log.jsonl")
    run_job(TuneJob([task], options=OPTIONS, log=log, runner=SimulatedRunner()))
    more = replace(OPTIONS, task_trials=16)
    examples = records_of([source])
    run_job(TuneJob([task], options=more, log=log, examples=examples, runner=SimulatedRunner()))
    wanted = {c.key for c in nearest(task, bests_of_tasks(examples), 2)}
    added = log.read().records[12:]
    assert not wanted & {r.candidate(task.dag).key for r in added if r.variant == "direct"}


def test_examples_must_be_there(tmp_path: Path) -> None:
    net = asd.zoo.build("mlp", image=4)
    with pytest.raises(RecordError, match="there is no such log"):
        asd.tune(net, trials=2, examples=[tmp_path / "none.jsonl"], quiet=True)


def test_the_command_line_has_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("autosched.measure.runner.LocalRunner", lambda *_: SimulatedRunner())
    one, two = tmp_path / "one.jsonl", tmp_path / "two.jsonl"
    line = "tune --workload GMM --threads 1 --trials 4 --quiet --args n={0},m={0},k={0} --log {1}"
    assert main(line.format(16, one).split()) == 0
    assert main([*line.format(32, two).split(), "--examples", str(one)]) == 0
    assert len(RecordLog(two).read().records) >= 4


def test_others_are_not_asked_where_much_is_known() -> None:
    task, asked = conv(16), list[str]()

    def others(task: Task, known: Sequence[Sketch]) -> tuple[Candidate, ...]:
        asked.append(task.name)
        return ()

    rng = np.random.default_rng(0)
    (known,) = TaskRun(task, Learner(None), OPTIONS, rng).ask(Turn(0, 1))
    run = TaskRun(task, Learner(None), OPTIONS, rng, others)
    run.tell([known], [Timing((1.0,))])
    assert run.ask(Turn(0, 2)) and not asked
    run.restrict(1.0)
    assert run.ask(Turn(0, 2)) and not asked
