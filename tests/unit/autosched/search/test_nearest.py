"""Seeds from other tasks: which are near, and what becomes of their schedules."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from autosched.compilation.network import extract_checked, network_tasks
from autosched.measure.result import Timing
from autosched.records.log import RecordLog
from autosched.records.record import SCHEMA_VERSION, Record, record_of
from autosched.records.title import title_of
from autosched.search.best_schedules import SHIPPED, best_schedules
from autosched.search.nearest import bests_of_tasks, in_order, nearest, rescaled
from autosched.search.sampling import sample_feasible
from autosched.search.space import space_of
from autosched.task import Task
from autosched.tasks.candidate import Candidate
from autosched.zoo import build
from benchmarks.best_schedules import packed
from codegen.host import cpu_target
from sketch.nest.loopnest import LoopNest
from sketch.population.recorded_range import check_row
from tests.support.targets import AVX512, SMALL
from tests.support.workloads import conv2d_relu, max_pool


@cache
def conv(channels: int, size: int = 14) -> Task:
    return Task(conv2d_relu(size, channels, channels), AVX512, "conv")


def measured(task: Task, count: int = 1) -> list[Record]:
    """Records of rows of its best sketch, each slower than the one before."""
    space = space_of(task)
    rows = space.samples[0]
    return [
        record_of(
            task.key, Candidate(rows.sketch, rows.row(n)), task.target,
            Timing((1e-3 * (n + 1),), "warm"), title=title_of(task),
        )
        for n in range(min(count, rows.count))
    ]  # fmt: skip


def test_the_best_of_each_task_and_machine() -> None:
    one, other = conv(32), conv(64)
    records = [*measured(one, 3)[::-1], *measured(other, 2)]
    elsewhere = [replace(r, target=replace(r.target, threads=7)) for r in records[:1]]
    bests = bests_of_tasks([*records, *elsewhere])
    assert {(r.task, r.target.threads) for r in bests} == {
        (one.key, one.target.threads), (one.key, 7), (other.key, other.target.threads),
    }  # fmt: skip
    assert {r.result.median for r in bests if isinstance(r.result, Timing)} == {1e-3, 3e-3}


def test_the_nearest_task_comes_first() -> None:
    far, near = measured(conv(32)), measured(conv(128))
    task = conv(192)
    (found,) = nearest(task, [*far, *near], 1)
    wanted = rescaled(task, near[0])
    assert wanted is not None and found.key == wanted.key


def test_sketches_that_are_there_are_used() -> None:
    task, bests = conv(192), [*measured(conv(32), 3), *measured(conv(128), 3)]
    sketches = space_of(task).sketches
    plain = nearest(task, bests, 6)
    found = nearest(task, bests, 6, sketches)
    assert [c.key for c in found] == [c.key for c in plain]
    assert [c.values for c in found] == [c.values for c in plain]
    keys = [sketch.key for sketch in sketches]
    there = [c for c in found if c.sketch.key in keys]
    assert there and all(c.sketch is sketches[keys.index(c.sketch.key)] for c in there)


def test_rows_of_sketches_that_are_there_need_no_proof(monkeypatch: pytest.MonkeyPatch) -> None:
    task, bests = conv(192), measured(conv(128), 3)
    sketches = space_of(task).sketches
    found = nearest(task, bests, 3, sketches)
    own = [c.key for c in found if any(c.sketch is sketch for sketch in sketches)]
    seen: list[LoopNest] = []
    monkeypatch.setattr("autosched.search.nearest.verify", seen.append)
    assert [c.key for c in nearest(task, bests, 3, sketches)] == [c.key for c in found]
    assert own and len(seen) == len(found) - len(own)


@pytest.mark.parametrize(("near", "there", "first"), [(128, 160, "own"), (32, 192, "other")])
def test_this_machine_comes_before_others_of_like_shapes(near: int, there: int, first: str) -> None:
    """The very task of another machine comes before one of a sixth of the channels."""
    own = measured(conv(near))
    foreign = [replace(r, target=replace(r.target, arch="other")) for r in measured(conv(there))]
    (found,) = nearest(conv(192), [*foreign, *own], 1)
    wanted = rescaled(conv(192), (own if first == "own" else foreign)[0])
    assert wanted is not None and found.key == wanted.key


def test_vectors_of_other_length_count_less_than_other_machines() -> None:
    """The very task on a machine with half as long ones, and half of its channels on another."""
    short = Task(conv2d_relu(14, 192, 192), SMALL)
    foreign = [replace(r, target=replace(r.target, arch="other")) for r in measured(conv(96))]
    (found,) = nearest(conv(192), [*measured(short), *foreign], 1)
    wanted = rescaled(conv(192), foreign[0])
    assert wanted is not None and found.key == wanted.key
    assert nearest(conv(192), measured(short), 1)


@pytest.mark.parametrize(
    ("channels", "size"),
    [
        *((16, 13), (80, 5), (256, 56)),
        *(pytest.param(*pair, marks=pytest.mark.slow) for pair in ((16, 5), (48, 56), (256, 13))),
    ],
)
def test_what_is_rescaled_is_a_row_of_the_task(channels: int, size: int) -> None:
    task, source = conv(channels, size), conv(64)
    rng = np.random.default_rng(channels + size)
    for sketch in space_of(source).sketches[:3]:
        rows = sample_feasible(sketch, 4, rng)
        for n in range(rows.count):
            record = record_of(
                source.key, Candidate(sketch, rows.row(n)), source.target, Timing((1.0,), "warm")
            )
            found = rescaled(task, record)
            if found is not None:  # it may not fit the registers, say
                check_row(found.sketch, found.values)
                assert all(found.values[d.id] in d.choices for d in found.sketch.decisions)
                again = rescaled(source, record)
                assert again is not None and again.key == Candidate(sketch, rows.row(n)).key


@pytest.mark.parametrize("name", ["conv", "a -> b 3x3", "3x3 7", "conv 5x5x5", "->", "1 -> 2 -> 3"])
def test_names_do_not_count(name: str) -> None:
    source = Task(conv2d_relu(14, 32, 32), AVX512, name)
    (found,) = nearest(conv(64), measured(source), 1)
    (wanted,) = nearest(conv(64), measured(conv(32)), 1)
    assert found.key == wanted.key


def test_what_does_not_fit_is_passed_over() -> None:
    other = measured(Task(max_pool(), AVX512, "pool"))
    assert nearest(conv(64), other, 2) == ()
    damaged = replace(measured(conv(32))[0], decisions={"0.0@1": 10**9})
    assert nearest(conv(64), [damaged], 2) == ()
    wide = measured(conv(32))  # vectors that the machine does not have
    assert nearest(Task(conv2d_relu(14, 64, 64), SMALL), wide, 2) == ()


def test_records_without_a_title_have_no_shapes() -> None:
    assert bests_of_tasks([replace(r, title=None) for r in measured(conv(32))]) == ()


def test_the_shipped_file_is_of_this_release() -> None:
    """Made again by the command that ``benchmarks.best_schedules`` tells."""
    assert SHIPPED.stat().st_size <= 200_000
    records = best_schedules()
    assert len(records) >= 300 and {r.target.vector_bytes for r in records} == {32, 64}
    assert all(r.title is not None and not r.by_name for r in records)
    assert SCHEMA_VERSION == 5, "make the file again"


def test_the_shipped_file_serves_a_network() -> None:
    tasks = network_tasks(extract_checked(build("squeezenet-1.1"), AVX512), AVX512)
    seeded = [task for task in tasks if nearest(task, best_schedules(), 2)]
    assert len(seeded) >= 0.9 * len(tasks)


def test_schedules_for_the_vectors_of_a_machine_come_first() -> None:
    """Those for registers of 32 bytes are no seeds where there are 64, and the other way round."""
    for target in (AVX512, cpu_target("cpu-avx2", 2)):
        (task, *_) = network_tasks(extract_checked(build("resnet-18"), target), target)
        (first, *_) = in_order(task, best_schedules())
        assert first.target.vector_bytes == target.vector_bytes


def test_equal_logs_make_equal_files(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    RecordLog(log).append([*measured(conv(32), 3), *measured(conv(64), 2)])
    assert packed([log]) == packed([log])


def test_a_record_of_a_known_sketch_is_a_candidate_of_that_object() -> None:
    task = conv(16)
    (record,) = measured(task)
    sketches = {sketch.key: sketch for sketch in space_of(task).sketches}
    plain, known = (record.candidate(task.dag, None, own) for own in ({}, sketches))
    assert known.sketch is sketches[plain.sketch.key] is not plain.sketch
    others = {key: sketch for key, sketch in sketches.items() if key != plain.sketch.key}
    again = record.candidate(task.dag, None, others)
    assert known.key == plain.key == again.key
    assert again.sketch not in others.values()
