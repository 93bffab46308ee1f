"""Reductions that scatter have no loop over the elements that data choose from."""

from __future__ import annotations

import numpy as np
import pytest

from codegen.host import host_target
from sketch.analysis.scattering import scattered_axes
from sketch.dag.dag import ComputeDAG
from sketch.lang import reducers
from sketch.lang.expr import Const, Expr, cast, select
from sketch.lang.functions import equal, exp
from sketch.lang.tensor import Tensor, compute, placeholder, reduce_axis
from sketch.lower import lower
from sketch.nest.loopnest import Loop, LoopKind, LoopNest
from sketch.nest.printer import print_nest
from sketch.nest.walk import stores, walk
from sketch.operators.scatter import received, scatter
from sketch.population.population import sample
from sketch.rules.generate import generate

HOST = host_target(1)


def nest(out: Tensor, threads: int = 1) -> LoopNest:
    (sketch, *_) = generate(ComputeDAG([out]), HOST.with_threads(threads))
    row = sample(sketch, 1, np.random.default_rng(0)).row(0)
    return lower(sketch, row)


def sums(rows: int, columns: int, terms: int, whole: bool = True) -> Tensor:
    places = placeholder((terms, 1 if whole else columns), "int32", name="places")
    updates = placeholder((terms, columns), "float32", name="updates")
    return received(places, updates, 0, rows, "sum", "out")


def loops(found: LoopNest) -> list[Loop]:
    return [node for node in walk(found.roots) if isinstance(node, Loop)]


def test_the_nest_of_whole_rows() -> None:
    text = print_nest(nest(sums(50, 16, 40)))
    terms = text[text.index("sent") :]
    assert "vectorized" in terms and ".i0" not in terms.split("in 0..")[1]
    walked = [
        loop.var.name for loop in loops(nest(sums(50, 16, 40))) if ".init" not in loop.var.name
    ]
    assert not [name for name in walked if ".i0." in name]


def test_lanes_are_as_wide_as_what_moves_along_them() -> None:
    """Places are compared in int64, by all lanes at once."""
    (lanes,) = {x.extent for x in loops(nest(sums(50, 64, 40))) if x.kind is LoopKind.VECTORIZED}
    assert lanes == HOST.lanes(4)


def test_elements_of_their_own_places_are_walked_in_long_runs() -> None:
    found = [x for x in loops(nest(sums(50, 640, 40, whole=False), 2)) if ".i1" in x.var.name]
    assert not [x for x in found if x.kind is LoopKind.VECTORIZED]
    (shared,) = {x.extent for x in found if x.kind is LoopKind.PARALLEL}
    assert shared == 2


@pytest.mark.parametrize(
    ("terms", "columns", "threads", "parts"),
    [(400, 8, 2, True), (60, 8, 2, False), (400, 64, 2, False), (400, 8, 1, False)],
)
def test_threads_have_parts_of_many_terms(
    terms: int, columns: int, threads: int, parts: bool
) -> None:
    found = nest(sums(50, columns, terms), threads)
    assert bool(found.workspaces) == parts


def test_what_reads_the_sums_does_not_compute_them() -> None:
    """In tiles, each of them would look at all terms."""
    places = placeholder((400,), "int64", name="places")
    data, updates = (
        placeholder((n, 32), "float32", name=name) for n, name in ((50, "data"), (400, "updates"))
    )
    column = compute((400, 1), lambda i, j: places[i], name="column")
    out = scatter(data, column, updates, 0, "sum", "out")
    for sketch in generate(ComputeDAG([out]), HOST.with_threads(2)):
        row = sample(sketch, 1, np.random.default_rng(1)).row(0)
        found = lower(sketch, row)
        names = [x.var.name for x in loops(found) if ".init" not in x.var.name]
        assert not [name for name in names if "received.i0" in name]


def test_a_causal_reader_says_nothing_about_terms_without_a_loop() -> None:
    """Elements above the diagonal are not needed; which ones terms go to, only data say."""
    n, terms = 64, 200
    places = placeholder((terms, 1), "int64", name="places")
    updates, q = placeholder((terms, n), name="updates"), placeholder((n, n), name="q")
    sums = received(places, updates, 0, n, "sum", "sums")
    lower_half = compute(
        (n, n), lambda i, j: select(j <= i, sums[i, j], float("-inf")), name="lower_half"
    )
    k, m = reduce_axis(n, "k"), reduce_axis(n, "m")
    most = compute((n,), lambda i: reducers.max(lower_half[i, m], m), name="most")
    parts = compute((n, n), lambda i, j: exp(lower_half[i, j] - most[i]), name="parts")
    out = compute((n, n), lambda i, c: reducers.sum(parts[i, k] * q[k, c], k), name="out")
    found = nest(out)
    (adding,) = (
        store for store, _ in stores(found.roots) if store.stage_name == "sums" and store.reducer
    )
    assert adding.needs == ()
    assert any(store.needs for store, _ in stores(found.roots))


def place_of(term: Expr, kind: str) -> Expr:
    return {
        "data": term,
        "narrow": cast(term, "int8"),
        "no data": Const(3, "int64"),
    }[kind]


@pytest.mark.parametrize(
    ("kind", "rows", "known"),
    [("data", 200, 1), ("narrow", 200, 0), ("narrow", 100, 1), ("no data", 200, 0)],
)
def test_what_scatters(kind: str, rows: int, known: int) -> None:
    """Where the axis is compared in a type that does not hold it, several elements may be meant."""
    places = placeholder((9,), "int64", name="places")
    t = reduce_axis(9, "t")

    def element(r: Expr) -> Expr:
        own = cast(r, "int8") if kind == "narrow" else r
        return reducers.sum(select(equal(own, place_of(places[t], kind)), 1.0, 0.0), t)

    out = compute((rows,), element, name="out")
    assert len(scattered_axes(out.op)) == known


def test_what_is_no_identity_scatters_not() -> None:
    places = placeholder((9,), "int64", name="places")
    t = reduce_axis(9, "t")
    out = compute(
        (5,), lambda r: reducers.sum(select(equal(places[t], r), 1.0, 0.5), t), name="out"
    )
    assert not scattered_axes(out.op)
