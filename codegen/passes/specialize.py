"""Specialize: copies of a tile for the ranges of outer variables that decide its predicates.

    for ow in 0..56 step 14:                        for ow in 0..56 step 14:
      for kw in 0..3:                                 branch ow
        for r in 0..14 unrolled:              ->        0..0:   acc[r] += ...; for kw in 1..3: ...
          acc[r] += ...  if 0 <= ow+r+kw-1 < 56         14..28: for kw in 0..3: acc[r] += ...
                                                        42..42: for kw in 0..2: ...; acc[r] += ...

Where all instances of a statement are inside, the copy has no predicate.  At the edges the short
reduce loops that a predicate depends on are unrolled, so that every instance is decided and taps
outside vanish; trips that do the same are a loop again (``edge_loops``).  A tail tile is the copy
in which rows are missing.

A reduction that is long inside of such a loop has one loop over the trips that no edge cuts, shared
by all tiles, and copies of the others alone (``edge_trips``).

Where predicates see several loops in one sum, the copies are for ranges of the sum.

The unit that is copied is the largest part of the nest without a serial spatial loop and without a
private buffer of its own: filling a register tile, reducing into it and writing it back are three
units, so a padded reduction does not copy the write-back.  Copies must fit the target's instruction
budget; predicates that are left stay dynamic.  Reductions, where the time goes, have a budget of
their own: straight-line code elsewhere, such as a Winograd transform, takes nothing of it.
"""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from functools import lru_cache

from codegen.passes.affine import Ranges, constant, decide, lone_variable, loop_range, variables
from codegen.passes.edge_loops import reroll, roll_inside
from codegen.passes.edge_trips import MOST_VALUES, edge_trips
from codegen.passes.outer_sums import Outer, Outers, outer_sums, put_in, take_out
from codegen.passes.rewrite import Nodes, instructions, is_dynamic, map_body, substitute
from codegen.passes.simplify import simplify_nodes
from sketch.lang.rewrite import reused
from sketch.nest.loopnest import (
    Affine,
    Allocate,
    Branch,
    Case,
    Loop,
    LoopNest,
    LoopVar,
    Node,
    Predicate,
    Store,
)
from sketch.nest.walk import stores, walk
from sketch.target.code_limits import CodeLimits
from sketch.target.target import Target


def specialize(nest: LoopNest, target: Target) -> LoopNest:
    """The nest with specialised copies of its tiles."""
    others = target.instruction_budget - instructions(nest.roots)
    pass_ = _Specializer(target.instruction_budget, others, target.code)
    return replace(nest, roots=pass_.nodes(nest.roots, {}))


class _Specializer:
    """Walks down to the units and copies them while the budgets last.

    Args:
        reductions: instructions of units with a reduce loop, their copies included.
        others: what copies add to the other units.
        limits: of copies.
    """

    def __init__(self, reductions: int, others: int, limits: CodeLimits) -> None:
        self.reductions, self.others, self.limits = reductions, others, limits

    def nodes(self, nodes: Nodes, outer: Outers) -> Nodes:
        new: list[Node] = []
        for node in nodes:
            new.extend(self.node(node, outer))
        return reused(new, nodes)

    def node(self, node: Node, outer: Outers) -> Nodes:
        if isinstance(node, Store):
            return (node,)
        if isinstance(node, Allocate) or _has_dynamic_spatial(node):
            inner = outer
            if isinstance(node, Loop):
                if not is_dynamic(node):
                    return (node,)  # its copies have run-time loops: predicates stay dynamic
                inner = {**outer, node.var: Outer.of(node)}
            return (map_body(node, lambda body: self.nodes(body, inner)),)
        return self.unit(node, outer)

    def unit(self, node: Node, outer: Outers) -> Nodes:
        """Copies of one unit, nested by what decides its predicates."""
        sums = outer_sums(_undecided((node,), outer), outer)
        (node,) = put_in((node,), sums)
        outer = {**outer, **{found.var: found.values for found in sums}}
        return take_out(self._unit(node, outer), sums)

    def _unit(self, node: Node, outer: Outers) -> Nodes:
        groups = _groups(_undecided((node,), outer), outer)
        if not groups:
            return _roll((node,), outer, frozenset())
        size = instructions((node,))
        if _has_reduce_loop(node):
            body, now = self._copied(*self._shared(node, outer), outer, self.reductions)
            self.reductions -= now
        else:
            body, now = self._copied((node,), groups, outer, self.others + size)
            self.others -= now - size
        return _roll(body, outer, _dynamic_inside(node))

    def _shared(self, node: Node, outer: Outers) -> tuple[Nodes, list[tuple[LoopVar, ...]]]:
        """A unit whose edges share what they can, and the variables that decide the rest."""
        nodes = edge_trips((node,), outer, self.limits)
        if nodes[0] is node or instructions(nodes) > self.reductions:
            return (node,), _groups(_undecided((node,), outer), outer)
        moving = _moving(node, outer)
        left = [p for p in _undecided(nodes, outer) if variables(p.index) & moving]
        return nodes, _groups(left, outer)

    def _copied(
        self, unit: Nodes, groups: list[tuple[LoopVar, ...]], outer: Outers, most: int
    ) -> tuple[Nodes, int]:
        """Copies of one unit of at most ``most`` instructions, or itself; and how many they are."""
        body = unit
        size = instructions(body)
        for group in groups:
            for coarse in (False, True):
                trial = _split(body, _Choice(group, coarse, self.limits), outer)
                grown = instructions(trial)
                if grown <= most:
                    body, size = trial, grown
                    break
        return body, size


