"""Long logs: no more is kept or parsed of a log than what is asked for."""

from __future__ import annotations

import random
import tracemalloc
from dataclasses import replace

import pytest

from autosched.measure.result import Timing
from autosched.records.errors import RecordError
from autosched.records.log import RecordLog
from autosched.records.reading import parse_lines
from autosched.records.record import Record
from autosched.records.shared import lines_of
from autosched.records.trials import first_measurements, trials_of
from sketch.target.target import Target

ONE = Record(
    "task", Target("cpu", "generic"), "direct", (), {"a": 1, "b": 2}, Timing((1.0,)), time=3.0
)
OTHER = replace(ONE, task="other")


def long_log(count: int) -> bytes:
    rng = random.Random(0)
    times = [tuple(rng.random() + 0.1 for _ in range(10)) for _ in range(count)]
    names = [f"{n}.0@1" for n in range(12)]
    trials = [
        replace(ONE, decisions={name: rng.randrange(2000) for name in names}, result=Timing(own))
        for own in times
    ]
    return b"".join(line + b"\n" for line in lines_of(trials, {}))


def test_reading_takes_little_more_memory_than_the_records() -> None:
    text = long_log(2000)
    tracemalloc.start()
    try:
        found = parse_lines(text, "log")
        kept, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(found.records) == 2000
    assert most < 1.1 * kept


def test_trials_of_other_tasks_are_not_parsed(tmp_path) -> None:
    log = RecordLog(tmp_path / "log.jsonl")
    log.append([ONE, OTHER, ONE, OTHER])
    whole = log.path.read_bytes()
    damaged = [line.replace(b'"seconds"', b'"minutes"') for line in whole.split(b"\n")]
    log.path.write_bytes(b"\n".join(damaged))
    assert len(log.read().warnings) == 4 and len(log.read({"other"}).warnings) == 2
    log.path.write_bytes(whole)
    assert log.read({"other"}).records == (OTHER, OTHER) == log.read({"other"}).records
    assert log.read(set()).records == () == log.read({"third"}).records


@pytest.mark.parametrize("line", [b"null", b"1", b'"text"', b"[]", b"{}"])
def test_a_line_that_is_no_object_is_named(line: bytes) -> None:
    text = b"".join(part + b"\n" for part in [*lines_of([ONE], {}), line])
    found = parse_lines(text, "log")
    assert found.records == (ONE,) and found.warnings[0].startswith("log:4: skipped: ")
    with pytest.raises(RecordError, match="none of its lines is a record"):
        parse_lines(line + b"\n", "log")


def test_of_many_damaged_lines_the_first_are_named() -> None:
    session, sketch, trial = lines_of([ONE], {})
    text = b"\n".join([session, sketch, trial, *[b'{"v": 5'] * 1000, b""])
    *first, last = parse_lines(text, "log").warnings
    assert [w.split(": ")[0] for w in first] == [f"log:{n}" for n in range(4, 12)]
    assert last == "log: skipped: 992 more"


def test_a_trial_written_in_another_order_is_read() -> None:
    session, sketch, trial = lines_of([ONE], {})
    moved = b'{"seed":0,' + trial.replace(b'"seed":0,', b"")[1:]
    assert parse_lines(b"\n".join([moved, sketch, session, b""]), "log").records == (ONE,)


def test_a_line_is_told_apart_from_its_end() -> None:
    session, sketch, trial = lines_of([ONE], {})
    found = parse_lines(b"\n".join([session, sketch, trial, b'{"v": "torn', b""]), "log")
    assert "Unterminated string" in found.warnings[0]


def test_what_is_timed_again_is_no_trial() -> None:
    numbered = [replace(r, trial=n) for n, r in enumerate((ONE, OTHER, replace(ONE, seed=1)), 1)]
    again = replace(ONE, result=Timing((9.0,)), time=5.0)
    records = (*numbered, again, replace(ONE, decisions={"a": 3}), replace(ONE, phase="final"))
    assert first_measurements(records) == [*numbered, records[4]]
    assert [len(task.records) for task in trials_of(records)] == [3, 1]
    assert first_measurements((ONE, again)) == [ONE, again]
