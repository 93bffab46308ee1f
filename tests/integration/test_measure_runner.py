"""Real candidates, from sketch to timing: lowered, compiled, run and checked in the children."""

import os
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from autosched.measure.function_reference import reference_of
from autosched.measure.options import MeasureOptions
from autosched.measure.result import CACHE_STATES, Failure, Timing
from autosched.measure.runner import LocalRunner
from autosched.measure.variant_errors import SMALL
from autosched.records.best import best
from autosched.records.log import RecordLog
from autosched.records.record import record_of
from autosched.task import Task
from autosched.tasks.candidate import Candidate
from codegen.host import host_target
from sketch.dag.dag import ComputeDAG
from sketch.lang.reducers import sum as sum_
from sketch.lang.tensor import compute, placeholder, reduce_axis
from sketch.operators.conv import conv2d
from sketch.operators.einsum import einsum
from sketch.operators.softmax import softmax
from sketch.population.feasible import feasible
from sketch.population.population import sample
from sketch.rules.generate import generate

OPTIONS = MeasureOptions(check="all", samples=3, builders=1)


def matmul_task(threads=1):
    a = placeholder((24, 40), name="A")
    b = placeholder((40, 56), name="B", constant=True)
    k = reduce_axis(40)
    body = lambda i, j: sum_(a[i, k] * b[k, j], axis=k)  # noqa: E731
    return Task(ComputeDAG([compute((24, 56), body, name="C")]), host_target(threads))


def candidates(task, per_sketch=2):
    rng = np.random.default_rng(0)
    found = []
    for sketch in generate(task.dag, task.target):
        rows = sample(sketch, 256, rng)
        good = np.flatnonzero(feasible(sketch, rows.columns()))[:per_sketch]
        found += [Candidate(sketch, rows.row(int(row))) for row in good]
    return found


@pytest.mark.parametrize("threads", [pytest.param(1, marks=pytest.mark.slow), 2])
def test_every_sketch_runs_and_agrees_with_the_oracle(threads):
    task = matmul_task(threads)
    batch = candidates(task)
    with LocalRunner(task.target, OPTIONS) as runner:
        results = runner.measure(task, batch)
        assert [r for r in results if isinstance(r, Failure)] == []
        assert all(r.error < 1e-5 for r in results)
        assert all(0 < r.build_s < 60 for r in results)
        assert runner.verify(task, batch[0]) < 1e-5
        again = runner.remeasure(task, batch[:2], rounds=2)
    assert [len(r.seconds) for r in again] == [2, 2]


def of_variants(task, variants):
    """A candidate of each."""
    batch = []
    for variant in variants:
        sketch = next(s for s in task.sketches if s.variant == variant)
        rows = sample(sketch, 256, np.random.default_rng(len(batch)))
        row = np.flatnonzero(feasible(sketch, rows.columns()))[0]
        batch.append(Candidate(sketch, rows.row(int(row))))
    return batch


@pytest.mark.parametrize(
    "order", [("direct", "late-factors", "direct"), ("late-factors", "direct")]
)
def test_errors_of_the_task_as_it_is_written_are_measured_where_those_of_a_variant_are_large(order):
    """Of powers of numbers around a large mean."""
    q, k, v = (placeholder((1, 64, 2, 64), name=name) for name in "qkv")
    scores = einsum((q, k), ("bihd", "bjhd"), "bhij", name="scores")
    mixed = einsum((softmax(scores), v), ("bhij", "bjhd"), "bihd", name="mix")
    task = Task(ComputeDAG([mixed]), host_target(1))
    batch = of_variants(task, order)
    once = replace(OPTIONS, bursts=1)  # a later burst of the first one would know of the variant
    with LocalRunner(task.target, once) as runner:
        *before, last = runner.measure(task, batch)
    late = before[order.index("late-factors")]
    assert all(r.variant_errors == () for r in before if r is not late)
    assert late.variant_errors[0] < SMALL < late.variant_errors[1]
    assert last.variant_errors[0] < SMALL
    assert 0.1 < last.variant_errors[1] / late.variant_errors[1] < 10


