"""Skip: loops leave out what a mask makes superfluous.

    for r in 0..512 step 8:                       for r in 0..512 step 8:
      for j in 0..512 step 64:                      for j in 0..512 step 64 clip j - r < 8:
        s[...] = ...                                  s[...] = ...
      for j in 0..512 step 4:              ->       for j in 0..512 step 4 clip j - r < 8:
        acc[0..8] += s[..] * v[..]                    acc[0..8] += s[..] * v[..]

Statements say where they are needed (``Store.needs``), such as for j - i < 1 of column j and row i.
A loop goes as far as any row of a tile needs any of its columns; tiles are computed whole.  So what
reads a tile finds all of it, what is stored for others is computed as far as any of them goes.

How far a statement goes is counted in **blocks** of each place: where x stands for the first of the
columns of its block and the last of its rows, the sum of the mask is below a bound.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import gcd, lcm
from typing import NamedTuple

from codegen.passes.affine import Ranges, loop_range
from codegen.passes.rewrite import Nodes, map_body
from sketch.lang.affine import UNBOUNDED, bounds
from sketch.lang.mask import Mask
from sketch.lang.rewrite import reused
from sketch.nest.loopnest import (
    Affine,
    Allocate,
    Buffer,
    Loop,
    LoopKind,
    LoopNest,
    LoopVar,
    Need,
    Node,
    Predicate,
    Scope,
    Store,
)
from sketch.nest.walk import store_loads, stores, walk


def skip(nest: LoopNest) -> LoopNest:
    """The nest with loops that end where masks of their statements do."""
    masks = {need.mask: None for store, _ in stores(nest.roots) for need in store.needs}
    for mask in masks:
        nest = replace(nest, roots=_Pass(nest, mask).nodes(nest.roots))
    return nest


class _Reach(NamedTuple):
    """The blocks of each place, and the bound: see the module."""

    blocks: tuple[int, ...]
    bound: int

    def with_(self, other: _Reach) -> _Reach:
        """The least reach of this form that contains both."""
        blocks = tuple(map(lcm, self.blocks, other.blocks))
        return _Reach(blocks, max(self.bound, other.bound))


class _Part(NamedTuple):
    """A place inside a loop: what is fixed there, and all values of the rest."""

    fixed: Affine
    low: int
    high: int
    step: int  # the fixed part is a multiple of it, but for its constant

    @property
    def size(self) -> int:
        return self.high - self.low + 1


@dataclass(frozen=True, slots=True)
class _Site:
    """A statement, the loops around it, and its need of the mask.

    ``ranges``: of all variables of the nest; what is combined may name those of its terms.
    """

    store: Store
    loops: tuple[Loop, ...]
    need: Need | None
    ranges: Ranges

    def parts(self, var: LoopVar) -> tuple[_Part, ...]:
        """The places, where the loop of ``var`` and those around it are fixed."""
        assert self.need is not None
        depth = [loop.var for loop in self.loops].index(var) + 1
        strides = {loop.var: int(loop.stride) for loop in self.loops[:depth]}
        return tuple(_part(place, strides, self.ranges) for place in self.need.places)


def _part(place: Affine, strides: dict[LoopVar, int], ranges: Ranges) -> _Part:
    fixed = tuple(term for term in place.terms if term[0] in strides)
    rest = tuple(term for term in place.terms if term[0] not in strides)
    low, high = bounds(place.const, rest, ranges.__getitem__)
    return _Part(Affine(fixed), low, high, gcd(*(c * strides[var] for var, c in fixed)))


class _Pass:
    """Clips the loops of a nest by one mask."""

    def __init__(self, nest: LoopNest, mask: Mask) -> None:
        self._mask = mask
        loops_inside = (node for node in walk(nest.roots) if isinstance(node, Loop))
        ranges = {loop.var: loop_range(loop) for loop in loops_inside}
        self._sites = [
            _Site(store, loops, next((n for n in store.needs if n.mask is mask), None), ranges)
            for store, loops in stores(nest.roots)
        ]
        self._read: dict[Buffer, _Reach | None] = {}
        self._clips: dict[LoopVar, Predicate | None] = {}

    def nodes(self, nodes: Nodes) -> Nodes:
        """The nodes with clipped loops."""
        return reused([self._node(node) for node in nodes], nodes)

    def _node(self, node: Node) -> Node:
        node = map_body(node, self.nodes)
        if not isinstance(node, Loop):
            return node
        clip = self._clip(node)
        return node if clip is None else replace(node, clip=(*node.clip, clip))

    def _clip(self, loop: Loop) -> Predicate | None:
        """The trips that something needs; None: all."""
        if loop.var not in self._clips:
            self._clips[loop.var] = None  # whoever asks while this is found goes too far
            self._clips[loop.var] = self._found_clip(loop)
        return self._clips[loop.var]

    def _found_clip(self, loop: Loop) -> Predicate | None:
        if loop.kind is not LoopKind.SERIAL:
            return None
        own = {node.buffer for node in walk(loop.body) if isinstance(node, Allocate)}
        found: Predicate | None = None
        for site in self._sites:
            if all(loop.var is not around.var for around in site.loops):
                continue
            if not own.isdisjoint(site.store.targets):
                continue  # what a trip computes for itself
            clip = self._needed(site, loop.var)
            if clip is None or (found is not None and not _same(clip.index, found.index)):
                return None
            found = clip if found is None or clip.high > found.high else found
        return found

    def _needed(self, site: _Site, var: LoopVar) -> Predicate | None:
        """The trips in which something needs a statement."""
        if site.need is None or all(not place.coefficient(var) for place in site.need.places):
            return None
        reach = self._reach(site)
        if reach is None:
            return None
        index, bound = Affine(()), reach.bound
        for (sign, part), block in zip(self._parts(site, var), reach.blocks, strict=True):
            index = index + part.fixed.scale(sign)
            if sign > 0:
                bound -= sign * (part.low - block + gcd(block, part.step, part.low))
            else:
                bound -= sign * (part.high + block - gcd(block, part.step, part.high + 1))
        return Predicate(index, -UNBOUNDED, bound) if index.terms else None

    def _parts(self, site: _Site, var: LoopVar) -> list[tuple[int, _Part]]:
        return list(zip(self._mask.coefficients, site.parts(var), strict=True))

    def _reach(self, site: _Site) -> _Reach | None:
        """How far a statement has to go; None: everywhere."""
        assert site.need is not None
        if site.need.own:
            return _Reach((1,) * len(self._mask.coefficients), self._mask.high)
        return self._read_of(site.store.targets)

    def _read_of(self, buffers: tuple[Buffer, ...]) -> _Reach | None:
        """How far what reads buffers goes; None: everywhere."""
        total: _Reach | None = None
        for buffer in buffers:
            if buffer not in self._read:
                self._read[buffer] = None
                self._read[buffer] = self._found_read(buffer)
            reach = self._read[buffer]
            if reach is None:
                return None
            total = reach if total is None else total.with_(reach)
        return total

    def _found_read(self, buffer: Buffer) -> _Reach | None:
        if buffer.scope not in (Scope.LOCAL, Scope.WORKSPACE):
            return None
        total: _Reach | None = None
        for site in self._sites:
            if all(load.buffer is not buffer for load in store_loads(site.store)):
                continue
            reach = self._executed(site)
            if reach is None:
                return None
            total = reach if total is None else total.with_(reach)
        return total

    def _executed(self, site: _Site) -> _Reach | None:
        """How far a statement goes when all loops are clipped; None: everywhere."""
        if site.need is None:
            return None
        for loop in reversed(site.loops):
            clip = self._clip(loop)
            if clip is not None:
                return self._within(site, loop.var, clip)
        return None

    def _within(self, site: _Site, var: LoopVar, clip: Predicate) -> _Reach | None:
        index, bound, blocks = Affine(()), clip.high, list[int]()
        for sign, part in self._parts(site, var):
            index = index + part.fixed.scale(sign)
            whole = part.step % part.size == 0 and part.low % part.size == 0
            blocks.append(part.size if whole else 1)
            bound += sign * (part.low if sign > 0 else part.high)
            bound += 0 if whole else abs(sign) * (part.size - 1)
        return _Reach(tuple(blocks), bound) if _same(index, clip.index) else None


def _same(lhs: Affine, rhs: Affine) -> bool:
    return dict(lhs.terms) == dict(rhs.terms)
