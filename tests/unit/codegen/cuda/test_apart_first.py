"""Loops over results that share no operand go around the last loop over terms."""

from __future__ import annotations

from dataclasses import replace

import pytest

from codegen.cuda.passes.apart_first import apart_first
from sketch.nest.loopnest import (
    Affine,
    Buffer,
    BufferLoad,
    Loop,
    LoopKind,
    LoopVar,
    Node,
    Scope,
    Store,
)
from sketch.nest.walk import stores
from tests.support.cuda_programs import matmul_nest

NEST = matmul_nest()
SUM = next(store.reducer for store, _ in stores(NEST.roots) if store.reducer is not None)
VARS = {name: LoopVar(name) for name in "xijkm"}


def load(name: str, variables: str, scope: Scope) -> BufferLoad:
    dims = len(variables)
    strides = tuple(4**n for n in reversed(range(dims)))
    buffer = Buffer(name, "float32", (4,) * dims, strides, (1,) * dims, scope, 4**dims)
    return BufferLoad(buffer, tuple(Affine(((VARS[v], 1),)) for v in variables))


def order(loops: str, left: str, right: str, scope: Scope = Scope.SHARED, serial: str = "") -> str:
    """Of the loops after the pass; ``k`` and ``m`` walk terms."""
    to = load("acc", "".join(v for v in loops if v not in "km"), Scope.LOCAL)
    value = load("a", left, scope) * load("b", right, Scope.SHARED)
    node: Node = Store((to.buffer,), to.indices, (value,), SUM)
    for name in reversed(loops):
        kind = LoopKind.SERIAL if name in serial else LoopKind.UNROLLED
        node = Loop(VARS[name], 4, 1, kind, "reduce" if name in "km" else "spatial", (node,))
    found = ""
    (root,) = apart_first(replace(NEST, roots=(node,))).roots
    while isinstance(root, Loop):
        found += root.var.name
        (root,) = root.body
    return found


@pytest.mark.parametrize(
    ("loops", "found"),
    [("kxij", "xkij"), ("kixj", "xkij"), ("xkij", "xkij"), ("mkxij", "mxkij"), ("xij", "xij")],
)
def test_what_tells_all_operands_apart_is_outside(loops: str, found: str) -> None:
    assert order(loops, "xik", "xjk") == found


def test_nothing_moves_otherwise() -> None:
    assert order("kij", "ik", "jk") == "kij"  # both share
    assert order("kxij", "xik", "xjk", Scope.LOCAL) == "kxij"  # not loaded
    assert order("kxij", "xik", "xjk", serial="x") == "kxij"  # a loop at run time