def test_errors_of_a_variant_are_measured_with_its_first_right_candidate():
    weight = placeholder((3, 3, 16, 16), name="w", constant=True)
    data = placeholder((1, 8, 8, 16), name="x")
    task = Task(ComputeDAG([conv2d(data, weight, 1, 1, name="y")]), host_target(1))
    batch = of_variants(task, ("direct", "winograd-4", "winograd-4"))
    with LocalRunner(task.target, OPTIONS) as runner:
        direct, first, second = runner.measure(task, batch)
    assert direct.variant_errors == ()
    assert len(first.variant_errors) == 2 and first.variant_errors == second.variant_errors
    assert all(1e-9 < error < 1e-6 for error in first.variant_errors)


@pytest.mark.parametrize("state", CACHE_STATES)
@pytest.mark.parametrize("threads", [pytest.param(1, marks=pytest.mark.slow), 2])
def test_caches_are_prepared_as_asked(state, threads):
    task = matmul_task(threads=threads)
    with LocalRunner(task.target, replace(OPTIONS, cache_state=state)) as runner:
        (result,) = runner.measure(task, candidates(task)[:1])
    assert isinstance(result, Timing), result
    assert result.cache_state == state


def test_a_recorded_candidate_is_measured_again_from_the_log_alone(tmp_path):
    task, log = matmul_task(), RecordLog(tmp_path / "log.jsonl")
    batch = candidates(task)
    with LocalRunner(task.target, OPTIONS) as runner:
        results = runner.measure(task, batch)
        log.append(
            record_of(task.key, c, task.target, r) for c, r in zip(batch, results, strict=True)
        )
        fresh = matmul_task()
        found = best(log.read().records, fresh.key, fresh.target)
        assert found is not None
        assert runner.verify(fresh, found.candidate(fresh.dag)) < 1e-5


def test_inputs_and_outputs_of_two_tasks_do_not_mix():
    first = matmul_task()
    x = placeholder((24, 40), name="A")
    second = Task(ComputeDAG([compute((24, 40), lambda i, j: x[i, j] * 2.0, name="C")]),
                  first.target)  # fmt: skip
    with LocalRunner(first.target, OPTIONS) as runner:
        tickets = [runner.submit(task, candidates(task)[:1]) for task in (first, second, first)]
        results = [runner.collect(ticket)[0] for ticket in tickets]
    assert all(isinstance(r, Timing) and r.error < 1e-5 for r in results), results


def test_the_fastest_are_not_built_again(monkeypatch):
    task = matmul_task()
    batch = candidates(task)
    with LocalRunner(task.target, OPTIONS) as runner:
        measured = runner.measure(task, batch)
        order = sorted(range(len(batch)), key=lambda n: measured[n].median)
        monkeypatch.setattr(runner._pool, "build", None)
        again = runner.remeasure(task, [batch[n] for n in order[:4]], rounds=1)
        assert runner.verify(task, batch[order[0]]) == measured[order[0]].error
    assert [result.error for result in again] == [measured[n].error for n in order[:4]]


def twice(payload):
    return payload * 2


def test_other_work_is_done_before_anything_is_timed():
    task = matmul_task()
    with LocalRunner(task.target, OPTIONS) as runner:
        ticket = runner.submit(task, candidates(task, 1)[:1])
        found = runner.in_background(reference_of(twice), b"ab")
        failed = runner.in_background("autosched.measure.builder:nothing", b"")
        (result,) = runner.collect(ticket)
        assert found.done() and failed.done()
        assert isinstance(result, Timing)
        assert (found.result(), failed.result()) == (b"abab", None)


def open_sockets():
    """What the links of this process name, such as ``socket:[4711]``."""
    found = set()
    for link in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):  # closed meanwhile
            found.add(os.readlink(link))
    return {name for name in found if name.startswith("socket:")}


def test_a_closed_runner_leaves_no_socket_open():
    task, before = matmul_task(), open_sockets()
    with LocalRunner(task.target, OPTIONS) as runner:
        runner.measure(task, candidates(task)[:1])
        assert open_sockets() - before
    assert not open_sockets() - before
