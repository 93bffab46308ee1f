"""Each pass: golden text before and after, and the same results when interpreted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from codegen.build import prepare
from codegen.errors import CodegenError
from codegen.passes.clip import clip
from codegen.passes.fuse import fuse
from codegen.passes.join_branches import join_branches
from codegen.passes.legalize import legalize
from codegen.passes.promote import promote
from codegen.passes.rewrite import instructions
from codegen.passes.roll_copies import roll_copies
from codegen.passes.simplify import simplify
from codegen.passes.specialize import specialize
from sketch.lang.expr import binary, select
from sketch.nest.interpreter import run_nest
from sketch.nest.loopnest import (
    AffineValue,
    Branch,
    BufferLoad,
    Loop,
    LoopKind,
    LoopNest,
    LoopVar,
    Node,
    Predicate,
    Scope,
    Store,
)
from sketch.nest.printer import print_nest
from sketch.nest.walk import stores, walk
from sketch.target.code_limits import CodeLimits
from sketch.target.target import Target
from tests.support.nests import (
    PARALLEL,
    SERIAL,
    UNROLLED,
    VECTORIZED,
    Arrays,
    conv,
    conv_arrays,
    dense,
    loop,
    matmul,
    plus,
    reducer,
    two_level_sums,
)

TARGET = Target("cpu", "invented", vector_bytes=16, registers=16, fma_accumulators=4)
Golden = Callable[[str, str], None]


def row_sums() -> LoopNest:
    """y[i] += x[i, k] straight into memory, four rows unrolled, with a single-trip loop."""
    i, r, k, one = LoopVar("i"), LoopVar("r"), LoopVar("k"), LoopVar("one")
    x, y = dense("x", (10, 6), Scope.INPUT), dense("y", (10,), Scope.OUTPUT)
    zero = Store(
        (y,), (plus(i, r),), (reducer().identity[0],), None, (Predicate(plus(i, r), 0, 10),)
    )
    inside = binary("lt", AffineValue(plus(k, one)), 5)
    term = select(inside, BufferLoad(x, (plus(i, r), plus(k, one))), 0.0)
    update = Store((y,), (plus(i, r),), (term,), reducer(), (Predicate(plus(i, r), 0, 10),))
    body = (
        loop(r, 4, UNROLLED, zero),
        loop(k, 6, SERIAL, loop(one, 1, SERIAL, loop(r, 4, UNROLLED, update)), reduce=True),
    )
    return LoopNest("row_sums", (x, y), (), (loop(i, 3, PARALLEL, *body, step=4),))


def wide_copy() -> LoopNest:
    """A vector loop of three registers, and a sum over lanes."""
    j, lane = LoopVar("j"), LoopVar("lane")
    x, y = dense("x", (12,), Scope.INPUT), dense("y", (12,), Scope.OUTPUT)
    total = dense("total", (1,), Scope.OUTPUT)
    copy = Store((y,), (plus(j),), (BufferLoad(x, (plus(j),)),))
    zero = Store((total,), (plus(),), (reducer().identity[0],))
    add = Store((total,), (plus(),), (BufferLoad(x, (plus(lane),)),), reducer())
    return LoopNest(
        "wide_copy",
        (x, y, total),
        (),
        (loop(j, 12, VECTORIZED, copy), zero, loop(lane, 12, VECTORIZED, add, reduce=True)),
    )


NESTS: dict[str, Callable[[], LoopNest]] = {
    "row_sums": row_sums,
    "wide_copy": wide_copy,
    "matmul_tails": lambda: matmul(7, 10, 5, rows=3, vectors=2, lanes=4),
    "two_level_sums": two_level_sums,
    "conv_edges": lambda: conv(6, 3, 4, tile=(1, 2), lanes=4),
    "conv_one_tile": lambda: conv(3, 2, 4, tile=(1, 3), lanes=4),
    "conv_rows": lambda: conv(5, 2, 3, tile=(2, 3), lanes=4),
    "conv_shared": lambda: conv(6, 16, 4, tile=(1, 2), lanes=4),
    "conv_shared_one_tile": lambda: conv(4, 16, 4, tile=(1, 4), lanes=4),
    "conv_shared_rows": lambda: conv(8, 16, 4, tile=(2, 3), lanes=4),
    "conv_shared_stride": lambda: conv(9, 16, 4, kernel=5, stride=2, pad=2, tile=(1, 2), lanes=4),
    "conv_stride": lambda: conv(7, 2, 4, kernel=3, stride=2, tile=(1, 2), lanes=4),
}
PASSES: dict[str, Callable[[LoopNest], LoopNest]] = {
    "simplify": simplify,
    "legalize": lambda nest: legalize(nest, TARGET),
    "promote": lambda nest: promote(nest, TARGET),
    "clip": clip,
    "specialize": lambda nest: specialize(clip(simplify(nest)), TARGET),
    "join_branches": lambda nest: join_branches(specialize(clip(simplify(nest)), TARGET)),
    "roll_copies": lambda nest: roll_copies(nest, TARGET),
    "fuse": lambda nest: fuse(simplify(nest), TARGET),
    "all": lambda nest: prepare(nest, TARGET),
}


@cache
def interpreted(nest_name: str) -> tuple[LoopNest, Arrays, Arrays]:
    """A nest before all passes, what it is given, and what it computes of that."""
    nest = NESTS[nest_name]()
    arrays = conv_arrays(nest, np.random.default_rng(0))
    return nest, arrays, run_nest(nest, arrays)


@pytest.mark.parametrize("name", sorted(PASSES))
@pytest.mark.parametrize("nest_name", sorted(NESTS))
def test_pass_keeps_results(name: str, nest_name: str) -> None:
    nest, arrays, expected = interpreted(nest_name)
    result = run_nest(PASSES[name](nest), arrays)
    for output, values in expected.items():
        np.testing.assert_allclose(result[output], values, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("name", "nest_name"),
    [
        ("simplify", "row_sums"),
        ("legalize", "wide_copy"),
        ("promote", "row_sums"),
        ("clip", "conv_edges"),
        ("specialize", "conv_edges"),
        ("specialize", "conv_shared"),
        ("specialize", "matmul_tails"),
        ("specialize", "two_level_sums"),
        ("fuse", "conv_one_tile"),
        ("join_branches", "conv_rows"),
        ("all", "conv_edges"),
        ("all", "conv_rows"),
    ],
)
def test_golden(name: str, nest_name: str, golden: Golden) -> None:
    nest = NESTS[nest_name]()
    text = f"before\n{print_nest(nest)}\nafter\n{print_nest(PASSES[name](nest))}"
    golden(f"{name}_{nest_name}", text)


def test_interior_copy_has_no_predicate() -> None:
    nest = prepare(conv(20, 3, 4, tile=(1, 4), lanes=4), TARGET)
    branches = [node for node in walk(nest.roots) if isinstance(node, Branch)]
    assert [(case.low, case.high) for case in branches[0].cases] == [(0, 0), (4, 12), (16, 16)]
    interior = branches[0].cases[1]
    assert all(not node.predicates for node in walk(interior.body) if isinstance(node, Store))


def test_tiles_within_tiles_have_one_interior_copy() -> None:
    """Only the first and the last position of an axis are at an edge, in whatever tiles."""
    nest = specialize(clip(simplify(two_level_sums())), TARGET)
    (branch,) = [node for node in walk(nest.roots) if isinstance(node, Branch)]
    assert [var.name for var, _ in branch.index.terms] == ["o", "i"]
    assert [(case.low, case.high) for case in branch.cases] == [(0, 0), (4, 16), (20, 20)]
    assert not any(store.predicates for store, _ in stores(branch.cases[1].body))


def test_specialize_respects_the_instruction_budget() -> None:
    nest = clip(simplify(conv(20, 3, 4, tile=(2, 4), lanes=4)))
    for budget in (10, 60, 200, 1000):
        target = Target("cpu", "invented", vector_bytes=16, instruction_budget=budget)
        sums, before = reductions(specialize(nest, target)), reductions(nest)
        assert sums <= max(budget, before)
        all_of_it = instructions(specialize(nest, target).roots)
        assert all_of_it - sums <= max(budget, instructions(nest.roots)) - before


def test_other_code_takes_nothing_of_the_budget_of_reductions() -> None:
    nest = clip(simplify(conv(20, 3, 4, tile=(2, 4), lanes=4)))
    i, x = LoopVar("i"), dense("bulk", (4 * TARGET.instruction_budget,), Scope.OUTPUT)
    fill = loop(i, x.shape[0], UNROLLED, Store((x,), (plus(i),), (reducer().identity[0],)))
    large = LoopNest(nest.name, (*nest.arguments, x), nest.workspaces, (fill, *nest.roots))
    assert instructions((fill,)) > TARGET.instruction_budget
    assert reductions(nest) < reductions(specialize(nest, TARGET))
    assert reductions(specialize(large, TARGET)) == reductions(specialize(nest, TARGET))


def reductions(nest: LoopNest) -> int:
    """Instructions of the statements that sum."""
    return sum(
        instructions((alone(store, around),))
        for store, around in stores(nest.roots)
        if store.reducer is not None
    )


def alone(store: Store, around: tuple[Loop, ...]) -> Node:
    """A statement in its loops, without the others in them."""
    node: Node = store
    for outer in reversed(around):
        node = replace(outer, body=(node,))
    return node


def test_edges_are_decided_as_far_as_the_target_says() -> None:
    """A longer loop has masks at the edges."""
    nest = clip(simplify(conv(20, 3, 4, kernel=5, pad=2, tile=(2, 4), lanes=4)))

    def masks(limits: CodeLimits) -> int:
        after = specialize(nest, replace(TARGET, instruction_budget=100000, code=limits))
        taps = {n.var for n in walk(after.roots) if isinstance(n, Loop) and n.var.name == "kw"}
        found = [p for store, _ in stores(after.roots) for p in store.predicates]
        return sum(any(p.index.coefficient(var) for var in taps) for p in found)

    assert masks(CodeLimits(edge_unroll_trips=2)) > masks(CodeLimits()) == 0


def test_edges_share_the_trips_that_they_do_not_cut() -> None:
    """One loop over whole trips, and one for each cut trip."""
    nest = specialize(clip(simplify(conv(12, 16, 4, tile=(1, 4), lanes=4))), TARGET)
    loops = [n for n in walk(nest.roots) if isinstance(n, Loop)]
    assert sum(loop.var.name == "ic" for loop in loops) == 3
    ((whole, clip_),) = [(n, n.clip) for n in loops if n.var.name == "kw"]
    assert clip_ and not any(store.predicates for store, _ in stores((whole,)))


def test_a_tail_has_one_loop_for_trips_that_are_cut_alike() -> None:
    """Of the last tile, two pixels are beyond the end, and the last tap lacks one more."""
    nest = specialize(clip(simplify(conv(10, 16, 4, tile=(1, 4), lanes=4))), TARGET)
    loops = [n for n in walk(nest.roots) if isinstance(n, Loop)]
    assert sum(loop.var.name == "ic" for loop in loops) == 4


def test_clipped_taps_are_one_loop_with_their_channels() -> None:
    """No trip of a tap is cut in two."""
    nest = prepare(conv(12, 16, 4, tile=(1, 4), lanes=4), TARGET)
    (fused,) = [n for n in walk(nest.roots) if isinstance(n, Loop) and n.var.name == "kw.ic"]
    (bounds,) = fused.clip
    assert (int(fused.extent), bounds.low % 16, bounds.high % 16) == (48, 0, 0)


def test_trips_inside_are_no_straight_line_code_at_an_edge() -> None:
    """The first and the last tile of a row lack a tap each; the two others are a loop."""
    nest = clip(simplify(conv(12, 3, 4, tile=(1, 4), lanes=4)))
    after = specialize(nest, replace(TARGET, instruction_budget=100000))
    taps = [n for n in walk(after.roots) if isinstance(n, Loop) and n.var.name == "kw"]
    assert [(int(n.extent), n.kind) for n in taps] == [
        (2, LoopKind.SERIAL),
        (3, LoopKind.SERIAL),
        (2, LoopKind.SERIAL),
    ]


def test_legalize_refuses_gpu_loops() -> None:
    i = LoopVar("i")
    x = dense("x", (4,), Scope.OUTPUT)
    nest = LoopNest(
        "gpu",
        (x,),
        (),
        (loop(i, 4, LoopKind.BLOCK, Store((x,), (plus(i),), (reducer().identity[0],))),),
    )
    with pytest.raises(CodegenError, match="kind block"):
        legalize(nest, TARGET)


def test_an_unchanged_nest_is_the_same_object() -> None:
    nest = simplify(matmul(6, 8, 5, rows=3, vectors=2, lanes=4))
    assert simplify(nest).roots is nest.roots


def test_every_dynamic_loop_of_a_clip_is_defined_outside() -> None:
    nest = prepare(conv(9, 3, 5, tile=(1, 2), lanes=4), TARGET)
    known: set[LoopVar] = set()
    for node in walk(nest.roots):
        if isinstance(node, Loop):
            known.add(node.var)
            assert all(var in known for p in node.clip for var, _ in p.index.terms)
