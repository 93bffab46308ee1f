"""Fuse and unroll reduce loops.

    for kw in 0..3:                       for f in 0..3*IC:
      for ic in 0..IC:             ->       acc += data[base + f] * weight[base + f*nt]
        acc += data[(kw)*IC + ic] ...

Two serial reduce loops become one where every access walks through memory as if they were one.
A short innermost reduce loop that is left becomes straight-line code.
"""

from __future__ import annotations

from dataclasses import replace

from codegen.passes.affine import constant, flatten, variables
from codegen.passes.rewrite import (
    Nodes,
    accesses,
    free_values,
    map_body,
    stores,
    substitute,
)
from sketch.loopnest import Affine, Loop, LoopKind, LoopNest, LoopVar, Node, Quasi, Store
from sketch.target import Target

_UNROLL_TRIPS = 4  # longest reduce loop that is unrolled
_UNROLL_SHARE = 8  # and its code must fit this part of the instruction budget


def fuse(nest: LoopNest, target: Target) -> LoopNest:
    """The nest with contiguous reduce loops fused and short ones unrolled."""
    return replace(nest, roots=_fuse(nest.roots, target))


def _fuse(nodes: Nodes, target: Target) -> Nodes:
    new = tuple(_fuse_node(node, target) for node in nodes)
    return nodes if all(a is b for a, b in zip(new, nodes, strict=True)) else new


def _fuse_node(node: Node, target: Target) -> Node:
    node = map_body(node, lambda body: _fuse(body, target))
    if not isinstance(node, Loop) or not _is_serial_reduce(node):
        return node
    inner = node.body[0]
    if len(node.body) == 1 and isinstance(inner, Loop) and _is_serial_reduce(inner):
        fused = _fused(node, inner)
        if fused is not None:
            node = fused
    return _unroll(node, target)


def _is_serial_reduce(loop: Loop) -> bool:
    return loop.kind is LoopKind.SERIAL and loop.axis_kind == "reduce" and not loop.clip


def _fused(outer: Loop, inner: Loop) -> Loop | None:
    for store, loops in stores(inner.body):
        if not _is_linear(store, loops, outer, inner):
            return None
    var = LoopVar(f"{outer.var.name}.{inner.var.name}")
    body = substitute(inner.body, {outer.var: constant(0), inner.var: Affine(((var, 1),))})
    return Loop(var, int(outer.extent) * int(inner.extent), inner.stride, LoopKind.SERIAL,
                "reduce", body)


def _is_linear(
    store: Store, loops: tuple[Loop, ...], outer: Loop, inner: Loop
) -> bool:
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


def _unroll(loop: Loop, target: Target) -> Loop:
    """Unroll an innermost reduce loop of a few trips."""
    copies = 0
    for _, loops in stores(loop.body):
        count = 1
        for inner in loops:
            if inner.kind not in (LoopKind.UNROLLED, LoopKind.VECTORIZED):
                return loop
            if inner.kind is LoopKind.UNROLLED:
                count *= int(inner.extent)
        copies += count
    trips = int(loop.extent)
    if trips > _UNROLL_TRIPS or trips * copies * _UNROLL_SHARE > target.instruction_budget:
        return loop
    return replace(loop, kind=LoopKind.UNROLLED)
