"""Curves of latency against seconds of tuning, from logs: no clock is looked at."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest

from autosched import zoo
from autosched.measure.result import Failure, Timing
from autosched.measure.simulated import SimulatedRunner
from autosched.records.log import RecordLog
from autosched.records.record import Record
from autosched.runtime.module import Module
from autosched.search.options import SearchOptions
from autosched.tuning.job import TuneJob
from autosched.tuning.options import TuneOptions
from benchmarks.time_to_quality import Point, curve, draw, measure, seconds_within
from codegen.host import host_target
from sketch.target.target import Target

TARGET = Target("cpu", "generic", threads=2)
SEARCH = SearchOptions(population=128, generations=1)


def record(task: str, now: float, seconds: float | None, final: bool = False) -> Record:
    result = Failure("run", "SIGSEGV", "") if seconds is None else Timing((seconds,))
    phase = "final" if final else "trial"
    return Record(task, TARGET, "direct", (), {}, result, phase, time=now)  # type: ignore[arg-type]


def test_the_curve_is_the_weighted_sum_of_the_best_so_far() -> None:
    log = [
        record("a", 101, 4.0), record("a", 101, 3.0), record("b", 102, None),
        record("b", 103, 10.0), record("a", 105, 5.0), record("a", 108, 2.0),
        record("a", 109, 0.5, final=True),
    ]  # fmt: skip
    points = curve(log, {"a": 2.0, "b": 1.0}, 100.0)
    assert points == [Point(3, 4, 16.0), Point(5, 5, 16.0), Point(8, 6, 14.0)]
    assert seconds_within(points, 0.2) == 3 and seconds_within(points, 0.1) == 8
    assert seconds_within([], 0.1) is None


@pytest.mark.slow
def test_a_run_is_compiled_again_at_its_checkpoints(tmp_path: Path) -> None:
    compiled: list[int] = []

    def timings(modules: Sequence[Module]) -> list[float]:
        compiled.extend(len(module.untuned) for module in modules)
        return [2.0, *[1.0] * (len(modules) - 1)]

    ticks = count(1000)
    job = TuneJob(
        options=TuneOptions(trials=24, search=SEARCH),
        runner=SimulatedRunner(),
        log=RecordLog(tmp_path / "log.jsonl"),
        now=lambda: float(next(ticks)),
    )
    row = measure(zoo.build("mlp", image=4), host_target(1), job, (1.0, 3.0, 500.0), timings)
    assert compiled == [3, 2, 0, 0]  # nothing measured; one task; all three
    assert row["latency_ms"] == {"0": 2000.0, "1": 1000.0, "3": 1000.0, "end": 1000.0}
    assert not row["of_known"]
    assert row["of_end"]["0"] == 2.0 and row["trials"] == 24
    sums = [point[2] for point in row["curve"]]
    assert sums == sorted(sums, reverse=True) and row["seconds_within"]["0.05"] is not None
    pytest.importorskip("matplotlib")
    draw([row], tmp_path / "curve.png")
    assert (tmp_path / "curve.png").stat().st_size > 1000


@pytest.mark.slow
def test_the_best_known_is_timed_beside_it(tmp_path: Path) -> None:
    net, log = zoo.build("mlp", image=4), RecordLog(tmp_path / "known.jsonl")
    job = TuneJob(options=TuneOptions(trials=6, search=SEARCH), runner=SimulatedRunner(), log=log)
    measure(net, host_target(1), job, (), lambda modules: [1.0] * len(modules))
    again = replace(job, log=RecordLog(tmp_path / "log.jsonl"))
    known = log.read().records
    row = measure(net, host_target(1), again, (), lambda _: [3.0, 1.5, 1.0], known)
    assert row["of_known"] == {"0": 3.0, "end": 1.5} and row["of_end"] == {"0": 2.0, "end": 1.0}


def test_a_run_without_a_time_of_every_task_is_drawn_empty(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    row = {"name": "a", "curve": [], "of_end": {"0": 1.0, "end": 1.0}, "of_known": {}}
    draw([row], tmp_path / "none.png")
    draw([row, {**row, "curve": [[3.0, 4, 2.0], [5.0, 6, 1.0]]}], tmp_path / "one.png")
    assert (tmp_path / "none.png").exists() and (tmp_path / "one.png").exists()