@dataclass(frozen=True, slots=True)
class _Choice:
    """Variables to branch on, outermost first.

    ``coarse``: only the interior gets a copy of its own; the edges share one whose predicates stay
    dynamic.
    """

    variables: tuple[LoopVar, ...]
    coarse: bool
    limits: CodeLimits

    def after(self, position: int) -> _Choice:
        return replace(self, variables=self.variables[position + 1 :])


def _split(nodes: Nodes, choice: _Choice, outer: Outers) -> Nodes:
    """Branch on the chosen variables; unroll what remains undecided at the edges."""
    new: list[Node] = []
    for node in nodes:
        if isinstance(node, Branch):
            cases = tuple(
                replace(
                    case,
                    body=_split(
                        case.body, choice, _narrowed(outer, node.index, case.low, case.high)
                    ),
                )
                for case in node.cases
            )
            new.append(Branch(node.index, cases))
        else:
            new.extend(_split_node(node, choice, outer))
    return tuple(new)


def _split_node(node: Node, choice: _Choice, outer: Outers) -> Nodes:
    done = _decided_at_edges(node, outer)
    undecided = [p for p in _undecided((node,), outer) if p not in done]
    predicates = [p for p in undecided if _concerns(p, choice, outer)]
    if not predicates:
        return (node,)
    for position, var in enumerate(choice.variables):
        if var not in outer or outer[var].low == outer[var].high:
            continue
        relevant = [p for p in predicates if var in variables(p.index)]
        rest = choice.after(position)
        inner = any(variables(p.index) & set(rest.variables) for p in relevant)
        singles = choice.limits.edge_copies if inner or not choice.coarse else 0
        cases = _cases(var, outer[var], relevant, _ranges(node, outer), singles)
        if len(cases) < 2:
            continue
        return (
            Branch(
                Affine(((var, 1),)),
                tuple(_case(node, var, low, high, rest, outer) for low, high in cases),
            ),
        )
    if choice.coarse:
        return (node,)
    return _unroll_reductions(node, predicates, outer, choice.limits.edge_unroll_trips)


def _decided_at_edges(node: Node, outer: Outers) -> set[Predicate]:
    """Predicates of trips at edges that have a copy already, which decides them."""
    edges = [inner for inner in walk((node,)) if isinstance(inner, Branch)]
    moving = _moving(node, outer) if edges else set()
    found = (p for store, _ in stores(edges) for p in store.predicates)
    return {p for p in found if not variables(p.index) & moving}


def _concerns(predicate: Predicate, choice: _Choice, outer: Outers) -> bool:
    """Whether the chosen variables, or none at all, decide a predicate."""
    used = variables(predicate.index)
    return bool(used & set(choice.variables)) or not used & outer.keys()


def _case(node: Node, var: LoopVar, low: int, high: int, rest: _Choice, outer: Outers) -> Case:
    inner = _narrowed(outer, Affine(((var, 1),)), low, high)
    nodes: Nodes = (node,)
    if low == high:
        nodes = substitute(nodes, {var: constant(low)})
        del inner[var]
    nodes = simplify_nodes(nodes, {v: (o.low, o.high) for v, o in inner.items()})
    return Case(low, high, _split(nodes, rest, inner))


def _narrowed(outer: Outers, index: Affine, low: int, high: int) -> dict[LoopVar, Outer]:
    var = lone_variable(index)  # branches are on sums only when all is done
    if var is None or var not in outer:
        return dict(outer)
    return {**outer, var: Outer(low, high, outer[var].stride)}


