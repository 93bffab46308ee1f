"""Overwrite: what is made of each element of a local array takes its place.

    local a: [M, N]                              local a: [M, N]
    a[...] = products                            a[...] = products
    local e: [M, N]                              for i:
    for i:                                 ->      for j: m = max(m, a[i, j])
      for j: m = max(m, a[i, j])                   for j: a[i, j] = exp(a[i, j] - m)
      for j: e[i, j] = exp(a[i, j] - m)          y += a[i, k] * v[k, ...]
    y += e[i, k] * v[k, ...]

A block of scores is half as large so, and its lines are in the first cache when the exponentials
are written.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from codegen.passes.affine import Ranges, interval, loop_range
from codegen.passes.places import Around, Indices, PlaceInside, coefficients, once, place_in, walks
from codegen.passes.rewrite import Nodes, map_body
from sketch.nest.loopnest import (
    Affine,
    Allocate,
    BufferLoad,
    Loop,
    LoopNest,
    Node,
    Scope,
    Store,
)
from sketch.nest.walk import accesses, store_loads, stores

_Statements = Sequence[tuple[Store, Around]]


def overwrite(nest: LoopNest) -> LoopNest:
    """The nest with local arrays in the place of those that they are made of."""
    return replace(nest, roots=_nodes(nest.roots, ()))


def _nodes(nodes: Nodes, around: Around) -> Nodes:
    new: list[Node] = []
    for node in nodes:
        inside = (*around, node) if isinstance(node, Loop) else around
        node = map_body(node, partial(_nodes, around=inside))
        if isinstance(node, Allocate) and node.buffer.scope is Scope.LOCAL:
            node = _overwritten(node, around)
        new.append(node)
    same = all(a is b for a, b in zip(new, nodes, strict=True))
    return nodes if same else tuple(new)


def _overwritten(home: Allocate, around: Around) -> Allocate:
    """An array, and in its place what is made of it in the last node of its life."""
    last, body = home.body[-1], home.body
    while isinstance(last, Allocate):
        place = _place(last, home, around)
        if place is not None:
            return Allocate(home.buffer, _without(body, last, place))
        last = last.body[-1]
    return home


def _without(nodes: Nodes, gone: Allocate, place: PlaceInside) -> Nodes:
    """``nodes``, whose last one is an allocation or in one, without it."""
    last = nodes[-1]
    assert isinstance(last, Allocate)
    if last is gone:
        return (*nodes[:-1], *place.nodes(gone.body))
    return (*nodes[:-1], Allocate(last.buffer, _without(last.body, gone, place)))


def _place(made: Allocate, home: Allocate, around: Around) -> PlaceInside | None:
    """The place of an array in the one that it is made of; None where it has none."""
    kept, inside = made.buffer, list(stores(home.body))
    writing = [(s, loops) for s, loops in inside if kept in s.targets]
    if kept.scope is not Scope.LOCAL or len(writing) != 1:
        return None
    (store, loops) = writing[0]
    read = [x for x in store_loads(store) if x.buffer is home.buffer]
    if store.reducer is not None or len(store.targets) > 1 or not read or not walks(loops):
        return None
    own = {loop.var for _, x in inside for loop in x}
    place = place_in(kept, home.buffer, [(store.indices, x.indices) for x in read], own)
    if place is None or not once(store.indices, loops):
        return None
    users = [(s, x) for s, x in inside if any(b is kept for b, _ in accesses(s))]
    if not all(place.holds(s, (*around, *x)) for s, x in users):
        return None
    first = made.body[0]
    if any(s is store for s, _ in stores((first,))) and _is_over(
        inside, (first,), home, store, read[0]
    ):
        return place
    return None


def _is_over(
    inside: _Statements, first: Nodes, home: Allocate, store: Store, read: BufferLoad
) -> bool:
    """Whether nobody reads an element of ``home`` after ``store`` has taken its place."""
    order = [s for s, _ in inside]
    at = order.index(store)
    (own,) = [loops for s, loops in inside if s is store]
    for number, (other, loops) in enumerate(inside):
        used = [indices for b, indices in accesses(other) if b is home.buffer]
        if other is store or not used:
            continue
        if number > at:
            return False
        if any(s is other for s, _ in stores(first)) and not all(
            _is_before(indices, loops, read.indices, own) for indices in used
        ):
            return False
    return True


def _is_before(other: Indices, loops: Around, own: Indices, around: Around) -> bool:
    """Whether one of two accesses, which comes first in the loops that they share, reaches no
    element that the other one has come to in an earlier trip: some dimension tells trips apart.
    """
    shared = [a for a, b in zip(loops, around, strict=False) if a is b]
    if len(shared) in (len(loops), len(around)):
        return False
    return all(
        int(loop.extent) == 1
        or any(
            isinstance(a, Affine)
            and isinstance(b, Affine)
            and _tells_apart(loop, a, b, _ranges((*loops[n + 1 :], *around[n + 1 :])))
            for a, b in zip(other, own, strict=True)
        )
        for n, loop in enumerate(shared)
    )


def _ranges(loops: Around) -> Ranges:
    return {loop.var: loop_range(loop) for loop in loops}


def _tells_apart(loop: Loop, lhs: Affine, rhs: Affine, inside: Ranges) -> bool:
    """Whether two indices differ between any two trips of a loop, whatever the loops inside do."""
    forms = [
        {v: c for v, c in coefficients(form).items() if v not in inside} for form in (lhs, rhs)
    ]
    if forms[0] != forms[1] or lhs.coefficient(loop.var) <= 0:
        return False
    parts = [
        interval(Affine(tuple((v, c) for v, c in form.terms if v in inside), form.const), inside)
        for form in (lhs, rhs)
    ]
    span = max(high for _, high in parts) - min(low for low, _ in parts)
    return span < lhs.coefficient(loop.var) * int(loop.stride)
