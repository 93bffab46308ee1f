"""Products that read what is made of other products: one nest over blocks of rows."""

from __future__ import annotations

from dataclasses import replace
from math import prod

import numpy as np
import pytest

from codegen.host import host_target
from sketch.dag.dag import ComputeDAG
from sketch.lang import reducers
from sketch.lang.expr import Axis, Expr, cast
from sketch.lang.functions import maximum
from sketch.lang.tensor import compute, placeholder, reduce_axis
from sketch.lower.lower import lower
from sketch.nest.loopnest import LoopKind
from sketch.nest.walk import stores
from sketch.operators.broadcast import add
from sketch.operators.einsum import einsum
from sketch.operators.matmul import matmul
from sketch.operators.softmax import softmax
from sketch.oracle.interpret import interpret
from sketch.oracle.reference import reference
from sketch.population.feasible import feasible
from sketch.population.population import sample
from sketch.rules.generate import generate
from sketch.schedule.sketch import Sketch
from sketch.schedule.steps import Tensorize
from sketch.target.target import Target
from sketch.variants.late_factors import late_factors
from sketch.verify import verify
from tests.support.compiled import run_compiled
from tests.support.units import TILES, WIDE
from tests.support.workloads import random_inputs

ONE = host_target(threads=1)
# One rounding to the stored dtype may fall the other way; sums of float32 lose a little more.
_TOLERANCE = 1e-5


def attention(queries: int, keys: int, heads: int, size: int, axis: int = -1) -> ComputeDAG:
    q = placeholder((1, queries, heads, size), name="q")
    k, v = (placeholder((1, keys, heads, size), name=name) for name in "kv")
    scores = einsum((q, k), ("bihd", "bjhd"), "bhij", name="scores")

    def scaled(*point: Axis) -> Expr:
        return scores[point] * 0.25

    weights = softmax(compute(scores.shape, scaled, "scaled"), axis)
    return ComputeDAG([einsum((weights, v), ("bhij", "bjhd"), "bihd", name="mix")])


def narrow_attention(rows: int, heads: int, size: int) -> ComputeDAG:
    """Products of bfloat16 elements; scores and sums are float32."""
    q, k, v = (placeholder((1, rows, heads, size), "bfloat16", name=name) for name in "qkv")
    scores = einsum((q, k), ("bihd", "bjhd"), "bhij", "scores", "float32")
    weights = softmax(scores)
    rounded = compute(weights.shape, lambda *point: cast(weights[point], "bfloat16"), "rounded")
    return ComputeDAG([einsum((rounded, v), ("bhij", "bjhd"), "bihd", "mix", "float32")])


def perceptron(rows: int, inputs: int, inner: int, outputs: int) -> ComputeDAG:
    x = placeholder((rows, inputs), name="x")
    first = placeholder((inputs, inner), name="first", constant=True)
    second = placeholder((inner, outputs), name="second", constant=True)
    hidden = matmul(x, first, "hidden")
    active = compute(hidden.shape, lambda i, j: maximum(hidden[i, j], 0.0), "active")
    return ComputeDAG([matmul(active, second, "result")])


def masked(queries: int, keys: int, heads: int, size: int) -> ComputeDAG:
    """Attention with two masks, one of all heads and one of all batches."""
    q = placeholder((2, queries, heads, size), name="q")
    k, v = (placeholder((2, keys, heads, size), name=name) for name in "kv")
    rows = placeholder((1, 1, queries, keys), name="rows", constant=True)
    bias = placeholder((1, heads, queries, keys), name="bias", constant=True)
    scores = einsum((q, k), ("bihd", "bjhd"), "bhij", name="scores")
    weights = softmax(add(add(scores, rows, "once"), bias, "twice"))
    return ComputeDAG([einsum((weights, v), ("bhij", "bjhd"), "bihd", name="mix")])


