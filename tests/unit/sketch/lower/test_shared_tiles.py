"""Tiles in shared memory: how many, how they lie, and what steps may ask for."""

from __future__ import annotations

import numpy as np
import pytest

from sketch.errors import ScheduleError
from sketch.lower import lower
from sketch.nest.interpreter import run_nest
from sketch.nest.loopnest import Allocate, Buffer, Scope
from sketch.nest.walk import walk
from sketch.oracle.interpret import interpret
from sketch.population.feasible_gpu import shared_bytes_of
from sketch.rules.generate import generate
from sketch.schedule.replay import apply_step
from sketch.schedule.stage import Role, StageId
from sketch.schedule.steps import SharedTiles
from sketch.target.gpu_targets import cuda_target
from tests.support.cuda_programs import GPU, MATMUL, MATMUL_ROW, row_of
from tests.support.workloads import matmul_dag, random_inputs


def tile_of_lhs(layout: int, count: int = 1, deep: int = 1) -> Buffer:
    """The tile of A: 16 x 4 or some times as deep."""
    (sketch,) = generate(matmul_dag(*MATMUL[:2], 64), GPU)
    changes = row_of({
        "A.cache.d1@layout": layout, "C.local.k@tiles": count, "C.local.k@1": 2 * deep,
    })  # fmt: skip
    nodes = walk(lower(sketch, {**MATMUL_ROW, **changes}).roots)
    found = [n.buffer for n in nodes if isinstance(n, Allocate)]
    return next(b for b in found if b.scope is Scope.SHARED and b.name.startswith("A"))


@pytest.mark.parametrize(
    ("layout", "strides", "size"),
    [(0, (4, 1), 64), (1, (8, 1), 128), (2, (1, 16), 64), (3, (1, 20), 80)],
)
def test_layouts(layout: int, strides: tuple[int, int], size: int) -> None:
    tile = tile_of_lhs(layout)
    assert tile.strides == strides
    assert tile.size == size


@pytest.mark.parametrize(
    ("layout", "deep", "swizzle"),
    [(4, 1, (4, 4, 1)), (4, 8, (32, 4, 8)), (4, 3, (12, 4, 1)), (0, 8, None), (3, 8, None)],
)  # fmt: skip
def test_pieces_of_rows_change_places(
    layout: int, deep: int, swizzle: tuple[int, int, int] | None
) -> None:
    tile = tile_of_lhs(layout, deep=deep)
    found = tile.swizzle
    assert swizzle == (None if found is None else (found.row, found.piece, found.pieces))
    assert tile.size == 64 * deep or layout == 3
    assert tile.swizzled == (swizzle is not None and swizzle[2] > 1)


@pytest.mark.parametrize("layout", [0, 1, 2, 3, 4])
def test_every_layout_computes_the_same(layout: int, rng: np.random.Generator) -> None:
    dag = matmul_dag(*MATMUL)
    (sketch,) = generate(dag, GPU)
    row = {**MATMUL_ROW, **row_of({"A.cache.d1@layout": layout, "C.local.k@tiles": 3})}
    inputs = random_inputs(dag, rng)
    result = run_nest(lower(sketch, row), inputs)["C"].reshape(MATMUL[:2])
    np.testing.assert_allclose(result, interpret(dag, inputs)["C"], rtol=1e-5, atol=1e-5)


def test_shared_memory_grows_with_tiles() -> None:
    (sketch,) = generate(matmul_dag(*MATMUL), GPU)
    counts = np.array([1, 2, 3, 4])
    rows = {name: np.full(4, value) for name, value in MATMUL_ROW.items()}
    (root,) = lower(sketch, {**rows, sketch.decision("C.local.k@tiles"): counts}).roots
    found = shared_bytes_of(root)
    np.testing.assert_array_equal(found, found[0] * counts)


@pytest.mark.parametrize(("arch", "counts"), [("sm_75", (1, 2)), ("sm_80", (1, 2, 3, 4))])
def test_architectures_without_asynchronous_copies_have_two_tiles_at_most(
    arch: str, counts: tuple[int, ...]
) -> None:
    (sketch,) = generate(matmul_dag(*MATMUL), cuda_target(arch))
    choices = {sketch.labels[d.id]: d.choices for d in sketch.decisions}
    assert choices["C.local.k@tiles"] == counts


SUM = StageId(StageId(0), Role.ACCUMULATE)
COPY = StageId(SUM, Role.CACHE)


@pytest.mark.parametrize(
    ("step", "message"),
    [
        (SharedTiles(SUM), "has no tiles in shared memory"),
        (SharedTiles(COPY, dim=2), "has no dimension 2"),
        (SharedTiles(COPY, count=5), "cannot have tiles 5"),
        (SharedTiles(COPY, count=0), "cannot have tiles 0"),
        (SharedTiles(COPY, layout=5), "cannot have layout 5"),
    ],
)
def test_tiles_that_no_stage_can_have_are_refused(step: SharedTiles, message: str) -> None:
    (sketch,) = generate(matmul_dag(*MATMUL), GPU)
    with pytest.raises(ScheduleError, match=message):
        apply_step(sketch.program, step)
