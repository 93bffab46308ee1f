"""Transposes on GPUs: tiles in shared memory, whole sectors on both sides, and the same result."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest

from codegen.cuda.build import emit
from costmodel.extract import draft_seconds
from sketch.dag.dag import ComputeDAG
from sketch.lang import reducers
from sketch.lang.functions import maximum
from sketch.lang.tensor import Tensor, compute, placeholder, reduce_axis
from sketch.lower import lower
from sketch.oracle.interpret import interpret
from sketch.population.feasible import feasible
from sketch.population.population import sample
from sketch.rules.generate import generate
from sketch.schedule.sketch import Sketch
from sketch.schedule.steps import CacheRead
from sketch.target.gpu_targets import cuda_target
from tests.support.cuda_programs import feasible_rows
from tests.support.emulate import COMPILER, compile_programs
from tests.support.workloads import random_inputs

H200 = cuda_target("h200")
_SECTOR = 8  # elements


def turned(height: int, width: int) -> ComputeDAG:
    data = placeholder((width, height), name="x")
    return ComputeDAG([compute((height, width), lambda i, j: data[j, i], name="y")])


def with_bias() -> ComputeDAG:
    """NCHW to NHWC, and more that is read in order."""
    data = placeholder((2, 37, 5, 9), name="x")
    bias = placeholder((37,), name="b")
    moved: Tensor = compute(
        (2, 5, 9, 37), lambda n, h, w, c: maximum(data[n, c, h, w] + bias[c], 0.0), name="y"
    )
    return ComputeDAG([moved])


def in_tiles(dag: ComputeDAG) -> list[Sketch]:
    return [s for s in generate(dag, H200) if any(isinstance(x, CacheRead) for x in s.steps)]


def of_sums() -> ComputeDAG:
    """What is turned is computed for no thread alone: all of a block fill a tile of it."""
    data = placeholder((5, 33, 37), name="x")
    k = reduce_axis(5, "k")
    total = compute((37, 33), lambda j, i: reducers.sum(data[k, i, j], axis=k), name="s")
    return ComputeDAG([compute((33, 37), lambda i, j: total[j, i], name="y")])


def ordered() -> ComputeDAG:
    data = placeholder((64, 64), name="x")
    return ComputeDAG([compute((64, 64), lambda i, j: data[i, j] * 2.0, name="y")])


def symmetric() -> ComputeDAG:
    data = placeholder((64, 64), name="x")
    return ComputeDAG([compute((64, 64), lambda i, j: data[i, j] + data[j, i], name="y")])


OTHERS: Mapping[str, Callable[[], ComputeDAG]] = {
    "in order": ordered,
    "read twice": symmetric,
    "short": lambda: turned(64, 16),
}


def test_a_transpose_has_a_sketch_of_tiles_beside_the_plain_one() -> None:
    assert len(in_tiles(turned(64, 96))) == 1
    assert len(generate(turned(64, 96), H200)) == 2


@pytest.mark.parametrize("name", sorted(OTHERS))
def test_others_have_none(name: str) -> None:
    assert in_tiles(OTHERS[name]()) == []


def test_the_best_of_the_draft_has_whole_sectors_on_both_sides() -> None:
    (sketch,) = in_tiles(turned(2048, 2048))
    drawn = sample(sketch, 1024, np.random.default_rng(0))
    fits = feasible(sketch, drawn.columns())
    assert fits.mean() >= 0.5
    rows = drawn.take(np.flatnonzero(fits))
    best = rows.row(int(np.argmin(draft_seconds(rows))))
    values = {sketch.labels[name]: value for name, value in best.items()}
    assert values["y.i@1"] * values["y.i@2"] >= _SECTOR
    assert values["y.j@1"] * values["y.j@2"] >= _SECTOR


@pytest.mark.skipif(COMPILER is None, reason="no C++ compiler to run CUDA text with")
def test_transposes_equal_the_oracle(tmp_path: Path, rng: np.random.Generator) -> None:
    dags, sources = [], []
    for dag in (turned(64, 96), turned(45, 67), with_bias(), of_sums()):
        for sketch in in_tiles(dag):
            rows = feasible_rows(sketch, 2, rng)
            for index in range(rows.count):
                dags.append(dag)
                sources.append(emit(lower(sketch, rows.row(index)), H200))
    assert len(sources) == 8
    for dag, program in zip(dags, compile_programs(sources, tmp_path), strict=True):
        assert len(program.source.launches) == len(dag.stages)
        assert "__shared__" in program.source.text
        inputs = random_inputs(dag, rng)
        forward, backward = (program.run(inputs, reverse=order)["y"] for order in (False, True))
        np.testing.assert_array_equal(forward, backward)
        np.testing.assert_allclose(forward, interpret(dag, inputs)["y"], rtol=1e-6, atol=1e-6)
