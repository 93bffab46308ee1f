"""Rows of GPU sketches: valid, deterministic, of whole warps, and within what a thread can hold."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import pytest

from autosched.workloads import get
from sketch.dag.dag import ComputeDAG
from sketch.lower import lower
from sketch.population.blocks_gpu import blocks_of, threads_of
from sketch.population.feasible import feasible, fills
from sketch.population.feasible_gpu import instructions_of, registers_of
from sketch.population.population import clamp, sample
from sketch.rules.generate import generate
from sketch.target.gpu_targets import cuda_target
from tests.support.cuda_programs import row_of
from tests.support.workloads import conv2d_relu, matmul_dag, row_sum

GPU = cuda_target("h200")
DAGS: Mapping[str, Callable[[], ComputeDAG]] = {
    "matmul": lambda: matmul_dag(1024, 1024, 256),
    "conv2d_relu": conv2d_relu,
    "softmax": lambda: get("SFM").dag(1, 64, 100),
    "row_sum": row_sum,
}


@pytest.mark.parametrize("name", sorted(DAGS))
def test_drawn_rows_are_valid_and_the_same_for_one_seed(name: str) -> None:
    for sketch in generate(DAGS[name](), GPU):
        drawn = sample(sketch, 256, np.random.default_rng(3))
        assert drawn.values.shape == (256, len(sketch.decisions))
        for n, decision in enumerate(sketch.decisions):
            assert np.isin(drawn.values[:, n], decision.choices).all()
        assert (clamp(sketch, drawn.values) == drawn.values).all()
        again = sample(sketch, 256, np.random.default_rng(3))
        assert (drawn.values == again.values).all()
        assert len(np.unique(drawn.values, axis=0)) > 8
        assert feasible(sketch, drawn.columns()).mean() > 0.5


def test_rows_fill_the_card_where_enough_of_them_can() -> None:
    sketch, *_ = generate(DAGS["matmul"](), GPU)
    drawn = sample(sketch, 512, np.random.default_rng(0))
    full = fills(sketch, drawn.columns())
    assert full.all()
    for index in np.flatnonzero(full)[:50]:
        (root,) = lower(sketch, drawn.row(int(index))).roots
        assert threads_of((root,)) >= 128 and threads_of((root,)) % 32 == 0
        assert blocks_of(root) >= GPU.threads


def test_some_rows_do_not_fill_the_card_where_few_can() -> None:
    for sketch in generate(DAGS["row_sum"](), GPU):
        drawn = sample(sketch, 256, np.random.default_rng(0))
        assert 0.8 < fills(sketch, drawn.columns()).mean() < 1.0


def test_blocks_of_part_of_a_warp_do_not_fit() -> None:
    sketch, *_ = generate(DAGS["matmul"](), GPU)
    row = dict.fromkeys((decision.id for decision in sketch.decisions), 1)
    for threads, fits in ((32, True), (64, True), (16, False), (1, False)):
        assert feasible(sketch, row | row_of({"C.j@2": threads})).all() == fits


def test_the_lanes_of_a_tile_are_a_warp() -> None:
    sketch, *_ = generate(DAGS["matmul"](), GPU)
    columns = sample(sketch, 128, np.random.default_rng(0)).columns()
    assert (
        columns[sketch.decision("C.i@3")] * columns[sketch.decision("C.j@3")] == GPU.warp_size
    ).all()
    assert len(np.unique(columns[sketch.decision("C.i@3")])) > 3


def test_all_reduce_axes_are_tiled_and_the_inner_tile_may_be_unrolled_as_a_whole() -> None:
    sketch = generate(conv2d_relu(14, 64, 64), GPU)[-1]
    choices = {sketch.labels[d.id]: d.choices for d in sketch.decisions}
    assert choices["conv2d.rh@1"] == choices["conv2d.rw@1"] == (1, 2, 3)
    assert choices["conv2d.rc@2"] == (1, 2, 4, 8, 16)


def test_a_program_smaller_than_a_warp_has_rows_that_fit() -> None:
    (sketch,) = generate(matmul_dag(3, 5, 7), GPU)
    assert feasible(sketch, sample(sketch, 64, np.random.default_rng(0)).columns()).any()


def test_registers_and_instructions_of_a_tile() -> None:
    """64 accumulators and a column and a row of operands; each step reads two and adds one."""
    sketch, *_ = generate(DAGS["matmul"](), GPU)
    row = dict.fromkeys((decision.id for decision in sketch.decisions), 1)
    row |= row_of({"C.i@2": 8, "C.j@2": 16, "C.i@3": 2, "C.i@4": 8, "C.j@1": 2, "C.j@4": 4})
    (root,) = lower(sketch, row).roots
    (wider,) = lower(sketch, row | row_of({"C.local.k@2": 4})).roots
    assert registers_of(root, GPU) == 64 + 8 + 8 + 32
    assert instructions_of(wider) > 3 * 64 * 3
    assert instructions_of(root) < instructions_of(wider) < GPU.instruction_budget
    assert not feasible(sketch, row | row_of({"C.i@4": 64, "C.j@4": 8})).all()