@pytest.mark.parametrize(
    "dag",
    [attention(37, 19, 2, 5), masked(17, 33, 2, 5), perceptron(67, 9, 33, 18)],
    ids=["attention", "masked", "perceptron"],
)
def test_every_sketch_computes_what_the_oracle_does(dag: ComputeDAG) -> None:
    rng = np.random.default_rng(7)
    inputs = random_inputs(dag, rng)
    expected = reference(dag, inputs, rng)
    for sketch in generate(dag, ONE)[::5]:  # each way to tile and to pack once
        row = sample(sketch, 1, rng).row(0)
        verify(lower(sketch, row))
        outputs = run_compiled(sketch, row, inputs, ONE)
        name = dag.outputs[0].name
        shaped = {name: outputs[name].reshape(dag.outputs[0].shape)}
        assert expected.check(shaped) <= _TOLERANCE, sketch.key


@pytest.mark.parametrize("threads", [1, 2, 64])
@pytest.mark.parametrize(
    ("queries", "keys", "heads"), [(8, 8, 12), (4, 32, 16), (32, 32, 3), (77, 77, 1)]
)
def test_few_rows_are_chains_however_many_threads_share_them(
    queries: int, keys: int, heads: int, threads: int
) -> None:
    """What a graph joins from 64 rows on is one nest, of which the hardware takes some rows."""
    dag, target = attention(queries, keys, heads, 64), host_target(threads)
    sketches = generate(dag, target)
    assert not any(workspaces(dag, sketch) for sketch in sketches)
    rng = np.random.default_rng(0)
    drawn = (sample(sketch, 64, rng) for sketch in sketches)
    assert any(feasible(rows.sketch, rows.columns()).any() for rows in drawn)


@pytest.mark.parametrize("target", [WIDE, TILES], ids=["vectors", "tiles"])
def test_products_of_a_chain_are_on_units(target: Target) -> None:
    """Both or the first; the weights are as exact as their rounding leaves them."""
    dag, rng = narrow_attention(36, 2, 8), np.random.default_rng(7)
    inputs = random_inputs(dag, rng)
    expected = interpret(dag, inputs)["mix"]
    numbers = {s: sum(isinstance(x, Tensorize) for x in s.steps) for s in generate(dag, target)}
    assert set(numbers.values()) == {0, 1, 2}
    for sketch in [s for s, units in numbers.items() if units == 2][::3]:
        assert not workspaces(dag, sketch)
        row = sample(sketch, 1, rng).row(0)
        verify(lower(sketch, row))
        found = run_compiled(sketch, row, inputs, ONE)["mix"].reshape(expected.shape)
        assert np.abs(found - expected).max() <= 2.0**-9 * np.abs(expected).max()


def workspaces(dag: ComputeDAG, sketch: Sketch) -> set[str]:
    """What is as large as all rows, of what lies between the products."""
    row = sample(sketch, 1, np.random.default_rng(0)).row(0)
    return {b.name for b in lower(sketch, row).workspaces} - {"k.cache", "v.cache"}


def test_nothing_between_the_products_is_as_large_as_all_rows() -> None:
    dag = attention(64, 32, 2, 8)
    assert not any(workspaces(dag, sketch) for sketch in generate(dag, ONE))


def test_scores_get_their_masks_where_they_are_computed() -> None:
    """Then statistics of a row read it once, lane by lane, and are no products of masks."""
    for sketch in generate(masked(64, 32, 2, 8), ONE):
        plans = {plan.op.name: plan for plan in sketch.program.stages}
        assert "once" not in plans
        assert "softmax.max.local" not in plans
        attached = plans["scores"].attach
        assert attached is not None
        assert attached[0] == plans["twice"].id


def test_statistics_of_columns_keep_rows_from_being_cut_into_blocks() -> None:
    dag = attention(64, 32, 2, 8, axis=2)
    assert all(workspaces(dag, sketch) for sketch in generate(dag, ONE)[:8])


def test_a_few_rows_are_not_cut_into_blocks() -> None:
    dag = perceptron(8, 16, 32, 32)
    assert all(workspaces(dag, sketch) for sketch in generate(dag, ONE))


