"""What is made of each element of a local array takes its place."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from codegen.passes.overwrite import overwrite
from sketch.dag.dag import ComputeDAG
from sketch.lang.expr import Const, Expr, binary
from sketch.lower.lower import lower
from sketch.nest.interpreter import run_nest
from sketch.nest.loopnest import (
    Affine,
    Allocate,
    Buffer,
    BufferLoad,
    Loop,
    LoopNest,
    LoopVar,
    Node,
    Scope,
    Store,
)
from sketch.nest.walk import stores, walk, walk_value
from sketch.population.population import sample
from sketch.rules.generate import generate
from sketch.target.target import Target
from sketch.variants.late_factors import late_factors
from tests.support.compiled import check_run
from tests.support.cpu_targets import instruction_sets
from tests.support.masked_rows import masked_attention
from tests.support.nests import SERIAL, dense, loop, plus, reducer
from tests.support.workloads import random_inputs

ROWS, COLUMNS = 6, 5


def kept(nest: LoopNest) -> set[str]:
    return {node.buffer.name for node in walk(nest.roots) if isinstance(node, Allocate)}


def attention(rows: int, columns: int) -> ComputeDAG:
    found = late_factors(masked_attention(rows, columns, width=16))
    assert found is not None
    return found


def test_powers_take_the_place_of_scores() -> None:
    dag, rng = attention(72, 48), np.random.default_rng(0)
    target = replace(instruction_sets()[0], threads=1)
    inputs, moved = random_inputs(dag, rng), 0
    for sketch in generate(dag, target):
        rows = sample(sketch, 2, rng)
        for number in range(len(rows.values)):
            nest = lower(sketch, rows.row(number))
            after = overwrite(nest)
            assert kept(nest) - kept(after) <= {"softmax.exp"}
            if kept(nest) != kept(after) and not moved:
                constants = [b for b in nest.arguments if b.scope is Scope.CONSTANT]
                assert not constants
                expected, found = (run_nest(n, inputs) for n in (nest, after))
                assert all((expected[name] == found[name]).all() for name in expected)
            moved += kept(nest) != kept(after)
    assert moved


def passes(offset: int = 0, again: bool = False, after: bool = False, read: int = 0) -> LoopNest:
    """``a = x``, for each row its sum, then ``e = a - sum``; ``y = e``.

    Args:
        offset: columns that ``e`` reads further on.
        again: whether each row of ``e`` is computed twice.
        after: whether ``y`` reads ``a``, too.
        read: rows further back that the sum is of.
    """
    x, y = dense("x", (ROWS, COLUMNS), Scope.INPUT), dense("y", (ROWS, COLUMNS), Scope.OUTPUT)
    a = dense("a", (ROWS, COLUMNS + 1), Scope.LOCAL)
    e, m = dense("e", (ROWS, COLUMNS), Scope.LOCAL), dense("m", (1,), Scope.LOCAL)
    i, j, r, c, k, u, v, w = (LoopVar(name) for name in "ijrckuvw")

    def rows(var: LoopVar, *body: Node) -> Loop:
        return loop(var, ROWS, SERIAL, *body)

    def columns(var: LoopVar, body: Node) -> Loop:
        return loop(var, COLUMNS, SERIAL, body)

    def store(
        target: Buffer, indices: tuple[Affine, ...], value: Expr, sums: bool = False
    ) -> Store:
        return Store((target,), indices, (value,), reducer() if sums else None)

    here, first = (plus(i), plus(j)), (plus(const=0),)
    fill = rows(i, columns(j, store(a, here, BufferLoad(x, here))))
    total = columns(k, store(m, first, BufferLoad(a, (plus(r, const=-read), plus(k))), sums=True))
    own = BufferLoad(a, (plus(r), plus(c, const=offset)))
    write = columns(c, store(e, (plus(r), plus(c)), binary("sub", own, BufferLoad(m, first))))
    twice = loop(w, 2, SERIAL, write) if again else write
    made = rows(r, Allocate(m, (store(m, first, Const(0.0, "float32")), total, twice)))
    place = (plus(u), plus(v))
    value: Expr = BufferLoad(e, place)
    if after:
        value = binary("add", value, BufferLoad(a, place))
    last = rows(u, columns(v, store(y, place, value)))
    return LoopNest("y", (x, y), (), (Allocate(a, (fill, Allocate(e, (made, last)))),))


def test_rows_that_are_summed_before_they_are_overwritten() -> None:
    nest = passes()
    after = overwrite(nest)
    assert kept(nest) - kept(after) == {"e"}
    x = np.arange(ROWS * COLUMNS, dtype=np.float32).reshape(ROWS, COLUMNS)
    assert (run_nest(after, {"x": x})["y"] == (x - x.sum(1, keepdims=True)).reshape(-1)).all()


def test_an_element_further_on_is_another_place() -> None:
    after = overwrite(passes(offset=1))
    (made,) = (
        s
        for s, _ in stores(after.roots)
        if s.stage is None
        and len(s.values) == 1
        and any(
            isinstance(node, BufferLoad) and node.buffer.name == "m"
            for node in walk_value(s.values[0])
        )
    )
    assert made.targets[0].name == "a" and made.indices[1].const == 1  # type: ignore[union-attr]


@pytest.mark.parametrize("changes", [{"again": True}, {"after": True}, {"read": 1}])
def test_what_is_read_later_is_not_overwritten(changes: dict[str, Any]) -> None:
    assert kept(overwrite(passes(**changes))) == {"a", "e", "m"}


@pytest.mark.parametrize("target", instruction_sets())
def test_kernels_are_right(target: Target) -> None:
    dag = attention(150, 40)
    for choice in range(3):
        check_run(dag, random_inputs(dag, np.random.default_rng(choice)), target, choice, choice)
