"""Blocks of tiles on GPUs: one launch, what lies between the stages is private or shared."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import pytest

from sketch.dag.dag import ComputeDAG
from sketch.lang import reducers
from sketch.lang.functions import maximum
from sketch.lang.tensor import Tensor, compute, placeholder, reduce_axis
from sketch.lower import lower
from sketch.nest.loopnest import Allocate, LoopKind, Scope
from sketch.nest.walk import stores, walk
from sketch.operators.conv import conv2d
from sketch.population.blocks_gpu import blocks_of, threads_of
from sketch.population.feasible import feasible, fills
from sketch.population.feasible_gpu import registers_of
from sketch.population.population import sample
from sketch.rules.generate import generate
from sketch.schedule.sketch import Sketch
from sketch.target.gpu_targets import cuda_target
from sketch.variants.winograd_blocks import winograd_four
from sketch.verify import verify
from tests.support.workloads import conv2d_relu, conv2d_residual

GPU = cuda_target("h200")
_ROWS = 64
_SUMS = 16  # of a tile: 4 x 4 products


def of_images() -> ComputeDAG:
    """Several images of odd sizes, of what a stage before computes."""
    data = placeholder((3, 9, 7, 16), name="x")
    positive = compute(data.shape, lambda *i: maximum(data[i], 0.0), name="positive")
    weight = placeholder((3, 3, 16, 24), name="w", constant=True)
    return ComputeDAG([conv2d(positive, weight, 1, 1)])


def of_lines() -> ComputeDAG:
    """One dimension is filtered, the taps of the other one are summed."""
    data = placeholder((1, 8, 8, 16), name="x")
    weight = placeholder((5, 3, 16, 16), name="w", constant=True)
    return ComputeDAG([conv2d(data, weight, 1, (2, 1, 2, 1))])


PROGRAMS: Mapping[str, Callable[[], ComputeDAG]] = {
    "relu": lambda: conv2d_relu(14, 32, 48),
    "residual": conv2d_residual,
    "images": of_images,
    "lines": of_lines,
}


def in_blocks(dag: ComputeDAG) -> Sketch:
    """The sketch of the variant of four points."""
    variant = winograd_four(dag)
    assert variant is not None
    (sketch,) = generate(variant, GPU)
    return sketch


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_nothing_lies_between_the_stages_in_global_memory(name: str) -> None:
    sketch = in_blocks(PROGRAMS[name]())
    nest = lower(sketch, dict.fromkeys((decision.id for decision in sketch.decisions), 1))
    (root,) = nest.roots
    assert not nest.workspaces
    allocated = [node.buffer for node in walk((root,)) if isinstance(node, Allocate)]
    shared = [buffer for buffer in allocated if buffer.scope is Scope.SHARED]
    assert len(shared) == 2  # tiles of the data and of the filters, both of all products
    assert len({store.stage for store, _ in stores((root,)) if store.reducer is not None}) == 1


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_half_of_the_rows_fit_and_those_are_sound(name: str, rng: np.random.Generator) -> None:
    sketch = in_blocks(PROGRAMS[name]())
    drawn = sample(sketch, _ROWS, rng)
    fits = np.flatnonzero(feasible(sketch, drawn.columns()))
    assert len(fits) >= _ROWS / 2
    for index in fits[:3]:
        verify(lower(sketch, drawn.row(int(index))))


def test_a_thread_transforms_the_data_of_a_tile_and_keeps_all_its_sums() -> None:
    sketch = in_blocks(conv2d_relu(14, 32, 48))
    ones = dict.fromkeys((decision.id for decision in sketch.decisions), 1)
    (root,) = lower(sketch, ones).roots
    private = [
        node.buffer
        for node in walk((root,))
        if isinstance(node, Allocate) and node.buffer.scope is Scope.LOCAL
    ]
    # columns of the results, rows of the data, products
    assert sorted(buffer.size for buffer in private) == [_SUMS // 2, _SUMS, _SUMS]
    for store, loops in stores((root,)):
        if store.targets[0].scope is Scope.SHARED and store.stage.name.endswith("tiles.cache"):
            unrolled = [loop for loop in loops if loop.kind is LoopKind.UNROLLED]
            assert np.prod([loop.extent for loop in unrolled]) == _SUMS
    (reader,) = (store for store, _ in stores((root,)) if store.targets[0].scope is Scope.OUTPUT)
    assert reader.stage is not None and reader.stage.name == "relu"


def test_virtual_threads_multiply_the_sums_but_not_what_a_fill_keeps() -> None:
    sketch = in_blocks(conv2d_relu(14, 32, 48))
    ones = dict.fromkeys((decision.id for decision in sketch.decisions), 1)
    single, twice = (
        lower(sketch, ones | {sketch.decision("relu.i3@1"): count}).roots[0] for count in (1, 2)
    )
    # another 16 sums, and a second filter for each step
    assert registers_of(twice, GPU) - registers_of(single, GPU) == _SUMS + 1


def test_points_are_tiles() -> None:
    """49 tiles of 2 x 2 results with 256 filters: 98 blocks of 128 threads are all there is."""
    sketch = in_blocks(conv2d_relu(14, 64, 256))
    drawn = sample(sketch, 256, np.random.default_rng(0))
    full = np.flatnonzero(fills(sketch, drawn.columns()) & feasible(sketch, drawn.columns()))
    assert len(full)
    for index in full[:8]:
        (root,) = lower(sketch, drawn.row(int(index))).roots
        assert threads_of((root,)) >= 128 and blocks_of(root) >= 49


def product() -> Tensor:
    k = reduce_axis(16, "k")
    a, b = placeholder((16, 16), name="a"), placeholder((16, 32), name="b", constant=True)
    return compute((16, 32), lambda i, j: reducers.sum(a[i, k] * b[k, j], axis=k), name="p")


def neighbours() -> ComputeDAG:
    """A tile reads a row of its own and one of the next tile."""
    p = product()
    return ComputeDAG([compute((30, 32), lambda i, j: p[i // 2, j] + p[i // 2 + 1, j], name="y")])


def read_twice() -> ComputeDAG:
    """The product is a result, too."""
    p = product()
    return ComputeDAG([p, compute((32, 32), lambda i, j: maximum(p[i // 2, j], 0.0), name="y")])


def repeated() -> ComputeDAG:
    p = product()
    return ComputeDAG([compute((32, 32), lambda i, j: maximum(p[i // 2, j], 0.0), name="y")])


@pytest.mark.parametrize(("program", "launches"), [(neighbours, 2), (read_twice, 2), (repeated, 1)])
def test_a_tile_is_made_of_products_of_its_own(
    program: Callable[[], ComputeDAG], launches: int, rng: np.random.Generator
) -> None:
    found = []
    for sketch in generate(program(), GPU):
        drawn = sample(sketch, 16, rng)
        assert feasible(sketch, drawn.columns()).any()
        nest = lower(sketch, drawn.row(0))
        verify(nest)
        found.append(len(nest.roots))
    assert min(found) == launches
