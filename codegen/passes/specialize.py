"""Specialize: copies of a tile for the ranges of outer variables that decide its predicates.

    for ow in 0..56 step 14:                        for ow in 0..56 step 14:
      for kw in 0..3:                                 branch ow
        for r in 0..14 unrolled:              ->        0..0:   for kw in 0..3 unrolled: ...
          acc[r] += ...  if 0 <= ow+r+kw-1 < 56         14..28: for kw in 0..3: acc[r] += ...
                                                        42..42: for kw in 0..3 unrolled: ...

Where all instances of a statement are inside, the copy has no predicate.  At the edges the short
reduce loops that a predicate depends on are unrolled, so that every instance is decided and taps
outside vanish.  A tail tile is the copy in which rows are missing.

The unit that is copied is the largest part of the nest without a serial spatial loop and without a
private buffer of its own: filling a register tile, reducing into it and writing it back are three
units, so a padded reduction does not copy the write-back.  Copies must fit the target's instruction
budget; predicates that are left stay dynamic.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from codegen.passes.affine import Ranges, constant, decide, loop_range, variables
from codegen.passes.rewrite import Nodes, is_dynamic, map_body, stores, substitute
from codegen.passes.simplify import simplify_nodes
from sketch.expr import children
from sketch.loopnest import (
    Allocate,
    Branch,
    Case,
    Loop,
    LoopKind,
    LoopNest,
    LoopVar,
    Node,
    Predicate,
    Scope,
    Store,
    walk,
)
from sketch.target import Target

_SINGLE_CASES = 6  # most values of one variable that get a copy of their own
_UNROLL_TRIPS = 12  # longest reduce loop that is unrolled to decide predicates
_ENUMERATED = 4096  # most values of a variable that are looked at one by one


@dataclass(frozen=True, slots=True)
class _Outer:
    """A dynamic variable around a unit: least and largest value, and the step between."""

    low: int
    high: int
    stride: int


Outer = dict[LoopVar, _Outer]


def specialize(nest: LoopNest, target: Target) -> LoopNest:
    """The nest with specialised copies of its tiles."""
    pass_ = _Specializer(target.instruction_budget - instructions(nest.roots))
    return replace(nest, roots=pass_.nodes(nest.roots, {}))


def instructions(nodes: Nodes) -> int:
    """About the vector instructions of the straight-line code of a nest."""
    total = 0
    for store, loops in stores(nodes):
        count = _operations(store)
        for loop in loops:
            if loop.kind is LoopKind.UNROLLED:
                count *= int(loop.extent)
        total += count
    return total


def _operations(store: Store) -> int:
    """Operators of a statement, and its store to memory; literals in registers cost nothing."""
    pending = list(store.values)
    count = 0
    while pending:
        node = pending.pop()
        operands = children(node)
        pending.extend(operands)
        count += bool(operands)
    in_memory = store.targets[0].scope is not Scope.LOCAL
    return count + len(store.targets) * in_memory


class _Specializer:
    """Walks down to the units and copies them while the budget lasts."""

    def __init__(self, budget: int) -> None:
        self.budget = budget

    def nodes(self, nodes: Nodes, outer: Outer) -> Nodes:
        new: list[Node] = []
        for node in nodes:
            new.extend(self.node(node, outer))
        same = len(new) == len(nodes) and all(a is b for a, b in zip(new, nodes, strict=True))
        return nodes if same else tuple(new)

    def node(self, node: Node, outer: Outer) -> Nodes:
        if isinstance(node, Store):
            return (node,)
        if isinstance(node, Allocate) or _has_dynamic_spatial(node):
            inner = outer
            if isinstance(node, Loop) and is_dynamic(node):
                inner = {**outer, node.var: _outer_of(node)}
            return (map_body(node, lambda body: self.nodes(body, inner)),)
        return self.unit(node, outer)

    def unit(self, node: Node, outer: Outer) -> Nodes:
        """Copies of one unit, nested by the variables that decide its predicates."""
        size = instructions((node,))
        body: Nodes = (node,)
        for group in _groups(_undecided(node, outer), outer):
            trial = self.split(body, list(group), outer)
            grown = instructions(trial) - size
            if grown <= self.budget:
                self.budget -= grown
                size += grown
                body = trial
        return body

    def split(self, nodes: Nodes, chosen: list[LoopVar], outer: Outer) -> Nodes:
        """Branch on the chosen variables, outermost first; unroll what remains undecided."""
        new: list[Node] = []
        for node in nodes:
            if isinstance(node, Branch):
                cases = tuple(
                    replace(case, body=self.split(
                        case.body, chosen, _narrowed(outer, node.var, case.low, case.high)))
                    for case in node.cases)
                new.append(Branch(node.var, cases))
            else:
                new.extend(self._split_node(node, chosen, outer))
        return tuple(new)

    def _split_node(self, node: Node, chosen: list[LoopVar], outer: Outer) -> Nodes:
        predicates = [p for p in _undecided(node, outer)
                      if not chosen or variables(p.index) & set(chosen) or not (
                          variables(p.index) & outer.keys())]
        if not predicates:
            return (node,)
        for position, var in enumerate(chosen):
            if var not in outer or outer[var].low == outer[var].high:
                continue
            relevant = [p for p in predicates if var in variables(p.index)]
            ranges = _ranges(node, outer)
            cases = _cases(var, outer[var], relevant, ranges) if relevant else []
            if len(cases) < 2:
                continue
            rest = chosen[position + 1:]
            return (Branch(var, tuple(
                self._case(node, var, low, high, rest, outer) for low, high in cases)),)
        return _unroll_reductions((node,), predicates, outer)

    def _case(
        self, node: Node, var: LoopVar, low: int, high: int, rest: list[LoopVar], outer: Outer
    ) -> Case:
        inner = _narrowed(outer, var, low, high)
        nodes: Nodes = (node,)
        if low == high:
            nodes = substitute(nodes, {var: constant(low)})
            del inner[var]
        nodes = simplify_nodes(nodes, {v: (o.low, o.high) for v, o in inner.items()})
        return Case(low, high, self.split(nodes, rest, inner))


def _outer_of(loop: Loop) -> _Outer:
    low, high = loop_range(loop)
    return _Outer(low, high, int(loop.stride))


def _narrowed(outer: Outer, var: LoopVar, low: int, high: int) -> Outer:
    if var not in outer:
        return dict(outer)
    return {**outer, var: _Outer(low, high, outer[var].stride)}


def _has_dynamic_spatial(node: Node) -> bool:
    return any(isinstance(n, Loop) and is_dynamic(n) and n.axis_kind == "spatial"
               for n in walk((node,)))


def _ranges(node: Node, outer: Outer) -> dict[LoopVar, tuple[int, int]]:
    """Ranges of the variables around and inside a unit."""
    ranges = {var: (known.low, known.high) for var, known in outer.items()}
    for inner in walk((node,)):
        if isinstance(inner, Loop):
            ranges[inner.var] = loop_range(inner)
    return ranges


def _undecided(node: Node, outer: Outer) -> list[Predicate]:
    """Predicates that are not the same for all instances of a statement."""
    ranges = _ranges(node, outer)
    found: list[Predicate] = []
    for store, loops in stores((node,)):
        static = {loop.var for loop in loops if not is_dynamic(loop)}
        for predicate in store.predicates:
            depends = variables(predicate.index) & static
            if depends and predicate not in found and decide(predicate, ranges) is None:
                found.append(predicate)
    return found


def _groups(predicates: Iterable[Predicate], outer: Outer) -> list[tuple[LoopVar, ...]]:
    """The sets of outer variables that decide predicates, each in nest order, small ones first."""
    order = list(outer)
    groups: list[tuple[LoopVar, ...]] = []
    for predicate in predicates:
        used = variables(predicate.index)
        group = tuple(var for var in order if var in used)
        if group not in groups:
            groups.append(group)
    return sorted(groups, key=len)


def _cases(
    var: LoopVar, known: _Outer, predicates: list[Predicate], ranges: Ranges
) -> list[tuple[int, int]]:
    """Ranges of ``var``: one for each run of values where all predicates hold, single values
    (or one range, where there are many) elsewhere.
    """
    count = (known.high - known.low) // known.stride + 1
    if count > _ENUMERATED:
        return []
    values = range(known.low, known.high + 1, known.stride)
    inside = [all(decide(p, {**ranges, var: (v, v)}) is True for p in predicates)
              for v in values]
    singles = inside.count(False) <= _SINGLE_CASES
    cases: list[tuple[int, int]] = []
    previous: bool | None = None
    for value, holds in zip(values, inside, strict=True):
        if holds == previous and (holds or not singles):
            cases[-1] = (cases[-1][0], value)
        else:
            cases.append((value, value))
        previous = holds
    return cases


def _unroll_reductions(nodes: Nodes, predicates: list[Predicate], outer: Outer) -> Nodes:
    """Unroll the reduce loops that undecided predicates depend on, then simplify."""
    wanted: set[LoopVar] = set()
    for predicate in predicates:
        wanted |= variables(predicate.index) - outer.keys()
    unrolled = tuple(_unroll(node, wanted) for node in nodes)
    return simplify_nodes(unrolled, {v: (o.low, o.high) for v, o in outer.items()})


def _unroll(node: Node, wanted: set[LoopVar]) -> Node:
    if isinstance(node, Loop) and node.var in wanted and is_dynamic(node) and (
        node.axis_kind == "reduce" and int(node.extent) <= _UNROLL_TRIPS and not node.clip
    ):
        node = replace(node, kind=LoopKind.UNROLLED)
    return map_body(node, lambda body: tuple(_unroll(child, wanted) for child in body))
