"""Equal parts of values become one object; what is not the same stays apart."""

from __future__ import annotations

import math

from codegen.build import emit
from codegen.passes.share import share
from sketch.lang.expr import Const, Expr, binary, select
from sketch.nest.loopnest import AffineValue, BufferLoad, LoopNest, LoopVar, Quasi, Scope, Store
from sketch.nest.printer import print_nest
from sketch.nest.walk import stores, walk_value
from sketch.target.target import Target
from tests.support.nests import PARALLEL, UNROLLED, VECTORIZED, dense, loop, plus

TARGET = Target("cpu", "x86-64", vector_bytes=16, registers=16, fma_accumulators=4)


def looked_up() -> LoopNest:
    """y[i, r + lane] = x[i // 3, ...] under a condition on i // 3; every part is written anew."""
    i, r, lane = LoopVar("i"), LoopVar("r"), LoopVar("lane")
    x, y = dense("x", (4, 16), Scope.INPUT), dense("y", (12, 16), Scope.OUTPUT)

    def third() -> Expr:
        return binary("floordiv", AffineValue(plus(i)), 3)

    def element() -> Expr:
        return BufferLoad(x, (Quasi(third(), 0, 3), plus(r, lane)))

    value = select(binary("lt", third(), 2), binary("add", element(), element()), 0.0)
    store = Store((y,), (plus(i), plus(r, lane)), (value,))
    body = loop(r, 4, UNROLLED, loop(lane, 4, VECTORIZED, store), step=4)
    return LoopNest("looked_up", (x, y), (), (loop(i, 12, PARALLEL, body),))


def parts(nest: LoopNest) -> list[Expr]:
    """All expressions of all statements, each object once."""
    return [part for store, _ in stores(nest.roots) for v in store.values for part in walk_value(v)]


def test_equal_parts_are_one_object() -> None:
    nest = looked_up()
    shared = share(nest)
    assert print_nest(shared) == print_nest(nest)
    divisions = ["//" in print_part(part) for part in parts(nest)].count(True)
    assert divisions == 3
    assert ["//" in print_part(part) for part in parts(shared)].count(True) == 1
    assert sum(isinstance(part, BufferLoad) for part in parts(shared)) == 1


def print_part(part: Expr) -> str:
    """The operator of a part."""
    return {"floordiv": "//"}.get(getattr(part, "op", ""), "")


def test_zeros_of_both_signs_stay_apart() -> None:
    i = LoopVar("i")
    y = dense("y", (4,), Scope.OUTPUT)
    zeros = binary("div", 1.0, Const(0.0, "float32")), binary("div", 1.0, Const(-0.0, "float32"))
    value = binary("add", *zeros)
    nest = LoopNest("zeros", (y,), (), (loop(i, 4, PARALLEL, Store((y,), (plus(i),), (value,))),))
    signs = {
        math.copysign(1.0, part.value)
        for part in parts(share(nest))
        if isinstance(part, Const) and part.value == 0
    }
    assert signs == {1.0, -1.0}


def test_unrolled_copies_compute_what_they_share_once() -> None:
    text = emit(looked_up(), TARGET, "kernel").text
    assert text.count(" sdiv ") == 1
    assert text.count("load <4 x float>") == 4
