"""Edge loops: of a loop that a copy at an edge has unrolled, trips that do the same become a loop
again.

    for kw in 0..3 unrolled:               acc[r] += ...  if 1 <= r
      acc[r] += ...  if 1 <= r + kw   ->   for kw in 0..2:
                                             acc[r] += ...               (kw + 1)

In all trips of such a loop the same instances are inside: their code is straight, and as fast
rolled up.  Trips without an instance vanish.
"""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from itertools import groupby, product

from codegen.passes.affine import Ranges, constant, decide, variables
from codegen.passes.rewrite import (
    Nodes,
    Values,
    is_dynamic,
    map_body,
    substitute,
    substitute_predicates,
)
from sketch.lang.rewrite import reused
from sketch.nest.loopnest import (
    Affine,
    Allocate,
    Loop,
    LoopKind,
    LoopVar,
    Node,
    Predicate,
    Store,
)
from sketch.nest.walk import stores, walk


def roll_inside(nodes: Nodes, rolled: AbstractSet[LoopVar], ranges: Ranges) -> Nodes:
    """Take unrolled loops apart where several trips on end do the same.

    Args:
        nodes: a copy at an edge.
        rolled: variables of loops that were no straight-line code before.
        ranges: of the variables around the copy and inside it.
    """
    new: list[Node] = []
    for node in nodes:
        inner = map_body(node, lambda body: roll_inside(body, rolled, ranges))
        if isinstance(inner, Loop) and inner.kind is LoopKind.UNROLLED and inner.var in rolled:
            new.extend(_apart(inner, ranges))
        else:
            new.append(inner)
    return reused(new, nodes)


def _apart(loop: Loop, ranges: Ranges) -> Nodes:
    stride = int(loop.stride)
    values = range(0, int(loop.extent) * stride, stride)
    instances, always = _instances(loop), _has_others(loop)

    def verdicts(low: int, high: int) -> tuple[bool | None, ...]:
        here = {**ranges, loop.var: (low, high)}
        return tuple([holds_all(predicates, {**here, **at}) for predicates, at in instances])

    new: list[Node] = []
    for found, trips in groupby(values, lambda value: verdicts(value, value)):
        run = [*trips]
        alike = None not in found and verdicts(run[0], run[-1]) == found
        if always or any(inside is not False for inside in found):
            new += _trips(loop, run, LoopKind.SERIAL if alike else LoopKind.UNROLLED)
    return tuple(new)


_Instance = tuple[tuple[Predicate, ...], Ranges]
"""Predicates of a statement, and values of unrolled variables."""


def _instances(loop: Loop) -> list[_Instance]:
    """Of the statements whose predicates depend on a loop."""
    found: list[_Instance] = []
    for store, around in stores(loop.body):
        if any(p.index.coefficient(loop.var) for p in store.predicates):
            used = {var for p in store.predicates for var in variables(p.index)}
            unrolled = [n for n in around if n.var in used and n.kind is LoopKind.UNROLLED]
            steps = [range(0, int(n.extent) * int(n.stride), int(n.stride)) for n in unrolled]
            for at in product(*steps):
                known = {n.var: (v, v) for n, v in zip(unrolled, at, strict=True)}
                found.append((store.predicates, known))
    return found


def _has_others(loop: Loop) -> bool:
    """Whether there are statements in every trip, beside those that prepare what a trip reads."""
    private = {node.buffer for node in walk(loop.body) if isinstance(node, Allocate)}
    return any(
        store.targets[0] not in private
        and not any(p.index.coefficient(loop.var) for p in store.predicates)
        for store, _ in stores(loop.body)
    )


def holds_all(predicates: Sequence[Predicate], ranges: Ranges) -> bool | None:
    """Whether all predicates hold everywhere; False: one holds nowhere."""
    found = [decide(predicate, ranges) for predicate in predicates]
    return False if False in found else None if None in found else True


def _trips(loop: Loop, values: Sequence[int], kind: LoopKind) -> Nodes:
    """The trips of a loop for some values of its variable on end; in a serial loop, all alike."""
    first, trips = values[0], len(values)
    if trips == 1:
        return substitute(loop.body, {loop.var: constant(first)})
    body = loop.body
    if kind is LoopKind.SERIAL:
        body = _decided_by(body, {loop.var: constant(first)})
    body = substitute(body, {loop.var: Affine(((loop.var, 1),), first)})
    return (replace(loop, extent=trips, kind=kind, body=body),)


def _decided_by(nodes: Nodes, values: Values) -> Nodes:
    """Statements under the predicates of one trip."""
    return tuple(
        replace(node, predicates=substitute_predicates(node.predicates, values))
        if isinstance(node, Store)
        else map_body(node, lambda body: _decided_by(body, values))
        for node in nodes
    )


def reroll(node: Node, wanted: AbstractSet[LoopVar] = frozenset(), longest: int = 0) -> Node:
    """Unroll the wanted reduce loops of at most ``longest`` trips, roll up all others."""
    if isinstance(node, Loop) and node.axis_kind == "reduce" and not node.clip:
        small = int(node.extent) <= longest
        if node.var in wanted and is_dynamic(node) and small:
            node = replace(node, kind=LoopKind.UNROLLED)
        elif node.var not in wanted and node.kind is LoopKind.UNROLLED:
            node = replace(node, kind=LoopKind.SERIAL)
    return map_body(
        node, lambda body: reused([reroll(child, wanted, longest) for child in body], body)
    )
