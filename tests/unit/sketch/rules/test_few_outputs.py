"""Reductions to few outputs: chunks for all threads, whatever the shape."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import autosched as asd
from codegen.host import cpu_target
from sketch.dag.dag import ComputeDAG
from sketch.rules.generate import generate
from sketch.schedule.sketch import Sketch
from sketch.schedule.stage import Role
from sketch.schedule.steps import Rfactor
from sketch.target.target import Target


def sum_of_squares(outputs: int, *reduced: int) -> ComputeDAG:
    """``N[b] = sum(A[b, ...] ** 2)``: the square of a Frobenius norm, for each of a batch."""
    a = asd.placeholder((outputs, *reduced), name="A")
    axes = [asd.reduce_axis(extent) for extent in reduced]
    n = asd.compute((outputs,), lambda b: asd.sum(a[b, *axes] * a[b, *axes], axis=axes), name="N")
    return ComputeDAG([n])


def target(threads: int) -> Target:
    return replace(cpu_target("cpu-avx2"), threads=threads)


def widest_partial(sketch: Sketch) -> int:
    """Points of the largest stage of partial sums that has a nest of its own."""
    partial = [
        plan.op for plan in sketch.program.stages if Role.PARTIAL in plan.roles and not plan.attach
    ]
    return max((int(np.prod([axis.extent for axis in op.axes])) for op in partial), default=0)


@pytest.mark.parametrize("threads", [2, 16])
@pytest.mark.parametrize(
    "shape", [(1, 256, 256), (1, 251, 257), (4, 10**6), (4, 512, 512), (1, 4, 10**6), (1, 64, 4096)]
)
def test_all_threads_have_a_chunk(shape: tuple[int, ...], threads: int) -> None:
    widest = [
        widest_partial(sketch) for sketch in generate(sum_of_squares(*shape), target(threads))
    ]
    assert max(widest) >= threads


@pytest.mark.parametrize("shape", [(16, 65536), (64, 65536), (4, 4096)])
def test_where_few_vectors_of_outputs_leave_threads_idle_chunks_are_offered(
    shape: tuple[int, ...],
) -> None:
    widest = [widest_partial(sketch) for sketch in generate(sum_of_squares(*shape), target(32))]
    assert max(widest) >= 32


@pytest.mark.parametrize("shape", [(4, 10**6), (4, 512, 512), (1000, 64)])
def test_one_thread_needs_no_chunks(shape: tuple[int, ...]) -> None:
    for sketch in generate(sum_of_squares(*shape), target(1)):
        steps = [step for step in sketch.steps if isinstance(step, Rfactor)]
        assert all(step.interleave for step in steps)


def test_what_is_contiguous_stays_whole() -> None:
    (first, *_) = generate(sum_of_squares(1, 1024, 1024), target(2))
    chunked = next(step for step in first.steps if isinstance(step, Rfactor))
    contiguous = first.dag.stages[0].reduce_axes[1]
    assert not chunked.interleave and chunked.axis != contiguous.name


@pytest.mark.parametrize("shape", [(4, 70001), (1, 251, 257)])
def test_chunks_add_up(shape: tuple[int, ...], rng: np.random.Generator) -> None:
    dag = sum_of_squares(*shape)
    module = asd.Task(dag, asd.Target("cpu", threads=2)).module({})
    a = rng.standard_normal(shape, dtype=np.float32)
    expected = (a.astype(np.float64) ** 2).reshape(shape[0], -1).sum(axis=1)
    np.testing.assert_allclose(module.run({"A": a})["N"], expected, rtol=1e-4)
