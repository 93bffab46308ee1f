"""In place: what several passes over a row keep lies in the output, where the last one writes.

    for i in 0..N:                              for i in 0..N:
      local e: [K]                                for k in 0..K: y[i, k] = exp(x[i, k] - m)
      for k in 0..K: e[k] = exp(x[i, k] - m)      for k in 0..K: s += y[i, k]
      for k in 0..K: s += e[k]              ->    for k in 0..K: y[i, k] = y[i, k] * (1 / s)
      for k in 0..K: y[i, k] = e[k] * (1 / s)

One row less has to stay in the first cache, and the lines of the output come into it while the
exponentials are computed, not in the last pass, which computes next to nothing.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from codegen.passes.affine import interval, loop_range
from codegen.passes.places import Around, Indices, once, place_in, walks
from codegen.passes.rewrite import Nodes, map_body
from sketch.nest.loopnest import Affine, Allocate, Buffer, Loop, LoopNest, Node, Scope, Store
from sketch.nest.walk import accesses, store_loads, stores


def in_place(nest: LoopNest) -> LoopNest:
    """The nest with rows that passes keep in the outputs that these become."""
    uses: dict[Buffer, int] = {}
    for store, _ in stores(nest.roots):
        for buffer, _ in accesses(store):
            uses[buffer] = uses.get(buffer, 0) + 1
    written_once = {b for b, count in uses.items() if b.scope is Scope.OUTPUT and count == 1}
    return replace(nest, roots=_nodes(nest.roots, (), written_once)) if written_once else nest


def _nodes(nodes: Nodes, around: Around, outputs: set[Buffer]) -> Nodes:
    new: list[Node] = []
    for node in nodes:
        inside = (*around, node) if isinstance(node, Loop) else around
        node = map_body(node, partial(_nodes, around=inside, outputs=outputs))
        move = _moved(node, around, outputs) if isinstance(node, Allocate) else None
        new += [node] if move is None else move
    same = len(new) == len(nodes) and all(a is b for a, b in zip(new, nodes, strict=True))
    return nodes if same else tuple(new)


def _moved(node: Allocate, around: Around, outputs: set[Buffer]) -> Nodes | None:
    """What is inside of an allocation, without it; None where it has to stay."""
    kept, inside = node.buffer, list(stores(node.body))
    reading = [(s, loops) for s, loops in inside if any(x.buffer is kept for x in store_loads(s))]
    last = [(s, loops) for s, loops in reading if s.targets[0] in outputs and s.reducer is None]
    if kept.scope is not Scope.LOCAL or len(reading) == 1 or len(last) != 1:
        return None
    (store, loops), own = last[0], {loop.var for _, x in inside for loop in x}
    read = [(x.indices, store.indices) for x in store_loads(store) if x.buffer is kept]
    place = place_in(kept, store.targets[0], read, own) if len(store.targets) == 1 else None
    if place is None or not once(store.indices, loops) or not _is_last(node.body, store, kept):
        return None
    written = [(s, x) for s, x in inside if kept in s.targets]
    if any(s.reducer is not None or len(s.targets) > 1 or not walks(x) for s, x in written):
        return None
    if not all(_is_covered(place.indices(s.indices), x, store.indices, loops) for s, x in written):
        return None
    if not all(place.holds(s, (*around, *x)) for s, x in (*written, *reading)):
        return None
    return place.nodes(node.body)


def _is_covered(indices: Indices, loops: Around, last: Indices, last_loops: Around) -> bool:
    """Whether what a statement writes is written by the last one in the same trip of the loops
    around both, so that no other trip has it: of a block and what is around it, that is another
    block's.

    Args:
        indices: of the statement, in the output.
        loops: around it, inside of the allocation.
        last: indices of the last statement.
        last_loops: around that.
    """
    ranges = {loop.var: loop_range(loop) for loop in (*loops, *last_loops)}
    for one, other in zip(indices, last, strict=True):
        if not (isinstance(one, Affine) and isinstance(other, Affine)):
            return False
        moves = [(v, c) for form in (one, other) for v, c in form.terms if v not in ranges]
        if any(one.coefficient(v) != other.coefficient(v) for v, _ in moves):
            return False
        (low, high), (first, end) = (
            interval(Affine(tuple(t for t in form.terms if t[0] in ranges), form.const), ranges)
            for form in (one, other)
        )
        if low < first or high > end:
            return False
    return True


def _is_last(nodes: Nodes, store: Store, kept: Buffer) -> bool:
    """Whether a statement is in a pass of its own, after all others that access what is kept."""
    while isinstance(final := nodes[-1], Allocate):
        nodes = final.body
    users = [s for s, _ in stores((final,)) if any(b is kept for b, _ in accesses(s))]
    return len(users) == 1 and users[0] is store