def _has_dynamic_spatial(node: Node) -> bool:
    return any(
        isinstance(n, Loop) and is_dynamic(n) and n.axis_kind == "spatial" for n in walk((node,))
    )


def _has_reduce_loop(node: Node) -> bool:
    return any(
        isinstance(n, Loop) and is_dynamic(n) and n.axis_kind == "reduce" for n in walk((node,))
    )


def _ranges(node: Node, outer: Outers) -> dict[LoopVar, tuple[int, int]]:
    """Ranges of the variables around and inside a unit."""
    around = {var: (known.low, known.high) for var, known in outer.items()}
    return {**around, **_inner_ranges(node)}


@lru_cache(maxsize=256)  # asked for again and again, with other ranges around
def _inner_ranges(node: Node) -> Ranges:
    return {inner.var: loop_range(inner) for inner in walk((node,)) if isinstance(inner, Loop)}


def _undecided(nodes: Nodes, outer: Outers) -> list[Predicate]:
    """Predicates that are not the same for all instances of a statement."""
    ranges: dict[LoopVar, tuple[int, int]] = {}  # most statements have no predicates
    found: list[Predicate] = []
    for store, loops in stores(nodes):
        if not store.predicates:
            continue
        ranges = ranges or {v: r for node in nodes for v, r in _ranges(node, outer).items()}
        static = {loop.var for loop in loops if not is_dynamic(loop)}
        for predicate in store.predicates:
            depends = variables(predicate.index) & static
            if depends and predicate not in found and decide(predicate, ranges) is None:
                found.append(predicate)
    return found


def _groups(predicates: Iterable[Predicate], outer: Outers) -> list[tuple[LoopVar, ...]]:
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
    var: LoopVar, known: Outer, predicates: list[Predicate], ranges: Ranges, most_singles: int
) -> list[tuple[int, int]]:
    """Ranges of ``var``: one for each run of values where all predicates hold; elsewhere single
    values where there are at most ``most_singles``, else runs.
    """
    count = (known.high - known.low) // known.stride + 1
    if count > MOST_VALUES or not predicates:
        return []
    values = range(known.low, known.high + 1, known.stride)
    inside = [all(decide(p, {**ranges, var: (v, v)}) is True for p in predicates) for v in values]
    singles = inside.count(False) <= most_singles
    cases: list[tuple[int, int]] = []
    previous: bool | None = None
    for value, holds in zip(values, inside, strict=True):
        if holds == previous and (holds or not singles):
            cases[-1] = (cases[-1][0], value)
        else:
            cases.append((value, value))
        previous = holds
    return cases


def _unroll_reductions(
    node: Node, predicates: list[Predicate], outer: Outers, longest: int
) -> Nodes:
    """Unroll the reduce loops of at most ``longest`` trips that undecided predicates depend on,
    and roll up the others.
    """
    wanted: set[LoopVar] = set()
    for predicate in predicates:
        wanted |= variables(predicate.index) - outer.keys()
    return simplify_nodes(
        (reroll(node, wanted, longest),), {v: (o.low, o.high) for v, o in outer.items()}
    )


def _roll(nodes: Nodes, outer: Outers, rolled: AbstractSet[LoopVar]) -> Nodes:
    """Roll up unrolled reduce loops in copies whose predicates stay dynamic: the masks of many
    unrolled iterations do not fit the registers.  In other copies, what is inside.
    """
    new: list[Node] = []
    for node in nodes:
        if isinstance(node, Branch):
            cases = tuple(
                replace(
                    case,
                    body=_roll(
                        case.body, _narrowed(outer, node.index, case.low, case.high), rolled
                    ),
                )
                for case in node.cases
            )
            new.append(Branch(node.index, cases))
            continue
        undecided = _undecided((node,), outer)
        dynamic = [p for p in undecided if variables(p.index) & _moving(node, outer)]
        if dynamic:
            masked = {var for p in dynamic for var in variables(p.index)}
            node = reroll(node, masked, longest=0)
        new.extend(roll_inside((node,), rolled, _ranges(node, outer)))
    return tuple(new)


def _dynamic_inside(node: Node) -> set[LoopVar]:
    return {n.var for n in walk((node,)) if isinstance(n, Loop) and is_dynamic(n)}


def _moving(node: Node, outer: Outers) -> set[LoopVar]:
    """Variables that have several values at run time, around and inside a unit."""
    return _dynamic_inside(node) | {var for var, known in outer.items() if known.moves}
