"""Gathers at constant indices that are regular read in runs, and read the same."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from autosched.graph.ir import Graph
from autosched.graph.ops.gather import Gather
from autosched.graph.ops.movement import Pick
from autosched.graph.optimize import optimize
from autosched.graph.passes.regular_gathers import pick_regular, regular_runs
from sketch.dag.dag import ComputeDAG
from sketch.lang.tensor import placeholder
from sketch.operators.layout import Run, pick
from tests.support.compiled import check_run
from tests.support.cpu_targets import in_turns, runnable
from tests.support.small_graphs import Net, assert_close, values_of

EXTENT = 11
INDICES: dict[str, tuple[NDArray[np.int64], int]] = {
    "every one twice": (np.repeat(np.arange(EXTENT), 2), 1),
    "a part, three times": (np.repeat(np.arange(2, 7), 3), 1),
    "backwards": (np.arange(EXTENT)[::-1].copy(), 1),
    "every third": (np.arange(0, EXTENT, 3), 1),
    "always the same": (np.full(9, 4), 1),
    "one": (np.array([5]), 1),
    "rolled": (np.roll(np.arange(EXTENT), 3), 2),
    "mirrored borders": (np.pad(np.arange(EXTENT), 3, mode="reflect"), 3),
    "repeated borders": (np.pad(np.arange(EXTENT), (2, 4), mode="edge"), 3),
    "wrapped borders": (np.pad(np.arange(EXTENT), (4, 2), mode="wrap"), 3),
    "from the end": (np.arange(-EXTENT, 0), 1),
}


def _gathered(indices: NDArray[np.int64], axis: int, dtype: str = "int64") -> Graph:
    net = Net((3, EXTENT, EXTENT))
    index = net.constant("indices", indices.astype(dtype))
    return net.finish({"y": net.then(Gather(axis), net.x, index)})


@pytest.mark.parametrize("axis", [1, 2])
@pytest.mark.parametrize("name", INDICES)
def test_regular_indices(name: str, axis: int) -> None:
    indices, runs = INDICES[name]
    graph = _gathered(indices, axis, "int32" if axis == 1 else "int64")
    found = pick_regular(graph)
    ops = [node.op for node in found.nodes]
    assert [len(op.runs) for op in ops if isinstance(op, Pick)] == [runs]
    assert not any(isinstance(op, Gather) for op in ops)
    assert_close(values_of(found), values_of(graph), name)
    assert_close(values_of(optimize(graph)), values_of(graph), name)


def test_other_indices_stay() -> None:
    mixed = np.array([3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5])
    for graph in (_gathered(mixed, 1), _gathered(np.arange(9).reshape(3, 3), 1)):
        assert pick_regular(graph).nodes == graph.nodes


def test_indices_outside_are_clamped_as_the_gather_does() -> None:
    graph = _gathered(np.arange(-EXTENT - 2, EXTENT + 2), 2)
    assert_close(values_of(pick_regular(graph)), values_of(graph), "clamped")


@given(st.lists(st.integers(0, 9), min_size=1, max_size=30))
def test_runs_say_the_indices(indices: list[int]) -> None:
    array = np.array(indices)
    runs = regular_runs(array)
    if runs is None:
        assert array.size > 4
        return
    starts = [0, *(run.stop for run in runs)]
    assert all(first < stop for first, stop in pairwise(starts))
    said = [
        run.first + n // run.repeat * run.step
        for run, start in zip(runs, starts, strict=False)
        for n in range(run.stop - start)
    ]
    assert said == indices
    ends = [run.last(start) for run, start in zip(runs, starts, strict=False)]
    assert ends == [indices[run.stop - 1] for run in runs]


def _picked(name: str, axis: int, dtype: str) -> ComputeDAG:
    x = placeholder((3, 18, 21), dtype, name="x")
    whole = np.arange(x.shape[axis])
    indices = {
        "twice": np.repeat(whole, 2),
        "mirrored": np.pad(whole, (2, 5), mode="reflect"),
        "rolled": np.roll(whole, 5),
        "edges": np.pad(whole, 3, mode="edge"),
    }[name]
    runs = regular_runs(indices)
    assert runs is not None
    return ComputeDAG([pick(pick(x, axis, runs, "first"), 3 - axis, (Run(9, 1, 1, 1),), "y")])


_CASES = [(n, a, d) for n in ("twice", "mirrored", "rolled", "edges") for a in (1, 2)
          for d in ("float32", "uint8", "float64")]  # fmt: skip


@pytest.mark.parametrize(("case", "target"), in_turns(_CASES, runnable()))
def test_kernels_read_runs(case: tuple[str, int, str], target, rng: np.random.Generator) -> None:
    """Between guard pages: a vector of a run reaches beyond no row."""
    dag = _picked(*case)
    x = rng.integers(0, 99, (3, 18, 21)).astype(case[2])
    for seed in range(2):
        check_run(dag, {"x": x}, target.with_threads(1), choice=seed, seed=seed)
