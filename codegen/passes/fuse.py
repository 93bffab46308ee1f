"""Fuse and unroll reduce loops.

    for kw in 0..3:                       for f in 0..3*IC:
      for ic in 0..IC:             ->       acc += data[base + f] * weight[base + f*nt]
        acc += data[(kw)*IC + ic] ...

Two serial reduce loops become one where every access walks through memory as if they were one; what
clips trips of the outer one clips the trips inside of them.
A short innermost reduce loop that is left becomes straight-line code.
"""

from __future__ import annotations

from dataclasses import replace

from codegen.passes.affine import constant, flatten, variables
from codegen.passes.rewrite import Nodes, instructions, is_dynamic, map_body, substitute
from sketch.lang.affine import UNBOUNDED
from sketch.lang.rewrite import reused
from sketch.nest.loopnest import (
    Affine,
    Loop,
    LoopKind,
    LoopNest,
    LoopVar,
    Node,
    Predicate,
    Quasi,
    Store,
)
from sketch.nest.walk import accesses, free_values, stores
from sketch.target.target import Target


def fuse(nest: LoopNest, target: Target) -> LoopNest:
    """The nest with contiguous reduce loops fused and short ones unrolled."""
    roots = _fuse(nest.roots)
    unroller = _Unroller(
        target.instruction_budget - instructions(roots), target.code.reduce_unroll_trips
    )
    return replace(nest, roots=unroller.nodes(roots))


def _fuse(nodes: Nodes) -> Nodes:
    return reused([_fuse_node(node) for node in nodes], nodes)


def _fuse_node(node: Node) -> Node:
    node = map_body(node, _fuse)
    if not isinstance(node, Loop) or not _is_reduce(node):
        return node
    inner = node.body[0]
    if len(node.body) == 1 and isinstance(inner, Loop) and _is_serial_reduce(inner):
        fused = _fused(node, inner)
        if fused is not None:
            return fused
    return node


def _is_reduce(loop: Loop) -> bool:
    return loop.kind is LoopKind.SERIAL and loop.axis_kind == "reduce"


def _is_serial_reduce(loop: Loop) -> bool:
    return _is_reduce(loop) and not loop.clip


def _fused(outer: Loop, inner: Loop) -> Loop | None:
    if any(p.index.coefficient(outer.var) * int(outer.stride) != 1 for p in outer.clip):
        return None
    for store, loops in stores(inner.body):
        if not _is_linear(store, loops, outer, inner):
            return None
    var = LoopVar(f"{outer.var.name}.{inner.var.name}")
    body = substitute(inner.body, {outer.var: constant(0), inner.var: Affine(((var, 1),))})
    clip = tuple(_stretched(p, outer.var, var, inner) for p in outer.clip)
    trips = int(outer.extent) * int(inner.extent)
    return Loop(var, trips, inner.stride, LoopKind.SERIAL, "reduce", body, clip)


def _stretched(predicate: Predicate, outer: LoopVar, var: LoopVar, inner: Loop) -> Predicate:
    """``low <= i + rest < high`` of the trips ``i`` of a loop, by the values of the fused one."""
    span = int(inner.extent) * int(inner.stride)
    rest = tuple((v, c * span) for v, c in predicate.index.terms if v is not outer)
    index = Affine((*rest, (var, 1)), predicate.index.const * span)
    low = predicate.low if predicate.low == -UNBOUNDED else predicate.low * span
    high = predicate.high if predicate.high == UNBOUNDED else predicate.high * span
    return Predicate(index, low, high)


def _is_linear(store: Store, loops: tuple[Loop, ...], outer: Loop, inner: Loop) -> bool:
    """Whether one trip of the outer loop is ``extent`` trips of the inner one, everywhere."""
    pair = {outer.var, inner.var}
    if any(variables(p.index) & pair for p in store.predicates):
        return False
    if any(variables(p.index) & pair for loop in loops for p in loop.clip):
        return False
    if any(var in pair for value in store.values for var in free_values(value)):
        return False
    for buffer, indices in accesses(store):
        form, quasi = flatten(buffer, indices)
        if any(_uses(index, pair) for index, _ in quasi):
            return False
        step = form.coefficient(outer.var) * int(outer.stride)
        if step != form.coefficient(inner.var) * int(inner.stride) * int(inner.extent):
            return False
    return True


def _uses(index: Quasi, pair: set[LoopVar]) -> bool:
    return any(var in pair for var in free_values(index.expr))


class _Unroller:
    """Unrolls innermost reduce loops of ``longest`` trips while ``room`` instructions last."""

    def __init__(self, room: int, longest: int) -> None:
        self.room, self.longest = room, longest

    def nodes(self, nodes: Nodes) -> Nodes:
        return reused([self.node(node) for node in nodes], nodes)

    def node(self, node: Node) -> Node:
        node = map_body(node, self.nodes)
        if not isinstance(node, Loop) or not _is_serial_reduce(node):
            return node
        if any(is_dynamic(loop) for _, loops in stores(node.body) for loop in loops):
            return node
        trips = int(node.extent)
        growth = (trips - 1) * instructions(node.body)
        if trips > self.longest or growth > self.room:
            return node
        self.room -= growth
        return replace(node, kind=LoopKind.UNROLLED)
