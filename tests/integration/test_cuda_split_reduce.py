"""Split reductions: offered where tiles are few, two launches, and the same result."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from autosched.workloads import get
from codegen.cuda.build import emit
from sketch.dag.dag import ComputeDAG
from sketch.lower import lower
from sketch.oracle.interpret import interpret
from sketch.population.blocks_gpu import blocks_of, threads_of
from sketch.population.feasible import feasible, fills
from sketch.population.population import sample
from sketch.rules.generate import generate
from sketch.schedule.sketch import Sketch
from sketch.schedule.steps import SplitReduce
from sketch.target.gpu_targets import cuda_target
from tests.support.emulate import COMPILER, compile_programs
from tests.support.workloads import (
    argmax_dag,
    conv2d_relu,
    matmul_dag,
    random_inputs,
    row_sum,
    softmax_dag,
    total_sum,
)

H200 = cuda_target("h200")
# So few processors that small programs are split for them; parts that do and do not divide.
FEW = replace(H200, threads=2)
CASES: Mapping[str, Callable[[], ComputeDAG]] = {
    "matmul": lambda: matmul_dag(24, 40, 64),
    "matmul of uneven parts": lambda: matmul_dag(17, 40, 67),
    "conv2d_relu": lambda: conv2d_relu(6, 64, 16),
    "sum without tiles": lambda: total_sum(128, 130),
    "argmax of uneven parts": lambda: argmax_dag(1, 16501),
    "norm": lambda: get("NRM").dag(1, 130, 131),
}
LONG: Mapping[str, Callable[[], ComputeDAG]] = {
    "sums of rows": lambda: row_sum(4, 1 << 20),
    "argmax": lambda: argmax_dag(1, 1 << 22),
    "norm": lambda: get("NRM").dag(1, 4096, 4096),
}


def split_sketches(dag: ComputeDAG, few: bool = True) -> list[Sketch]:
    """Those with a split reduction."""
    sketches = generate(dag, FEW if few else H200)
    return [s for s in sketches if any(isinstance(step, SplitReduce) for step in s.steps)]


@pytest.mark.skipif(COMPILER is None, reason="no C++ compiler to run CUDA text with")
def test_split_reductions_equal_the_oracle_in_two_launches(
    tmp_path: Path, rng: np.random.Generator
) -> None:
    dags = {name: make() for name, make in CASES.items()}
    sources, names = [], []
    for name, dag in dags.items():
        found = split_sketches(dag)
        assert found, name
        for sketch in found:
            rows = sample(sketch, 16, rng)
            fits = np.flatnonzero(feasible(sketch, rows.columns()))
            for index in fits[:2]:
                sources.append(emit(lower(sketch, rows.row(int(index))), FEW))
                names.append(name)
    assert len(sources) >= 2 * len(dags)
    inputs = {name: random_inputs(dag, rng) for name, dag in dags.items()}
    for name, program in zip(names, compile_programs(sources, tmp_path), strict=True):
        assert len(program.source.launches) == 2
        expected = interpret(dags[name], inputs[name])
        forward, backward = (program.run(inputs[name], reverse=order) for order in (False, True))
        for key, value in forward.items():
            assert np.array_equal(value, backward[key])
            np.testing.assert_allclose(value, expected[key].reshape(value.shape), atol=1e-4)


def test_few_results_are_split_as_far_as_their_terms_allow() -> None:
    """A part has eight terms or more, and there are sixteen parts or more."""
    found = [
        [step.parts for sketch in split_sketches(matmul_dag(4, 256, terms), few=False)
         for step in sketch.steps if isinstance(step, SplitReduce)]
        for terms in (127, 128, 300, 1 << 16)
    ]  # fmt: skip
    assert found == [[], [16], [32], [512, 2048]]


def test_a_small_image_of_many_channels_fills_the_card_with_tiles() -> None:
    """ResNet-18's last layers: without a split, a block for every processor has no tiles."""
    found = split_sketches(conv2d_relu(7, 512, 512), few=False)
    assert found
    for sketch in found:
        drawn = sample(sketch, 128, np.random.default_rng(0))
        full = np.flatnonzero(fills(sketch, drawn.columns()))
        best = 0
        for index in full[:32]:
            partial, _ = lower(sketch, drawn.row(int(index))).roots
            blocks, threads = int(blocks_of(partial)), int(threads_of((partial,)))
            assert blocks >= H200.threads and threads >= 128
            parts = next(s.parts for s in sketch.steps if isinstance(s, SplitReduce))
            best = max(best, 7 * 7 * 512 * parts // (blocks * threads))
        assert best >= 4


@pytest.mark.parametrize(
    ("shape", "parts"),
    [
        ((1024, 1024, 1024), [2]),
        ((1500, 1500, 1500), [3]),  # 750 terms are no pieces of four
        ((1500, 1500, 1501), []),
        ((1500, 1500, 256), []),  # too few terms to store results for
        ((197, 3072, 768), [2]),
        ((2048, 2048, 2048), []),
    ],
)
def test_tiles_that_fill_the_card_a_few_times_may_be_split_in_whole_pieces(
    shape: tuple[int, int, int], parts: list[int]
) -> None:
    found = split_sketches(matmul_dag(*shape), few=False)
    steps = [step for sketch in found for step in sketch.steps if isinstance(step, SplitReduce)]
    assert [step.parts for step in steps] == parts


def test_enough_tiles_are_not_split() -> None:
    assert not split_sketches(matmul_dag(2048, 2048, 512), few=False)
    assert len(generate(matmul_dag(2048, 2048, 512), H200)) == 1


@pytest.mark.parametrize("name", sorted(LONG))
def test_few_long_rows_fill_the_card(name: str) -> None:
    found = split_sketches(LONG[name](), few=False)
    assert found
    for sketch in found:
        drawn = sample(sketch, 128, np.random.default_rng(0))
        full = np.flatnonzero(fills(sketch, drawn.columns()))
        assert len(full) > 32
        for index in full[:8]:
            launches = emit(lower(sketch, drawn.row(int(index))), H200).launches
            assert len(launches) == 2
            assert launches[0].grid >= H200.threads and launches[0].block >= 128


def test_short_rows_enough_of_them_and_rows_that_are_read_again_stay_whole() -> None:
    for dag in (row_sum(4, 1 << 17), row_sum(132, 1 << 20), softmax_dag(4, 1 << 20)):
        assert not split_sketches(dag, few=False)
