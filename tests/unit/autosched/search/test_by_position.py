"""Records by name and by position of one candidate are records of one candidate."""

from dataclasses import replace
from pathlib import Path

import pytest

from autosched.measure.result import WRONG_RESULT, Failure, Timing
from autosched.records.log import RecordLog
from autosched.records.record import record_of
from autosched.search.by_position import by_position
from autosched.search.recall import best_of, recall, usable
from autosched.tasks.spec import TaskSpec
from sketch.dag.dag import ComputeDAG
from sketch.lang.reducers import sum as sum_
from sketch.lang.tensor import compute, placeholder, reduce_axis

OLD_LOGS = Path(__file__).parents[3] / "records"


def row_sum():
    a, k = placeholder((4, 1000), name="a"), reduce_axis(1000)
    return ComputeDAG([compute((4,), lambda i: sum_(a[i, k], axis=k), name="s")])


@pytest.fixture(params=[1, 2, 3])
def old(request):
    """Records by name of two candidates, the first twice as fast, and their task."""
    records = RecordLog(OLD_LOGS / f"schema_v{request.param}.jsonl").read().records
    record = next(r for r in records if r.task == row_sum().key)
    task = TaskSpec(row_sum(), record.target)
    name, value = next(iter(record.decisions.items()))
    other = replace(record, decisions={**record.decisions, name: 2 if value == 1 else 1})
    bursts = [replace(record, result=took(1.0)), replace(other, result=took(2.0))]
    return task, [replace(burst, phase="trial", time=1.0) for burst in bursts]


def took(milliseconds):
    return Timing((milliseconds / 1e3,) * 5, "warm")


def again(task, record, result):
    """What a session of today writes of the same candidate."""
    candidate = record.candidate(task.variant(record.variant).dag)
    return record_of(task.key, candidate, task.target, result, phase="final", time=2.0)


def test_old_records_have_the_keys_of_todays(old):
    task, bursts = old
    todays = [again(task, burst, burst.result) for burst in bursts]
    found = by_position(task, bursts)
    assert [r.candidate_key for r in found] == [r.candidate_key for r in todays]
    assert [r.result for r in found] == [r.result for r in bursts]


def test_what_is_found_wrong_later_is_not_chosen_for_its_old_time(old):
    task, bursts = old
    wrong = Failure("verify", WRONG_RESULT, "max error 1")
    records = [*bursts, again(task, bursts[0], wrong)]
    assert best_of(task, records).seconds == pytest.approx(2e-3)
    assert [item.seconds for item in usable(task, records)] == pytest.approx([2e-3])
    history = recall(task, records)
    assert len(history.candidates) == 2
    assert history.results == (wrong, bursts[1].result)


def test_a_new_timing_replaces_the_old_burst_of_its_candidate(old):
    task, bursts = old
    records = [*bursts, *(again(task, burst, took(3.0 - n)) for n, burst in enumerate(bursts))]
    assert best_of(task, records).seconds == pytest.approx(2e-3)
    assert len(recall(task, records).candidates) == 2


def test_old_records_that_do_not_replay_stay_and_are_warned_of(old):
    task, bursts = old
    more = replace(bursts[0], decisions={**bursts[0].decisions, "no.such@1": 1})
    assert by_position(task, [more]) == [more]
    assert len(recall(task, [more]).warnings) == 1


def test_names_are_not_taken_for_positions(old):
    task, bursts = old
    today = again(task, bursts[0], bursts[0].result)
    altered = replace(today, by_name=True, where="log:2")
    assert altered.candidate_key != today.candidate_key
    history = recall(task, [today, altered])
    assert len(history.candidates) == 1
    assert [warning.startswith("log:2: ") for warning in history.warnings] == [True]
