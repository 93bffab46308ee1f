"""Outer sums: predicates that see the loops of an axis in one sum get one variable for it.

    for o in 0..28 step 14:                             position = o + i
      for i in 0..14 step 7:                    ->
        acc[r] += ...  if 1 <= o + i + r < 29             ...  if 1 <= position + r < 29

Copies for values of the sum are fewer than copies for the values of each variable: only the first
and the last tile of a row are at an edge, whatever tiles they are in.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Final

from codegen.passes.affine import loop_range, substitute_affine
from codegen.passes.rewrite import Nodes, map_body
from sketch.lang.rewrite import reused
from sketch.nest.loopnest import Affine, Branch, Loop, LoopVar, Node, Predicate, Store

_MOST_SUMS: Final = 4096  # of values, that are looked at one by one


@dataclass(frozen=True, slots=True)
class Outer:
    """A variable around a unit: least and largest value, and the step between."""

    low: int
    high: int
    stride: int

    @property
    def moves(self) -> bool:
        """Whether it has several values."""
        return self.low < self.high

    @staticmethod
    def of(loop: Loop) -> Outer:
        """The variable of a loop."""
        low, high = loop_range(loop)
        return Outer(low, high, int(loop.stride))


Outers = Mapping[LoopVar, Outer]


@dataclass(frozen=True, slots=True)
class Sum:
    """A variable that stands for a sum of outer variables."""

    var: LoopVar
    form: Affine
    values: Outer


def outer_sums(predicates: Sequence[Predicate], outer: Outers) -> tuple[Sum, ...]:
    """The sums of several outer variables that predicates depend on, one by one.

    Sums that share a variable, or whose values are no equal steps, are left as they are.
    """
    forms = {form: None for p in predicates if (form := _outer_part(p, outer)).terms}
    found: list[Sum] = []
    for form in forms:
        used = {var for var, _ in form.terms}
        alone = all(used.isdisjoint(v for v, _ in other.terms) for other in forms if other != form)
        values = _values(form, outer) if alone and len(used) > 1 else None
        if values is not None:
            name = "+".join(var.name for var, _ in form.terms)
            found.append(Sum(LoopVar(name), form, values))
    return tuple(found)


def _outer_part(predicate: Predicate, outer: Outers) -> Affine:
    """The terms of variables that have several values, in lowest terms."""
    terms = [(v, c) for v, c in predicate.index.terms if v in outer and outer[v].moves]
    common = math.gcd(*(c for _, c in terms))
    order = {var: position for position, var in enumerate(outer)}
    return Affine(tuple(sorted(((v, c // common) for v, c in terms), key=lambda t: order[t[0]])))


def _values(form: Affine, outer: Outers) -> Outer | None:
    """What the sum is, where that is every multiple of a step between two bounds."""
    ranges = [
        range(c * known.low, c * known.high + (1 if c > 0 else -1), c * known.stride)
        for c, known in ((c, outer[v]) for v, c in form.terms)
    ]
    if math.prod(map(len, ranges)) > _MOST_SUMS:
        return None
    sums = sorted({sum(parts) for parts in product(*ranges)})
    step = sums[1] - sums[0]
    dense = sums == [*range(sums[0], sums[-1] + 1, step)]
    return Outer(sums[0], sums[-1], step) if dense else None


def put_in(nodes: Nodes, sums: Sequence[Sum]) -> Nodes:
    """Write the variables of sums into the predicates that have these sums."""

    def shorten(form: Affine) -> Affine:
        for found in sums:
            form = _shortened(form, found)
        return form

    return _with_forms(nodes, shorten) if sums else nodes


def take_out(nodes: Nodes, sums: Sequence[Sum]) -> Nodes:
    """Write sums for their variables, in predicates, clipped loops and branches."""
    values = {found.var: found.form for found in sums}
    return _with_forms(nodes, lambda form: substitute_affine(form, values)) if sums else nodes


def _shortened(form: Affine, found: Sum) -> Affine:
    var, coefficient = found.form.terms[0]
    factor, rest = divmod(form.coefficient(var), coefficient)
    own = found.form.scale(factor)
    if not factor or rest or any(form.coefficient(v) != c for v, c in own.terms):
        return form
    return form + own.scale(-1) + Affine(((found.var, factor),))


def _with_forms(nodes: Nodes, change: Callable[[Affine], Affine]) -> Nodes:
    return reused([_with_form(node, change) for node in nodes], nodes)


def _with_form(node: Node, change: Callable[[Affine], Affine]) -> Node:
    if isinstance(node, Store):
        changed = tuple(replace(p, index=change(p.index)) for p in node.predicates)
        return node if changed == node.predicates else replace(node, predicates=changed)
    if isinstance(node, Branch) and (index := change(node.index)) is not node.index:
        node = replace(node, index=index)
    if isinstance(node, Loop) and node.clip:
        node = replace(node, clip=tuple(replace(p, index=change(p.index)) for p in node.clip))
    return map_body(node, lambda body: _with_forms(body, change))
