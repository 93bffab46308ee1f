"""The draft model of GPUs: lanes exactly, the rest in the right direction."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping

import numpy as np
import pytest

from autosched.workloads import get
from costmodel.extract import draft_seconds, features_of
from costmodel.extract.assemble import draft_columns, feature_columns
from costmodel.extract.gpu_kernel import kernel_shapes
from costmodel.extract.gpu_lanes import distinct, reordered, sectors, wavefronts
from costmodel.feature_table import FEATURE_INDEX, FEATURE_NAMES
from sketch.dag.dag import ComputeDAG
from sketch.lang.tensor import placeholder
from sketch.lower import lower
from sketch.nest.loopnest import Swizzle
from sketch.operators.elementwise import relu
from sketch.population.blocks_gpu import blocks_of, threads_of
from sketch.population.population import sample
from sketch.rules.generate import generate
from sketch.target.gpu_targets import cuda_target
from tests.support.cuda_programs import feasible_rows, row_of
from tests.support.targets import SMALL
from tests.support.workloads import conv2d_relu, matmul_dag

TARGET = cuda_target("h200")
ONE = np.arange(1)
WARP = 32


def passes(*loops: tuple[float, float], element_bytes: int = 4) -> float:
    return float(wavefronts(ONE, WARP, element_bytes, loops)[0])


@pytest.mark.parametrize(
    ("loops", "expected"),
    [
        (((32.0, 1.0),), 1),  # one after another
        (((32.0, 0.0),), 1),  # all read one word
        (((32.0, 2.0),), 2),
        (((32.0, 32.0),), 32),  # a column of a tile of 32
        (((32.0, 33.0),), 1),  # padded
        (((8.0, 32.0), (4.0, 1.0)), 8),
        (((4.0, 8.0), (8.0, 1.0)), 1),
        (((2.0, 1.0), (16.0, 0.0)), 1),
    ],
)
def test_passes_of_shared_memory(loops: tuple[tuple[float, float], ...], expected: int) -> None:
    assert passes(*loops) == expected


def test_pieces_that_change_places_have_fewer_conflicts() -> None:
    """As counting the banks of each lane does, of columns and of tiles of a warp."""
    swizzle = Swizzle(32, 4, 8)
    cases = [[(32.0, 32.0)], [(8.0, 32.0), (4.0, 4.0)], [(16.0, 64.0), (2.0, 1.0)], [(32.0, 1.0)]]
    for loops in cases:
        words = [0]
        for extent, step in loops:
            words = [word + int(step) * n for word in words for n in range(int(extent))]
        moved = {word ^ word // 32 % 8 * 4 for word in words}
        expected = max(Counter(word % 32 for word in moved).values())
        assert wavefronts(ONE, WARP, 4, loops, swizzle)[0] == expected
    assert wavefronts(ONE, WARP, 4, cases[0], swizzle)[0] == 4 < passes(*cases[0])


def test_halves_of_a_word_do_not_conflict() -> None:
    assert passes((32.0, 1.0), element_bytes=2) == 1
    assert passes((32.0, 32.0), element_bytes=2) == 16


def test_sectors_and_distinct_elements() -> None:
    assert float(sectors(ONE, WARP, 4, [(32.0, 1.0)])[0]) == 4
    assert float(sectors(ONE, WARP, 4, [(32.0, 8.0)])[0]) == 32
    assert float(sectors(ONE, WARP, 4, [(32.0, 0.0)])[0]) == 1
    assert float(sectors(ONE, WARP, 2, [(32.0, 1.0)])[0]) == 2
    assert float(distinct(ONE, WARP, [(8.0, 1.0), (4.0, 0.0)])[0]) == 8


def test_rows_of_a_population_are_counted_each_for_itself() -> None:
    programs = np.arange(3)
    steps = np.array([1.0, 8.0, 0.0])
    np.testing.assert_array_equal(sectors(programs, WARP, 4, [(32.0, steps)]), [4, 32, 1])


def matmul_row(**changes: int) -> Mapping[str, int]:
    """64 x 64 tiles of 256 threads with 4 x 4 results each, 16 deep."""
    row = {
        "C.i@1": 1, "C.i@2": 16, "C.i@3": 1, "C.i@4": 4,
        "C.j@1": 1, "C.j@2": 16, "C.j@3": 1, "C.j@4": 4,
        "C.local.k@1": 4, "C.local.k@2": 4,
        "C.local.k@tiles": 1, "A.cache.d1@layout": 0, "B.cache.d1@layout": 0,
    }  # fmt: skip
    changed = {name.replace("_", ".").replace("at", "@"): n for name, n in changes.items()}
    return row_of({**row, **changed})


def seconds_of(row: Mapping[str, int], size: int = 1024) -> float:
    (sketch, *_) = generate(matmul_dag(size, size, size), TARGET)
    parts = draft_columns(lower(sketch, dict(row)), ONE, TARGET)
    return float(sum(np.broadcast_to(part, (1,))[0] for part in parts))


def test_tiles_of_results_are_better_than_one_result_a_thread() -> None:
    assert seconds_of(matmul_row()) < 0.7 * seconds_of(matmul_row(C_iat4=1, C_jat4=1))


def test_whole_warps_are_better_than_parts() -> None:
    assert seconds_of(matmul_row()) < seconds_of(matmul_row(C_iat2=2, C_jat2=4))


def test_a_block_for_every_processor_is_better_than_few_blocks() -> None:
    few = matmul_row(C_iat4=8, C_jat4=8)
    assert seconds_of(matmul_row(), size=256) < seconds_of(few, size=256)


def test_blocks_that_keep_all_schedulers_busy_are_better_than_small_ones() -> None:
    small, full = matmul_row(C_iat2=8, C_jat2=8), matmul_row(C_iat2=16, C_jat2=8)
    assert seconds_of(full, size=256) < seconds_of(small, size=256)


def test_a_kernel_of_many_blocks_of_one_warp_waits_for_their_ends() -> None:
    (sketch,) = generate(ComputeDAG([relu(placeholder((512, 512), name="x"))]), TARGET)
    row = {"relu.i0@1": 1, "relu.i0@2": 1, "relu.i1@1": 32, "relu.i1@2": 1}
    rows = [row_of({**row, "relu.i1@1": threads}, sketch) for threads in (32, 256)]
    nests = [lower(sketch, row) for row in rows]
    small, full = (float(np.ravel(sum(draft_columns(nest, ONE, TARGET)))[0]) for nest in nests)
    assert full < 0.86 * small


def test_no_schedule_is_faster_than_the_arithmetic_units() -> None:
    dag = matmul_dag(1024, 1024, 1024)
    (sketch, *_) = generate(dag, TARGET)
    rows = feasible_rows(sketch, 64, np.random.default_rng(0))
    card = TARGET.card
    peak = 2.0 * card.fma_lanes * TARGET.threads * card.hertz
    assert draft_seconds(rows).min() > dag.flops / peak


def test_rows_that_a_block_reads_again_come_from_memory_once() -> None:
    """64 MB in, 64 MB out, more than L2 holds; three stages read what comes in."""
    (sketch, *_) = generate(get("SFM").dag(1, 16384, 1024), TARGET)
    rows = feasible_rows(sketch, 256, np.random.default_rng(0))
    least = 2 * 4 * 16384 * 1024 / TARGET.card.memory_bytes_per_s
    assert least <= draft_seconds(rows).min() < 2 * least


def test_what_a_processor_holds_is_bounded_by_threads_registers_and_shared_memory() -> None:
    (sketch, *_) = generate(matmul_dag(1024, 1024, 1024), TARGET)
    nest = lower(sketch, dict(matmul_row()))
    shape = next(iter(kernel_shapes(nest, TARGET).values()))
    assert (shape.blocks, shape.threads) == (256.0, 256.0)
    assert shape.resident * shape.threads <= TARGET.card.threads_per_processor
    assert shape.resident * shape.threads * shape.registers <= TARGET.card.registers_per_processor
    assert shape.busiest == 2.0  # 256 blocks on 132 processors


PICKS: Mapping[str, Callable[[], ComputeDAG]] = {
    "matmul": lambda: matmul_dag(1024, 1024, 1024),
    "conv2d": lambda: conv2d_relu(56, 64, 64, 3, 1, 1),
    "conv2d of few results": lambda: conv2d_relu(28, 128, 128, 3, 1, 1),
    "softmax": lambda: get("SFM").dag(1, 4096, 1024),
}


@pytest.mark.parametrize("name", sorted(PICKS))
def test_the_best_of_the_draft_fills_the_gpu_with_whole_warps(name: str) -> None:
    rng = np.random.default_rng(0)
    found = []
    for sketch in generate(PICKS[name](), TARGET):
        rows = feasible_rows(sketch, 256, rng)
        seconds = draft_seconds(rows)
        best = int(np.argmin(seconds))
        found.append((float(seconds[best]), lower(sketch, rows.row(best))))
    _, nest = min(found, key=lambda pair: pair[0])
    work = nest.roots[0]  # what comes after it adds up parts
    assert int(threads_of((work,))) % WARP == 0
    assert int(threads_of((work,))) >= 128
    assert int(blocks_of(work)) >= TARGET.threads


def test_gpu_features_are_those_of_each_row_and_zero_on_cpus() -> None:
    (sketch, *_) = generate(matmul_dag(256, 256, 256), TARGET)
    rows = feasible_rows(sketch, 8, np.random.default_rng(0))
    together, again = features_of(rows), features_of(rows)
    np.testing.assert_allclose(together.values, again.values, rtol=1e-6)
    place = FEATURE_INDEX["gpu_threads"]
    for index in range(rows.count):
        nest = lower(sketch, rows.row(index))
        assert (together.values[:, place, index] == int(threads_of((nest.roots[0],)))).all()
    assert np.isfinite(together.values).all()
    columns = feature_columns(lower(sketch, rows.row(0)), ONE, sketch.dag, TARGET)
    on_gpu = {name for name in FEATURE_NAMES if name.startswith("gpu_")}
    assert all(on_gpu <= set(found) for found in columns.values())
    (on_cpu, *_) = generate(matmul_dag(64, 64, 64), SMALL)
    columns = feature_columns(
        lower(on_cpu, sample(on_cpu, 1, np.random.default_rng(0)).row(0)), ONE, on_cpu.dag, SMALL
    )
    assert not any(on_gpu & set(found) for found in columns.values())


def test_tiles_that_are_copied_ahead_hide_latency() -> None:
    row = matmul_row()
    ahead = {**row, **row_of({"C.local.k@tiles": 2})}
    assert seconds_of(ahead) < 0.95 * seconds_of(row)


def test_copies_that_turn_a_tile_are_made_of_single_elements() -> None:
    row = matmul_row()
    assert seconds_of({**row, **row_of({"A.cache.d1@layout": 2})}) > seconds_of(row)


def test_rows_are_in_the_same_order_at_steps_of_its_period() -> None:
    rows, pieces = np.array([64, 64, 16, 16]), np.array([8, 8, 4, 1])
    steps = np.array([4 * 64.0, 8 * 64.0, 4 * 16.0, 3.0])
    found = reordered(np.arange(4), [steps, 0.0], Swizzle(rows, 4, pieces))
    assert found.tolist() == [1.0, 0.0, 0.0, 0.0]


def test_reads_of_rows_whose_order_differs_between_threads_cost_an_address_each() -> None:
    """Threads read 4 rows each, at constant places in rows of 4 pieces, not in those of 8."""
    turned = row_of({"A.cache.d1@layout": 4})
    four, eight = matmul_row(), matmul_row(C_local_kat1=8)
    assert seconds_of({**four, **turned}) < 1.05 * seconds_of(four)
    assert seconds_of({**eight, **turned}) > 1.2 * seconds_of(eight)
