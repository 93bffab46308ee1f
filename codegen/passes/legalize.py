"""Legalize: only vector loops that the emitter can turn into one vector operation remain.

    vectorized j in 0..64              unrolled j.v in 0..64 step 16
                             ->          vectorized j.l in 0..16        (16 lanes)

A vector loop that stores to the same element in every lane (a reduction over the lanes), or that
contains a private buffer, becomes an unrolled or a serial loop.  GPU kinds are refused.
"""

from __future__ import annotations

from dataclasses import replace

from codegen.errors import CodegenError
from codegen.passes.affine import flatten
from codegen.passes.rewrite import Nodes, map_body, substitute
from sketch.lang.rewrite import reused
from sketch.nest.lanes import store_bytes
from sketch.nest.loopnest import Affine, Allocate, Loop, LoopKind, LoopNest, LoopVar, Node, Store
from sketch.nest.walk import index_variables, stores, walk
from sketch.target.target import Target

_CPU_KINDS = (
    LoopKind.SERIAL,
    LoopKind.PARALLEL,
    LoopKind.VECTORIZED,
    LoopKind.UNROLLED,
    LoopKind.TENSOR,
)


def legalize(nest: LoopNest, target: Target) -> LoopNest:
    """The nest with vector loops that fit the machine.

    Raises CodegenError on loops of a GPU.
    """
    return replace(nest, roots=_legalize(nest.roots, target))


def _legalize(nodes: Nodes, target: Target) -> Nodes:
    return reused([_legalize_node(node, target) for node in nodes], nodes)


def _legalize_node(node: Node, target: Target) -> Node:
    node = map_body(node, lambda body: _legalize(body, target))
    if not isinstance(node, Loop):
        return node
    if node.kind not in _CPU_KINDS:
        raise CodegenError(
            f"loop {node.var.name} is of kind {node.kind.value}",
            "CPU code",
            "lower the sketch for a CPU target",
        )
    if node.kind is not LoopKind.VECTORIZED:
        return node
    if not _is_vectorizable(node):
        small = int(node.extent) <= target.code.lane_unroll_trips
        return replace(node, kind=LoopKind.UNROLLED if small else LoopKind.SERIAL)
    return _split(node, target)


def _is_vectorizable(loop: Loop) -> bool:
    if any(isinstance(node, Allocate) for node in walk(loop.body)):
        return False
    if any(isinstance(node, Loop) and node.kind is LoopKind.VECTORIZED for node in walk(loop.body)):
        return False
    return all(_depends(store, loop.var) for store, _ in stores(loop.body))


def _depends(store: Store, var: LoopVar) -> bool:
    """Whether each lane stores to an element of its own."""
    form, quasi = flatten(store.targets[0], store.indices)
    apart = all(var not in index_variables(index) for index, _ in quasi)
    return apart and form.coefficient(var) != 0


def _split(loop: Loop, target: Target) -> Loop:
    """Cut a loop of several vectors into unrolled vectors."""
    lanes = target.lanes(max((store_bytes(store) for store, _ in stores(loop.body)), default=4))
    extent, stride = int(loop.extent), int(loop.stride)
    if extent <= lanes or extent % lanes:
        return loop
    outer, inner = LoopVar(f"{loop.var.name}.v"), LoopVar(f"{loop.var.name}.l")
    body = substitute(loop.body, {loop.var: Affine(((outer, 1), (inner, 1)))})
    vector = replace(loop, var=inner, extent=lanes, body=body)
    return Loop(
        outer, extent // lanes, lanes * stride, LoopKind.UNROLLED, loop.axis_kind, (vector,)
    )
