"""Loops of one trip go, wherever they are, and what does not change stays the same object."""

from dataclasses import replace

from codegen.passes.simplify import simplify_nodes
from sketch.lang.expr import Const
from sketch.nest.loopnest import (
    Affine,
    Allocate,
    Buffer,
    Loop,
    LoopKind,
    LoopVar,
    Node,
    Predicate,
    Scope,
    Store,
)

OUT = Buffer("out", "float32", (8,), (1,), (1,), Scope.OUTPUT, 8)
PRIVATE = Buffer("private", "float32", (1,), (1,), (1,), Scope.LOCAL, 1)
N, J, K, M = (LoopVar(name) for name in "njkm")


def _loop(var: LoopVar, extent: int, *body: Node) -> Loop:
    return Loop(var, extent, 1, LoopKind.SERIAL, "spatial", body)


def _store(*variables: LoopVar) -> Store:
    place = Affine(tuple((var, 1) for var in variables))
    return Store((OUT,), (place,), (Const(0.0, "float32"),))


def test_loops_of_one_trip_go_at_every_depth() -> None:
    inner = _loop(K, 8, _loop(M, 1, _store(N, J, K, M)))
    nest = _loop(N, 1, Allocate(PRIVATE, (_loop(J, 1, inner),)), _store(N))
    allocated, last = simplify_nodes((nest,), {})
    assert isinstance(allocated, Allocate) and isinstance(last, Store)
    (left,) = allocated.body
    assert isinstance(left, Loop) and left.var is K
    (store,) = left.body
    assert isinstance(store, Store)
    assert store.indices == _store(K).indices and last.indices == (Affine(()),)


def test_a_loop_of_one_trip_goes_once_its_clip_always_holds() -> None:
    clip = (Predicate(Affine(((N, 1), (J, 1))), 0, 8),)
    inner = replace(_loop(J, 1, _store(N, J)), clip=clip)
    (outer,) = simplify_nodes((_loop(N, 8, inner),), {})
    assert isinstance(outer, Loop)
    (store,) = outer.body
    assert isinstance(store, Store) and store.indices == _store(N).indices
    never = replace(inner, clip=(Predicate(clip[0].index, 9, 12),))
    assert simplify_nodes((_loop(N, 8, never),), {}) == ()


def test_what_does_not_change_is_the_same_object() -> None:
    kept = _loop(N, 8, _store(N))
    nodes = (kept,)
    assert simplify_nodes(nodes, {}) is nodes
    first, second = simplify_nodes((kept, _loop(J, 1, _store(J))), {})
    assert first is kept and isinstance(second, Store)
