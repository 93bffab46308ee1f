"""The draft model: directions that must hold on any machine."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from autosched.search.sampling import sample_feasible
from autosched.tasks.spec import TaskSpec
from costmodel.extract import draft_seconds
from costmodel.extract.block_machine import LANES
from sketch.dag.dag import ComputeDAG
from sketch.lang.expr import cast
from sketch.lang.functions import maximum
from sketch.lang.tensor import compute, placeholder
from sketch.operators.conv import conv2d
from sketch.operators.matmul import matmul
from sketch.population.population import from_rows
from sketch.rules.generate import generate
from sketch.schedule.sketch import Sketch
from sketch.schedule.steps import Pack
from sketch.target.rates import Rates
from sketch.target.target import Target
from tests.support.workloads import depthwise


@pytest.fixture(scope="module")
def sketch(target: Target) -> Sketch:
    a = placeholder((512, 512), name="a")
    b = placeholder((512, 512), name="b", constant=True)
    return generate(ComputeDAG([matmul(a, b)]), target)[0]


def values(sketch: Sketch, target: Target, rows: int, vectors: int) -> dict[str, int]:
    """Everything 1, but the register tile and two parallel tasks."""
    row = {decision.id: 1 for decision in sketch.decisions}
    row[sketch.decision("matmul.i@3")], row[sketch.decision("matmul.j@3")] = rows, vectors
    row[sketch.decision("matmul.i@2")] = 256 // rows
    return row


def estimate(sketch: Sketch, target: Target, rows: int, vectors: int) -> float:
    row = values(sketch, target, rows, vectors)
    return float(draft_seconds(from_rows(replace(sketch, target=target), [row]))[0])


def test_accumulators_that_hide_the_latency_win(sketch: Sketch, target: Target) -> None:
    good = estimate(sketch, target, 4, 2)
    assert good < 0.6 * estimate(sketch, target, 1, 1)
    assert good < estimate(sketch, target, 2, 1)


def test_spills_are_punished(sketch: Sketch, target: Target) -> None:
    more = replace(target, registers=32)
    assert estimate(sketch, target, 8, 2) > 1.2 * estimate(sketch, more, 8, 2)
    assert estimate(sketch, target, 4, 2) == estimate(sketch, more, 4, 2)


def test_threads_help_where_there_are_tasks(sketch: Sketch, target: Target) -> None:
    one, two = target.with_threads(1), target.with_threads(2)
    assert estimate(sketch, two, 4, 2) < 0.8 * estimate(sketch, one, 4, 2)


def test_wider_vectors_are_faster(sketch: Sketch, target: Target) -> None:
    scalar = Target("cpu", "scalar", threads=2, vector_bytes=4, registers=16)
    assert estimate(sketch, target, 4, 2) < 0.5 * estimate(sketch, scalar, 4, 2)


def test_rates_are_those_of_the_target(sketch: Sketch, target: Target) -> None:
    usual = estimate(sketch, target, 4, 2)
    half = replace(target, rates=Rates(hertz=2e9))
    assert estimate(sketch, half, 4, 2) == pytest.approx(2 * usual, rel=1e-12)
    slow = replace(target, rates=Rates(l2=0.01, l3=0.01, memory=0.001))
    assert estimate(sketch, slow, 4, 2) > usual


def test_smaller_caches_are_not_faster(sketch: Sketch, target: Target) -> None:
    tiny = Target(
        "cpu", "tiny", threads=2, vector_bytes=32, registers=16, l1_bytes=1024, l2_bytes=8192,
        l3_bytes=65536,
    )  # fmt: skip
    assert estimate(sketch, tiny, 4, 2) > estimate(sketch, target, 4, 2)


@pytest.fixture(scope="module")
def first_layer(target: Target) -> list[Sketch]:
    """Sketches of a convolution of 3 channels, 3x3 taps, in steps of two."""
    data = placeholder((1, 64, 64, 3), name="data")
    weight = placeholder((3, 3, 3, 16), name="weight", constant=True)
    conv = conv2d(data, weight, stride=2, padding=1)
    relu = compute(conv.shape, lambda n, h, w, c: maximum(conv[n, h, w, c], 0.0), name="relu")
    return list(generate(ComputeDAG([relu]), target))


def seconds_of(sketch: Sketch, target: Target, **chosen: int) -> float:
    """Draft seconds where all other decisions are 1; ``_`` stands for ``.`` and for ``@``."""
    named = sketch.labels.items()
    names = {label.replace(".", "_").replace("@", "_"): decision for decision, label in named}
    row = dict.fromkeys(names.values(), 1) | {names[name]: n for name, n in chosen.items()}
    return float(draft_seconds(from_rows(replace(sketch, target=target), [row]))[0])


def with_rates(target: Target, **rates: float) -> Target:
    return replace(target, rates=replace(target.rates, **rates))


def test_what_fits_the_last_cache_is_not_fetched_from_memory(
    sketch: Sketch, target: Target
) -> None:
    slow = with_rates(target, memory=0.001)
    assert estimate(sketch, slow, 4, 2) == estimate(sketch, target, 4, 2)
    small, slower = replace(target, l3_bytes=2**20), replace(slow, l3_bytes=2**20)
    assert estimate(sketch, slower, 4, 2) > 2 * estimate(sketch, small, 4, 2)


def test_a_prefetch_takes_the_slot_of_a_load(sketch: Sketch, target: Target) -> None:
    row, ahead = values(sketch, target, 1, 2), sketch.decision("matmul.local.j@prefetch")
    near = replace(sketch, target=with_rates(target, unfetched=1e-9, memory=1e9))
    on, off = (float(draft_seconds(from_rows(near, [{**row, ahead: used}]))[0]) for used in (1, 0))
    assert on > off


def test_spread_prefetches_do_not_come_in_a_burst(sketch: Sketch, target: Target) -> None:
    """Each panel of 16 KB is read for 64 tiles of rows: one after the other, or all panels for each
    tile, so that the first tile waits for all of them.
    """
    names = {"i": "matmul.i", "j": "matmul.j"}
    ahead = sketch.decision("matmul.local.j@prefetch")
    small = replace(target, l2_bytes=2**20 - 64)  # half of the panels and nothing else
    machines = [replace(sketch, target=with_rates(small, memory=m)) for m in (0.08, 0.01)]

    def waiting(**order: int) -> float:
        row = values(sketch, target, 4, 1) | {ahead: 1}
        row |= {sketch.decision(f"{names[n[0]]}@{n[1]}"): v for n, v in order.items()}
        usual, longer = (float(draft_seconds(from_rows(s, [row]))[0]) for s in machines)
        return longer / usual

    assert waiting(i1=64, i2=1, j2=32) > 1.01 * waiting(i1=1, i2=64, j1=32)


def test_constants_beyond_l2_that_are_read_again_are_better_fetched_ahead(
    sketch: Sketch, target: Target
) -> None:
    """The better, the less lies between a prefetch and its use: a panel has 16 KB here."""
    row, ahead = values(sketch, target, 4, 1), sketch.decision("matmul.local.j@prefetch")

    def waiting(used: int, l2_bytes: int) -> float:
        small = replace(target, l2_bytes=l2_bytes)
        machines = (with_rates(small, unfetched=share) for share in (1e-9, 99.0))
        usual, slow = (
            draft_seconds(from_rows(replace(sketch, target=machine), [{**row, ahead: used}]))[0]
            for machine in machines
        )
        return float(slow / usual)

    assert waiting(0, 2**17) > 1.2
    assert waiting(0, 2**17) - 1 > 3 * (waiting(1, 2**17) - 1) > 0
    assert waiting(1, 2**17) < waiting(1, 2**16) < waiting(1, 2**15) < waiting(0, 2**15)


def test_a_few_rows_have_the_times_that_they_have_among_many(target: Target) -> None:
    """Few are computed by NumPy, many by compiled code."""
    data = placeholder((1, 28, 28, 32), name="data")
    weight = placeholder((3, 3, 32, 32), name="weight", constant=True)
    dag = ComputeDAG([conv2d(data, weight, padding=1)])
    task = TaskSpec(dag, target)
    variant = task.variant("winograd-4")
    sketch = generate(variant.dag, target, variant=variant.name)[0]
    rows = sample_feasible(sketch, 4 * LANES, np.random.default_rng(0))
    few = [draft_seconds(rows.take(np.arange(n, n + 2))) for n in range(0, rows.count - 1, 2)]
    together = draft_seconds(rows)
    np.testing.assert_allclose(np.concatenate(few), together[: 2 * len(few)], rtol=1e-12)


@pytest.mark.parametrize(("dtype", "slower"), [("uint8", True), ("float32", False)])
def test_threads_that_write_the_same_lines_wait_for_each_other(
    dtype: str, slower: bool, target: Target
) -> None:
    """Of bytes a line is 64 columns; threads that have rows of their own share none."""
    a = placeholder((64, 64), name="a")
    b = placeholder((64, 64), name="b", constant=True)
    product = matmul(a, b)
    bytes_ = compute((64, 64), lambda i, j: cast(product[i, j], dtype), name="c")
    columns, rows = generate(ComputeDAG([bytes_]), target)[:2]  # which are walked outside

    def grows(sketch: Sketch, **tiles: int) -> bool:
        one, other = (with_rates(target, shared_line=cycles) for cycles in (1e-9, 999.0))
        return seconds_of(sketch, other, **tiles) > 1.1 * seconds_of(sketch, one, **tiles)

    assert grows(columns, c_j_2=32 // target.lanes()) == slower
    assert not grows(columns, c_j_2=64 // target.lanes())
    assert not grows(rows, c_j_2=32 // target.lanes())


@pytest.mark.parametrize(
    ("depth", "rows", "slower"),
    [
        (1024, 16, True),  # rows a page apart: one set of the first cache, which has eight ways
        (1024, 8, False),
        (768, 16, False),  # in four sets
    ],
)
def test_more_rows_in_a_set_of_the_first_cache_than_it_has_ways_are_fetched_again(
    depth: int, rows: int, slower: bool, target: Target
) -> None:
    machine = with_rates(replace(target, registers=32, l1_bytes=2**15), l2=0.1)

    def step_seconds(depth: int) -> float:
        a = placeholder((64, depth), name="a")
        b = placeholder((depth, 64), name="b", constant=True)
        sketch = generate(ComputeDAG([matmul(a, b)]), machine)[0]
        tile = {"matmul_i_3": rows, "matmul_i_2": 64 // rows, "matmul_j_2": 2}
        return seconds_of(sketch, machine, **tile) / depth

    spread = step_seconds(depth + 16)  # rows in different sets
    assert step_seconds(depth) > 1.3 * spread if slower else step_seconds(depth) < 1.05 * spread


@pytest.mark.parametrize(("columns", "slower"), [(1024, True), (1024 + 16, False)])
def test_columns_of_rows_that_are_pages_apart_leave_the_second_cache(
    columns: int, slower: bool, target: Target
) -> None:
    """512 rows of 128 bytes are a small part of it, but of all of its sets they take one in 32."""
    machine = with_rates(replace(target, l1_bytes=2**15, l2_bytes=2**20, l3_bytes=2**25), l3=0.01)

    def per_column(columns: int) -> float:
        a, b = placeholder((64, 512), name="a"), placeholder((512, columns), name="b")
        sketches = generate(ComputeDAG([matmul(a, b)]), machine)
        sketch = next(s for s in sketches if not any(isinstance(x, Pack) for x in s.steps))
        tile = {"matmul_i_3": 4, "matmul_i_2": 16, "matmul_j_3": 2}
        return seconds_of(sketch, machine, **tile) / columns

    spread = per_column(columns + 16)
    assert per_column(columns) > 1.3 * spread if slower else per_column(columns) < 1.1 * spread


def test_unrolled_reductions_that_do_not_divide_are_slower(
    first_layer: list[Sketch], target: Target
) -> None:
    harder = with_rates(target, partial_reduce=2.0)
    for sketch in first_layer[:1]:
        whole, partial = (
            seconds_of(sketch, harder, relu_w_3=4, conv2d_rc_unroll=copies)
            / seconds_of(sketch, target, relu_w_3=4, conv2d_rc_unroll=copies)
            for copies in (1, 2)
        )
        assert whole == 1.0
        assert partial > 1.5


def test_the_last_of_two_trips_leaves_no_loop_to_spill_for(target: Target) -> None:
    """Three taps, two at a time: what every copy has for itself waits in no register."""
    sketch = generate(depthwise(16, 64), target)[0]
    harder = with_rates(target, partial_reduce=2.0)

    def loss(**chosen: int) -> float:
        tile = {"clip_i2_3": 4, "depthwise_rw_unroll": 2, **chosen}
        return seconds_of(sketch, harder, **tile) / seconds_of(sketch, target, **tile)

    assert loss() == 1.0  # columns decide the horizontal taps: all copies are written out
    assert loss(clip_i2_3=1, clip_i1_3=4) > 1.2  # a loop over taps, of unknown bounds


def test_edges_beyond_the_budget_are_slower(first_layer: list[Sketch], target: Target) -> None:
    """The fewer copies fit, the more predicates are left."""

    def loss(budget: int) -> float:
        small = replace(target, instruction_budget=budget)
        chosen = {"relu_w_3": 4, "relu_w_2": 4, "relu_h_3": 2}
        slow = seconds_of(first_layer[0], with_rates(small, guarded=8.0), **chosen)
        return slow / seconds_of(first_layer[0], with_rates(small, guarded=1.0), **chosen)

    assert loss(16) > loss(64) > loss(128) > 1.0
    assert loss(4096) == 1.0


def test_copies_for_edges_compute_what_is_inside(first_layer: list[Sketch], target: Target) -> None:
    """Tiles of 24 of 32 columns: without copies the last one is computed whole."""
    free = with_rates(target, guarded=1.0)
    few, many = replace(free, instruction_budget=16), replace(free, instruction_budget=4096)
    uneven, even = (
        seconds_of(first_layer[0], few, relu_w_3=columns)
        / seconds_of(first_layer[0], many, relu_w_3=columns)
        for columns in (24, 32)
    )
    assert even == 1.0
    assert uneven > 1.1


def test_few_accumulators_at_an_edge_wait_for_their_updates(target: Target) -> None:
    """The last of 16 rows alone, behind a tile of 15, takes more than a fifteenth of its time."""
    operands = placeholder((16, 256), name="a"), placeholder((256, 64), name="b", constant=True)
    sketch = generate(ComputeDAG([matmul(*operands)]), target)[0]
    roomy = replace(target, registers=64, instruction_budget=4096)
    slow, fast = with_rates(roomy, chain_slack=1.0), with_rates(roomy, chain_slack=1e6)
    even, uneven = (
        seconds_of(sketch, slow, matmul_i_3=rows) / seconds_of(sketch, fast, matmul_i_3=rows)
        for rows in (16, 15)
    )
    assert even == 1.0
    assert uneven > 1.1


def test_accumulators_that_wait_in_memory_are_slower(
    first_layer: list[Sketch], target: Target
) -> None:
    slow = with_rates(target, memory_accumulator=20.0)
    ratios = [
        seconds_of(sketch, slow, relu_w_2=4, relu_w_3=4)
        / seconds_of(sketch, target, relu_w_2=4, relu_w_3=4)
        for sketch in first_layer
    ]
    assert ratios[0] == 1.0
    assert max(ratios) > 1.2


def test_loops_of_unknown_bounds_spill_a_full_tile(
    first_layer: list[Sketch], target: Target
) -> None:
    # Rows alone move the vertical guard: the taps of a row become a loop of unknown bounds.
    many = replace(target, registers=64)
    chosen = {"relu_h_3": 7, "relu_c_3": 2}
    slow = with_rates(target, tile_accumulator=30.0, spill=1e-9, spill_start=1e-9)
    free = replace(slow, registers=64)
    assert seconds_of(first_layer[0], slow, **chosen) > 1.2 * seconds_of(
        first_layer[0], free, **chosen
    )
    one = {"relu_h_3": 7}
    assert seconds_of(first_layer[0], slow, **one) == seconds_of(first_layer[0], free, **one)
    assert seconds_of(first_layer[0], many, **one) == seconds_of(first_layer[0], target, **one)


def test_tiles_over_several_pages_wait_longer(sketch: Sketch, target: Target) -> None:
    """Four rows of 8 KiB each; four vectors of one row are neighbours."""
    wide = ComputeDAG(
        [matmul(placeholder((64, 2048), name="a"), placeholder((2048, 64), name="b"))]
    )
    tall = generate(wide, target)[0]
    slow = with_rates(target, jumping=50.0)
    rows = seconds_of(tall, slow, matmul_i_3=4) / seconds_of(tall, target, matmul_i_3=4)
    vectors = seconds_of(tall, slow, matmul_j_3=4) / seconds_of(tall, target, matmul_j_3=4)
    assert rows > 1.2
    assert vectors == 1.0
