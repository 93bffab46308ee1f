"""Passes towards CUDA: golden text before and after, the same results, and refusals."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from codegen.cuda.build import device_functions, prepare
from codegen.cuda.device import Barrier, Cooperative, DeviceFunction, DeviceNode, For
from codegen.cuda.emit import emit_function
from codegen.cuda.passes.barriers import insert_barriers
from codegen.cuda.passes.bind_threads import bind_threads
from codegen.cuda.passes.inject_vthread import inject_vthread
from codegen.cuda.passes.narrow_guards import narrow_guards
from codegen.cuda.passes.relax_guards import relax_guards
from codegen.cuda.passes.zero_fill import zero_fill
from codegen.errors import CodegenError
from codegen.passes.simplify import simplify
from sketch.dag.dag import ComputeDAG
from sketch.lang import reducers
from sketch.lang.expr import Const, cast, select
from sketch.lang.functions import maximum, minimum
from sketch.lang.tensor import compute, placeholder, reduce_axis
from sketch.lower import lower
from sketch.nest.interpreter import run_nest
from sketch.nest.loopnest import (
    Allocate,
    BufferLoad,
    Loop,
    LoopKind,
    LoopNest,
    LoopVar,
    Predicate,
    Scope,
    Store,
)
from sketch.nest.printer import print_nest
from sketch.nest.walk import stores, walk
from sketch.oracle.interpret import interpret
from sketch.rules.generate import generate
from tests.support.cuda_programs import (
    GPU,
    SMALL,
    SMALL_ROW,
    feasible_nests,
    feasible_rows,
    matmul_nest,
)
from tests.support.nests import dense, loop, plus, reducer
from tests.support.workloads import conv2d_bare, distance_matrix, matmul_dag, random_inputs

Golden = Callable[[str, str], None]
NEST_PASSES = (simplify, narrow_guards, zero_fill, relax_guards, inject_vthread)
THREAD, VTHREAD, BLOCK = LoopKind.THREAD, LoopKind.VTHREAD, LoopKind.BLOCK


def up_to(last: Callable[[LoopNest], LoopNest]) -> tuple[LoopNest, LoopNest]:
    """The matrix product before and after a pass, with the passes that come first."""
    before = after = matmul_nest()
    for run in NEST_PASSES:
        before, after = after, run(after)
        if run is last:
            return before, after
    raise AssertionError(last)


@pytest.mark.parametrize(
    "run", [narrow_guards, zero_fill, relax_guards, inject_vthread], ids=lambda run: run.__name__
)
def test_golden_of_a_pass(run: Callable[[LoopNest], LoopNest], golden: Golden) -> None:
    before, after = up_to(run)
    golden(run.__name__, f"{print_nest(before)}\n->\n\n{print_nest(after)}")


def test_golden_of_binding_and_barriers(golden: Golden) -> None:
    (bound,) = bind_threads(prepare(matmul_nest()))
    golden("bind_threads", emit_function(bound, "kernel")[0])
    golden("insert_barriers", emit_function(insert_barriers(bound), "kernel")[0])


def test_every_pass_keeps_results(rng: np.random.Generator) -> None:
    arrays = random_inputs(matmul_dag(*SMALL), rng)
    expected = arrays["A"].astype(np.float64) @ arrays["B"].astype(np.float64)
    nest = matmul_nest(SMALL, SMALL_ROW)
    for run in NEST_PASSES:
        nest = run(nest)
        result = run_nest(nest, arrays)["C"].reshape(expected.shape)
        assert np.abs(result - expected).max() < 1e-4, run.__name__


def test_passes_return_the_same_object_where_nothing_changes() -> None:
    nest = inject_vthread(up_to(relax_guards)[1])
    for run in (narrow_guards, zero_fill, relax_guards):
        assert run(nest).roots[0] is nest.roots[0]


# virtual threads


def test_virtual_threads_get_accumulators_of_their_own_and_share_tiles() -> None:
    before, after = up_to(inject_vthread)
    assert any(isinstance(n, Loop) and n.kind is VTHREAD for n in walk(before.roots))
    assert not any(isinstance(n, Loop) and n.kind is VTHREAD for n in walk(after.roots))
    sizes = [
        {n.buffer.name: int(n.buffer.size) for n in walk(nest.roots) if isinstance(n, Allocate)}
        for nest in (before, after)
    ]
    assert sizes[1] == {**sizes[0], "C.local": 2 * sizes[0]["C.local"]}


def test_virtual_threads_may_not_disagree_about_loops_around_shared_memory() -> None:
    v, k, e = LoopVar("v"), LoopVar("k"), LoopVar("e")
    tile, out = dense("tile", (4,), Scope.SHARED), dense("out", (8,), Scope.OUTPUT)
    fill = loop(e, 4, THREAD, Store((tile,), (plus(e),), (Const(1.0, "float32"),)))
    use = Store((out,), (plus(v),), (BufferLoad(tile, (plus(k),)),))
    body = Loop(
        k, 4, 1, LoopKind.SERIAL, "spatial", (Allocate(tile, (fill, use)),),
        clip=(Predicate(plus(v, k), 0, 4),),
    )  # fmt: skip
    nest = LoopNest("n", (out,), (), (loop(v, 8, VTHREAD, body),))
    with pytest.raises(CodegenError, match=r"k around shared memory .* virtual threads"):
        inject_vthread(nest)


# guards


def guards(nest: LoopNest) -> int:
    """Predicates on reductions."""
    return sum(len(s.predicates) for s, _ in stores(nest.roots) if s.reducer is not None)


def test_no_guard_is_left_on_products_of_tiles(rng: np.random.Generator) -> None:
    for dag in (matmul_dag(17, 19, 23), distance_matrix(7, 11, 13)):
        for nest in feasible_nests(dag, 4, rng):
            assert guards(prepare(nest)) == 0


def test_a_padded_tap_stays_guarded_because_its_weight_may_be_infinite(
    rng: np.random.Generator,
) -> None:
    (sketch,) = generate(conv2d_bare(), GPU)
    population = feasible_rows(sketch, 4, rng)
    for index in range(population.count):
        nest = simplify(lower(sketch, population.row(index)))
        relaxed = prepare(nest)
        padding = [p for s, _ in stores(nest.roots) if s.reducer for p in s.predicates]
        assert 0 < guards(relaxed) <= len(padding)


def accumulate(
    guard: tuple[Predicate, ...],
    reads: tuple[Predicate, ...],
    size: int = 4,
    scope: Scope = Scope.SHARED,
    fills: tuple[Predicate, ...] = (),
) -> LoopNest:
    """``acc[r] += x[r]`` from ``size`` elements of ``scope``, then ``out[t + r] = acc[r]``."""
    t, r, e, s = (LoopVar(name) for name in "tres")
    tile, acc = dense("tile", (size,), scope), dense("acc", (4,), Scope.LOCAL)
    out = dense("out", (10,), Scope.OUTPUT)
    fills = tuple(Predicate(plus(t, e), p.low, p.high) for p in fills)
    one = Const(1.0, "float32")
    fill = loop(e, size, THREAD, Store((tile,), (plus(e),), (one,), predicates=fills))
    guard = tuple(Predicate(plus(t, r), p.low, p.high) for p in guard)
    reads = tuple(Predicate(plus(t, s), p.low, p.high) for p in reads)
    update = Store((acc,), (plus(r),), (BufferLoad(tile, (plus(r),)),), reducer(), guard)
    final = Store((out,), (plus(t, s),), (BufferLoad(acc, (plus(s),)),), predicates=reads)
    body = Allocate(acc, (
        Allocate(tile, (fill, loop(r, 4, LoopKind.UNROLLED, update))),
        loop(s, 4, LoopKind.UNROLLED, final),
    ))  # fmt: skip
    return LoopNest("n", (out,), (), (loop(t, 3, THREAD, body, step=4),))


def at_most(high: int) -> tuple[Predicate, ...]:
    return (Predicate(plus(), 0, high),)


@pytest.mark.parametrize(
    ("guard", "reads", "left"),
    [(at_most(10), at_most(10), 0), (at_most(10), at_most(9), 0), (at_most(9), at_most(10), 1),
     (at_most(10), (), 1)],
)  # fmt: skip
def test_unread_cells_need_no_guard(
    guard: tuple[Predicate, ...], reads: tuple[Predicate, ...], left: int
) -> None:
    assert guards(relax_guards(accumulate(guard, reads))) == left


def test_a_guard_stays_where_terms_without_it_would_read_beyond_a_tile() -> None:
    assert guards(relax_guards(accumulate(at_most(10), at_most(10), size=3))) == 1


@pytest.mark.parametrize(("fills", "left"), [((), 0), (at_most(10), 1)])
def test_a_guard_stays_where_private_memory_has_no_values(
    fills: tuple[Predicate, ...], left: int
) -> None:
    nest = accumulate(at_most(10), at_most(10), scope=Scope.LOCAL, fills=fills)
    assert guards(relax_guards(nest)) == left


def test_terms_may_have_axes_of_one_element(rng: np.random.Generator) -> None:
    x, y, k = placeholder((9, 7), name="x"), placeholder((7, 11), name="y"), reduce_axis(7)
    out = compute(
        (9, 11, 1),
        lambda i, j, h: reducers.sum(select(h < 1, x[i, k] * cast(h, "float32"), y[k, j]), k),
        name="out",
    )
    dag = ComputeDAG([out])
    arrays = random_inputs(dag, rng)
    expected = interpret(dag, arrays)["out"]
    for nest in feasible_nests(dag, 2, rng):
        found = run_nest(prepare(nest), arrays)["out"].reshape(expected.shape)
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5)


def test_tiles_that_end_with_their_tensor_are_read_inside(rng: np.random.Generator) -> None:
    """``x`` is read by data too: its tile is the tensor, whatever a block computes."""
    x, y = placeholder((13,), name="x"), placeholder((5, 6), name="y")
    places, k = placeholder((6,), "int32", name="places"), reduce_axis(6)
    out = compute(
        (5, 13),
        lambda i, j: reducers.sum(y[i, k] * x[j] * x[minimum(maximum(places[k], 0), 12)], k),
        name="out",
    )
    dag = ComputeDAG([out])
    arrays = {**random_inputs(dag, rng), "places": rng.integers(0, 13, 6, np.int32)}
    expected = interpret(dag, arrays)["out"]
    nests = [prepare(nest) for nest in feasible_nests(dag, 2, rng)]
    assert any(guards(nest) for nest in nests)
    for nest in nests:
        found = run_nest(nest, arrays)["out"].reshape(expected.shape)
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5)


# threads and barriers


def test_threads_inside_a_thread_keep_nothing_private() -> None:
    t, e = LoopVar("t"), LoopVar("e")
    acc, out = dense("acc", (4,), Scope.LOCAL), dense("out", (8,), Scope.OUTPUT)
    fill = loop(e, 4, THREAD, Store((acc,), (plus(e),), (Const(1.0, "float32"),)))
    final = Store((out,), (plus(t),), (BufferLoad(acc, (plus(),)),))
    nest = LoopNest("n", (out,), (), (loop(t, 8, THREAD, Allocate(acc, (fill, final))),))
    with pytest.raises(CodegenError, match="threads inside a thread write acc, which is private"):
        bind_threads(nest)


@pytest.mark.parametrize("kind", [LoopKind.PARALLEL, LoopKind.VECTORIZED, LoopKind.BLOCK])
def test_loops_without_a_place_on_a_gpu_are_refused(kind: LoopKind) -> None:
    t, i, out = LoopVar("t"), LoopVar("i"), dense("out", (8, 8), Scope.OUTPUT)
    fill = loop(i, 8, kind, Store((out,), (plus(t), plus(i)), (Const(1.0, "float32"),)))
    nest = LoopNest("n", (out,), (), (loop(t, 8, LoopKind.SERIAL, fill),))
    with pytest.raises(CodegenError, match=f"loop i is of kind {kind.value}"):
        bind_threads(nest)


def shape(nodes: tuple[DeviceNode, ...]) -> str:
    """``|`` for a barrier, ``w`` and ``r`` for writers and readers, brackets for loops."""
    text = ""
    for node in nodes:
        match node:
            case Barrier():
                text += "|"
            case Cooperative():
                text += "w"
            case For():
                text += f"[{shape(node.body)}]"
            case Store():
                text += "r"
    return text


TILE, OUT = dense("tile", (4,), Scope.SHARED), dense("out", (4,), Scope.OUTPUT)
WRITE = Cooperative((), (Store((TILE,), (plus(),), (Const(1.0, "float32"),)),))
READ = Store((OUT,), (plus(),), (BufferLoad(TILE, (plus(),)),))


def each(*body: DeviceNode, clip: tuple[Predicate, ...] = ()) -> For:
    return For(LoopVar("k"), 3, 1, False, clip, body)


SOME = (Predicate(plus(), 0, 4),)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ((WRITE, READ, READ), "w|rr"),
        ((WRITE, each(READ)), "w|[r]"),
        ((WRITE, READ, WRITE, READ), "w|r|w|r"),
        ((each(WRITE, READ),), "[|w|r]"),
        ((each(WRITE, each(each(READ))),), "[|w|[[r]]]"),
        ((WRITE, each(READ, each(WRITE), READ)), "w|[r[|w]|r]"),
        ((each(each(WRITE, READ)),), "[[|w|r]]"),
        ((READ, each(each(WRITE, READ))), "r[[|w|r]]"),
        ((READ, each(each(WRITE), clip=SOME), WRITE), "r[[|w]]|w"),
        ((READ, each(each(READ, clip=SOME), WRITE)), "r[|[r]|w]"),
        ((WRITE, each(each(WRITE, READ), clip=SOME), READ), "w[[|w|r]]|r"),
        ((WRITE, WRITE), "w|w"),
        ((READ, each(READ)), "r[r]"),
    ],
)
def test_barriers_are_where_they_must_be_and_outside_of_what_they_can(
    body: tuple[DeviceNode, ...], expected: str
) -> None:
    assert shape(insert_barriers(DeviceFunction((), (), body)).body) == expected


def test_a_barrier_that_some_threads_miss_is_refused() -> None:
    (function,) = device_functions(matmul_nest(), GPU)
    thread = function.threads[0].var
    body = (each(WRITE, READ, clip=(Predicate(plus(thread), 0, 4),)),)
    with pytest.raises(CodegenError, match=r"loop k needs a barrier, but its trips depend on C\.i"):
        insert_barriers(DeviceFunction((), function.threads, body))


def test_interpreted_nests_of_random_rows_equal_the_oracle(rng: np.random.Generator) -> None:
    dag = matmul_dag(5, 7, 3)
    arrays = random_inputs(dag, rng)
    expected = interpret(dag, arrays)["C"]
    for nest in feasible_nests(dag, 3, rng):
        result = run_nest(prepare(nest), arrays)["C"].reshape(expected.shape)
        assert np.abs(result - expected).max() < 1e-4
