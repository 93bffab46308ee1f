"""Edge loops: of a loop that a copy at an edge has unrolled, the trips inside become a loop again.

    for kw in 0..3 unrolled:               acc[r] += ...  if 1 <= r      (kw = 0)
      acc[r] += ...  if 1 <= r + kw   ->   for kw in 0..2:
                                             acc[r] += ...               (kw + 1)

No instance is outside in these trips: their code is that of the interior, and as fast rolled up.
"""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from itertools import groupby

from codegen.passes.affine import Ranges, constant, decide
from codegen.passes.rewrite import Nodes, map_body, substitute
from sketch.lang.rewrite import reused
from sketch.nest.loopnest import Affine, Loop, LoopKind, LoopVar, Node, Predicate


def roll_inside(
    nodes: Nodes, rolled: AbstractSet[LoopVar], predicates: Sequence[Predicate], ranges: Ranges
) -> Nodes:
    """Take unrolled loops apart where several trips on end are inside.

    Args:
        nodes: a copy at an edge.
        rolled: variables of loops that were no straight-line code before.
        predicates: those of the copy that are not decided.
        ranges: of the variables around the copy and inside it.
    """
    new: list[Node] = []
    for node in nodes:
        inner = map_body(node, lambda body: roll_inside(body, rolled, predicates, ranges))
        if isinstance(inner, Loop) and inner.kind is LoopKind.UNROLLED and inner.var in rolled:
            new.extend(_apart(inner, predicates, ranges))
        else:
            new.append(inner)
    return reused(new, nodes)


def _apart(loop: Loop, predicates: Sequence[Predicate], ranges: Ranges) -> Nodes:
    concerned = [p for p in predicates if p.index.coefficient(loop.var)]

    def is_inside(value: int) -> bool:
        here = {**ranges, loop.var: (value, value)}
        return all(decide(predicate, here) is True for predicate in concerned)

    stride = int(loop.stride)
    values = range(0, int(loop.extent) * stride, stride)
    runs = [(inside, [*run]) for inside, run in groupby(values, is_inside)]
    if not any(inside and len(run) > 1 for inside, run in runs):
        return (loop,)
    return tuple(
        part
        for inside, run in runs
        for part in _trips(loop, run, LoopKind.SERIAL if inside else LoopKind.UNROLLED)
    )


def _trips(loop: Loop, values: Sequence[int], kind: LoopKind) -> Nodes:
    """The trips of a loop for some values of its variable on end."""
    first, trips = values[0], len(values)
    if trips == 1:
        return substitute(loop.body, {loop.var: constant(first)})
    body = substitute(loop.body, {loop.var: Affine(((loop.var, 1),), first)})
    return (replace(loop, extent=trips, kind=kind, body=body),)
