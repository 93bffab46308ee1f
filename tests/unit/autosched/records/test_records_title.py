"""Titles of tasks: written once, for people; records are the same without them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

import autosched as asd
from autosched.cli.app import main
from autosched.measure.result import Timing
from autosched.measure.simulated import SimulatedRunner
from autosched.records.checksum import with_checksum
from autosched.records.log import RecordLog
from autosched.records.merge import merge
from autosched.records.reading import parse_lines
from autosched.records.record import Record, to_json
from autosched.records.rows import row_of
from autosched.records.shared import lines_of
from autosched.records.stats import stats as statistics
from autosched.records.structure import structure
from autosched.records.title import Title, title_line, title_of
from autosched.tasks.spec import TaskSpec
from autosched.tuning.options import QUICK
from codegen.host import host_target
from sketch.target.target import Target
from tests.support.workloads import matmul_dag

CPU = Target("cpu", "generic", threads=2)
TITLE = Title("dense 8x8, 8x8 -> 8x8", 2e6)
ONE = Record("task", CPU, "direct", (), {}, Timing((1e-3,)), title=TITLE)


def test_a_title_has_the_name_and_the_shapes_of_the_largest_arrays() -> None:
    title = title_of(TaskSpec(matmul_dag(4, 8, 16), CPU, "dense"))
    assert title == Title("dense 4x16, 16x8 -> 4x8", 2.0 * 4 * 8 * 16)
    assert title_of(TaskSpec(matmul_dag(4, 8, 16), CPU, "a\x1b[2J" + "b" * 99)).text.isprintable()


def test_tables_name_tasks_sketches_and_trials(tmp_path: Path) -> None:
    task = asd.Task(matmul_dag(8, 8, 8), CPU, "dense")
    for trials in (8, 12):  # the second run goes on
        result = task.tune(trials, tmp_path / "log.jsonl", options=QUICK, runner=SimulatedRunner())
    rows = [row_of(record) for record in result.records if record.phase == "trial"]
    assert [row["trial"] for row in rows] == list(range(1, 13))
    assert {row["name"] for row in rows} == {"dense 8x8, 8x8 -> 8x8"}
    assert {row["flops"] for row in rows} == {2.0 * 8**3}
    assert all(row["gflops"] == pytest.approx(1024e-9 / row["median_s"]) for row in rows)
    predicted = [row["predicted"] for row in rows if row["predicted"] is not None]
    assert predicted and all(value > 0 for value in predicted)
    assert len({row["sketch"] for row in rows}) > 1
    assert all(row["schedule"].startswith("direct: tiled") for row in rows)
    finals = [record for record in result.records if record.phase == "final"]
    assert finals and all(record.trial is None for record in finals)
    (found,) = statistics(asd.RecordLog(tmp_path / "log.jsonl").read().records[5:])
    assert found.best_trial in range(1, 13)


def test_a_title_is_written_once_a_task(tmp_path: Path) -> None:
    log = RecordLog(tmp_path / "log.jsonl")
    log.append([replace(ONE, title=None), ONE, ONE])
    log.append([replace(ONE, title=Title("another", 1.0)), replace(ONE, task="other")])
    assert log.path.read_bytes().count(b'"title"') == 2
    found = log.read()
    assert found.warnings == ()
    assert [record.title for record in found.records] == [TITLE] * 5


def test_merging_keeps_titles(tmp_path: Path) -> None:
    log = RecordLog(tmp_path / "log.jsonl")
    log.append([ONE])
    merge([log.path], tmp_path / "merged.jsonl")
    assert RecordLog(tmp_path / "merged.jsonl").read().records[0].title == TITLE


def test_names_are_no_part_of_a_record() -> None:
    assert replace(ONE, title=None) == ONE
    assert to_json(ONE) == to_json(replace(ONE, title=None))
    assert list(lines_of([ONE], {}))[1:] == list(lines_of([ONE], {}, ["task"]))


@pytest.mark.parametrize(
    "change",
    [{"title": "\x1b[2J"}, {"title": 3}, {"flops": -1.0}, {"flops": "1"}, {"more": 1}, {"task": ""},
     {"crc32": "00000000"}],
)  # fmt: skip
def test_a_damaged_title_costs_the_title_alone(change: dict[str, object]) -> None:
    line, *rest = lines_of([ONE], {})
    data = json.loads(line) | change
    data = data if "crc32" in change else with_checksum(data)
    found = parse_lines(b"\n".join([json.dumps(data).encode(), *rest, b""]), "log")
    assert found.records == (ONE,) and found.records[0].title is None
    assert [warning.split(": ")[:2] for warning in found.warnings] == [["log:1", "skipped"]]


def test_a_title_alone_is_a_log_without_records() -> None:
    line = json.dumps(title_line(4, "task", TITLE)).encode()
    found = parse_lines(line + b"\n", "log")
    assert found.records == () == found.warnings


def test_statistics_and_best_schedules_call_tasks_by_their_titles(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "log.jsonl"
    task = asd.Task(matmul_dag(32, 48, 64), host_target(2), "dense")
    task.tune(trials=6, log=log, options=QUICK, runner=SimulatedRunner())
    (stats,) = statistics(RecordLog(log).read().records)
    assert stats.title == "dense 32x64, 64x48 -> 32x48"
    assert stats.best_s is not None and stats.gflops is not None and stats.best_trial is not None
    assert stats.gflops * stats.best_s == pytest.approx(task.flops / 1e9)
    assert 1 <= stats.best_trial <= 6
    assert main(["records", "stats", str(log)]) == 0
    assert main(["records", "best", str(log)]) == 0
    text = capsys.readouterr().out
    assert text.count("dense 32x64, 64x48 -> 32x48") == 2 and "direct: tiled" in text
    assert task.key not in text and max(map(len, text.splitlines())) <= 150


def test_a_schedule_in_a_few_words() -> None:
    steps = (
        {"kind": "inline", "stage": "0"},
        {"kind": "rfactor", "stage": "1", "parts": 8},
        {"kind": "cache_read", "scope": "shared"},
        {"kind": "cache_read", "scope": "shared"},
        {"kind": "split", "factors": ["0", "1"]},
        {"kind": "split", "factors": [4]},
        {"kind": "reorder"},
    )
    told = structure(replace(ONE, variant="winograd", steps=steps))
    assert told == "winograd: tiled 3, 2 in shared, reduced in 8 parts, 1 inlined"