@pytest.mark.parametrize(("room", "together"), [(9, 4), (3, 2), (1, 1)])
def test_rows_that_fit_the_first_cache_are_computed_together(room: int, together: int) -> None:
    """What is read and what is written of them takes half of it."""
    dag = attention(64, 32, 2, 8)
    for sketch in generate(dag, replace(ONE, l1_bytes=room * 3 * 4 * 32)):
        plans = {plan.op.name: plan for plan in sketch.program.stages}
        host, trips = plans["softmax"], {}
        for store, loops in stores(lower(sketch, sample(sketch, 1, _rng()).row(0)).roots):
            unrolled = [int(n.extent) for n in loops if n.kind is LoopKind.UNROLLED]
            trips[store.stage_name] = prod(unrolled)
        assert len(host.loops()) == 5 + (together > 1)
        for name in ("softmax.max.rf", "softmax.max", "softmax.exp", "softmax.sum.rf", "softmax"):
            assert trips[name] == together, name


def _rng() -> np.random.Generator:
    return np.random.default_rng(0)


def test_axes_of_one_element_are_inside_parallel_blocks() -> None:
    """Windows of what is made of a product, in one channel: the last axis is no vector's."""
    rows, data = placeholder((2, 40, 4), name="q"), placeholder((2, 9, 4), name="k")
    weights, tap = placeholder((4, 1), name="w", constant=True), reduce_axis(4, "d")
    scores = softmax(einsum((rows, data), ("bid", "bjd"), "bij", name="scores"))

    def window(b: Expr, i: Expr, j: Expr, channel: Expr) -> Expr:
        return reducers.sum(scores[b, i, j + tap] * weights[tap, channel], tap)

    dag = ComputeDAG([compute((2, 40, 6, 1), window, name="out")])
    for sketch in generate(dag, ONE):
        verify(lower(sketch, sample(sketch, 1, np.random.default_rng(0)).row(0)))


@pytest.mark.parametrize(("threads", "heads"), [(2, 4), (2, 3), (1, 1)])
def test_threads_share_heads_where_they_have_equally_many(threads: int, heads: int) -> None:
    """Each packs the keys of its own then, for all blocks of rows; else blocks are shared out."""
    target, packed = replace(ONE, threads=threads), 0
    for sketch in generate(attention(256, 48, heads, 16), target):
        whole = heads % threads == 0
        for plan in sketch.program.stages:
            if plan.op.name.endswith(".cache"):
                packed += 1
                assert (plan.attach is not None) == whole
        last = sketch.program.stages[-1]
        shared = {last.loop_axis(x) for x, kind in last.kinds.items() if kind is LoopKind.PARALLEL}
        assert (last.op.axes[1] in shared) != whole
    assert packed


def test_heads_that_leave_no_room_for_rows_are_not_shared() -> None:
    """Keys of a head and 64 rows, written and read, would take more than half of the L2 cache."""
    keys, size = 48, 16
    needed = 2 * 4 * keys * (size + 2 * 64)
    dag = attention(256, keys, 2, size)
    for room, alone in ((needed, 2), (needed - 2, 3)):
        for sketch in generate(dag, replace(ONE, l2_bytes=room)):
            parallel = [*sketch.program.stages[-1].kinds.values()].count(LoopKind.PARALLEL)
            assert parallel == alone


def test_a_sum_that_scales_rows_is_computed_for_those_of_a_tile() -> None:
    """Just before the product that reads the same weights, which are in the first cache then."""
    dag = late_factors(attention(256, 48, 1, 16))
    assert dag is not None
    for sketch in generate(dag, ONE):
        attached = {plan.op.name: plan.attach for plan in sketch.program.stages}
        tile, product = attached["softmax.sum"], attached["mix.sums"]
        host = sketch.program.stages[-1]
        assert tile is not None and product is not None and tile[0] == product[0] == host.id
        order = host.loops()
        assert order.index(tile[1]) <= order.index(product[1])
        assert host.loop_axis(tile[1]) is host.op.axes[1] and tile[1].level > 0
