"""Edge trips: trips of a reduce loop that are cut at an edge come before and after it, under a
branch; all tiles share the loop over the trips that are not.

    for kw in 0..3:                             branch ow
      for ic in 0..64:                            0..0: for ic in 0..64: acc[r] += ...  if 1 <= r
        for r in 0..14 unrolled:          ->    for kw in 0..3 clip 1 <= ow + kw < 44:
          acc[r] += ...                           for ic in 0..64: acc[r] += ...
            if 0 <= ow + r + kw - 1 < 56        branch ow
                                                  42..42: for ic in 0..64: acc[r] += ...  if r < 13

A copy of the whole loop for each edge would have the code of the interior once more.  Sums keep
their order.
"""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from math import prod
from typing import Final

from codegen.passes.affine import Ranges, constant, decide, interval, loop_range, variables
from codegen.passes.edge_loops import holds_all, reroll, roll_inside
from codegen.passes.outer_sums import Outer, Outers
from codegen.passes.rewrite import (
    Nodes,
    Values,
    is_dynamic,
    map_body,
    substitute,
    without_predicates,
)
from codegen.passes.simplify import simplify_nodes
from sketch.lang.affine import UNBOUNDED
from sketch.lang.rewrite import reused
from sketch.nest.loopnest import (
    Affine,
    Allocate,
    Branch,
    Case,
    Loop,
    LoopKind,
    LoopVar,
    Node,
    Predicate,
)
from sketch.nest.walk import stores, walk
from sketch.target.code_limits import CodeLimits

MOST_VALUES: Final = 4096  # of a variable, that are looked at one by one


def edge_trips(nodes: Nodes, outer: Outers, limits: CodeLimits) -> Nodes:
    """Take the trips at edges out of the reduce loops of a unit.

    Args:
        nodes: a unit.
        outer: the variables around it.
        limits: of copies.
    """
    return _taken_out(nodes, outer, {v: (o.low, o.high) for v, o in outer.items()}, limits)


def _taken_out(nodes: Nodes, outer: Outers, around: Ranges, limits: CodeLimits) -> Nodes:
    """``around``: of all variables around ``nodes``, also of loops of the unit."""
    new: list[Node] = []
    for node in nodes:
        new.extend(_of_node(node, outer, around, limits))
    return reused(new, nodes)


def _of_node(node: Node, outer: Outers, around: Ranges, limits: CodeLimits) -> Nodes:
    inside = {**around, node.var: loop_range(node)} if isinstance(node, Loop) else around
    node = map_body(node, lambda body: _taken_out(body, outer, inside, limits))
    edges = _edges(node, outer, around, limits) if isinstance(node, Loop) else None
    return (node,) if edges is None else edges.taken_out()


@dataclass(frozen=True, slots=True)
class _Edges:
    """A loop, and for each value of a variable around it which trips are cut.

    Attributes:
        loop: over a short reduce axis.
        whole: where no trip is cut.
        predicates: that cut it.
        var: the variable around it; None where trips are the same for all its values.
        around: ranges of all variables around it.
        before: trips that are cut before those that are not, by the values of ``var``.
        after: those behind.
    """

    loop: Loop
    whole: tuple[Predicate, ...]
    predicates: frozenset[Predicate]
    var: LoopVar | None
    around: Ranges
    before: dict[int, list[int]]
    after: dict[int, list[int]]

    def taken_out(self) -> Nodes:
        """The loop over whole trips, with the others around it.

        Where every tile is at an edge, nothing is straight-line code that need not be.
        """
        inside = any(not (cut or self.after[value]) for value, cut in self.before.items())
        body = self.loop.body if inside else tuple(reroll(node) for node in self.loop.body)
        body = without_predicates(body, self.predicates)
        shared = replace(self.loop, clip=self.whole, body=body)
        return (*self._copies(self.before), shared, *self._copies(self.after))

    def _copies(self, trips: dict[int, list[int]]) -> Nodes:
        """The cut trips for values of the variable, under a branch."""
        if not any(trips.values()):
            return ()
        if self.var is None:
            return self._copy({}, trips[0])
        cases: list[Case] = []
        for value, own in trips.items():
            if not own and cases and not cases[-1].body:
                cases[-1] = replace(cases[-1], high=value)
            else:
                cases.append(Case(value, value, self._copy({self.var: constant(value)}, own)))
        return (Branch(Affine(((self.var, 1),)), tuple(cases)),)

    def _copy(self, at: Values, trips: Sequence[int]) -> Nodes:
        if not trips:
            return ()
        loop, cut = self.loop, replace(self.loop.var)  # the shared loop has the variable itself
        known = {**at, loop.var: Affine(((cut, 1),), trips[0])}
        body = substitute(tuple(reroll(node) for node in loop.body), known)
        extent = len(trips)
        unrolled = replace(loop, var=cut, extent=extent, kind=LoopKind.UNROLLED, body=body)
        copies = simplify_nodes((unrolled,), self.around)
        inside = {node.var: loop_range(node) for node in walk(copies) if isinstance(node, Loop)}
        return roll_inside(copies, {cut}, {**self.around, **inside})


def _edges(loop: Loop, outer: Outers, around: Ranges, limits: CodeLimits) -> _Edges | None:
    """None where no trip is cut, more than trips are to be decided, or copies would be many."""
    if not _may_be_shared(loop, limits):
        return None
    ranges = {node.var: loop_range(node) for node in walk(loop.body) if isinstance(node, Loop)}
    found = _cutting(loop, {**around, **ranges, loop.var: loop_range(loop)}, outer)
    if found is None:
        return None
    whole, statements = found
    moving = {v for p in whole for v in variables(p.index) if v in outer and outer[v].moves}
    if len(moving) > 1:
        return None
    var = next(iter(moving), None)
    known = Outer(0, 0, 1) if var is None else outer[var]
    values = range(known.low, known.high + 1, known.stride)
    parts: dict[int, tuple[list[int], list[int]]] = {}
    for value in values if len(values) <= MOST_VALUES else ():
        at = {} if var is None else {var: (value, value)}
        here = _cut_trips(loop, statements, {**around, **ranges, **at})
        if here is None:
            return None
        parts[value] = here
    if not 0 < sum(1 for part in parts.values() if any(part)) <= limits.edge_copies:
        return None
    before = {value: part[0] for value, part in parts.items()}
    after = {value: part[1] for value, part in parts.items()}
    predicates = frozenset[Predicate]().union(*statements)
    return _Edges(loop, whole, predicates, var, around, before, after)


def _may_be_shared(loop: Loop, limits: CodeLimits) -> bool:
    """Whether it is short, and has long loops inside: short ones become straight-line code."""
    if loop.kind is not LoopKind.SERIAL or loop.axis_kind != "reduce" or loop.clip:
        return False
    inside = max(
        prod(int(inner.extent) for inner in loops if is_dynamic(inner))
        for _, loops in stores(loop.body)
    )
    return 1 < int(loop.extent) <= limits.edge_unroll_trips and inside > limits.edge_unroll_trips


def _cutting(
    loop: Loop, ranges: Ranges, outer: Outers
) -> tuple[tuple[Predicate, ...], frozenset[tuple[Predicate, ...]]] | None:
    """Where trips of a loop are whole, and the predicates that cut the others, by statement.

    None where statements differ in that, or where loops inside decide it.
    """
    private = {node.buffer for node in walk(loop.body) if isinstance(node, Allocate)}
    inside = [node for node in walk(loop.body) if isinstance(node, Loop)]
    static = {inner.var for inner in inside if not is_dynamic(inner)}
    known = static | {loop.var} | outer.keys()
    wholes: set[tuple[Predicate, ...]] = set()
    cutting: set[tuple[Predicate, ...]] = set()
    for store, _ in stores(loop.body):
        own = [p for p in store.predicates if p.index.coefficient(loop.var)]
        if any(not variables(p.index) <= known for p in own):
            return None
        own = [p for p in own if decide(p, ranges) is None]
        if own or store.targets[0] not in private:
            wholes.add(tuple(_whole(p, static, ranges) for p in own))
            cutting.add(tuple(own))
    return None if len(wholes) != 1 or not any(cutting) else (wholes.pop(), frozenset(cutting))


def _cut_trips(
    loop: Loop, statements: AbstractSet[tuple[Predicate, ...]], ranges: Ranges
) -> tuple[list[int], list[int]] | None:
    """Cut trips before those that are whole, and behind; None where these are not on end.

    All trips come before where none is whole.  Trips in which no statement has an instance are
    none of both.
    """
    stride = int(loop.stride)
    verdicts = {
        value: {holds_all(own, {**ranges, loop.var: (value, value)}) for own in statements}
        for value in range(0, int(loop.extent) * stride, stride)
    }
    whole = [value for value, found in verdicts.items() if found == {True}]
    cut = [value for value, found in verdicts.items() if found not in ({True}, {False})]
    if not whole:
        return cut, []
    if whole[-1] - whole[0] != (len(whole) - 1) * stride:
        return None
    return [v for v in cut if v < whole[0]], [v for v in cut if v > whole[-1]]


def _whole(predicate: Predicate, static: AbstractSet[LoopVar], ranges: Ranges) -> Predicate:
    """Where a predicate holds for all trips of unrolled loops and all lanes."""
    kept = tuple(term for term in predicate.index.terms if term[0] not in static)
    inside = tuple(term for term in predicate.index.terms if term[0] in static)
    least, most = interval(Affine(inside), ranges)
    low = predicate.low if predicate.low == -UNBOUNDED else predicate.low - least
    high = predicate.high if predicate.high == UNBOUNDED else predicate.high - most
    return Predicate(Affine(kept, predicate.index.const), low, high)
