"""Rows of GPU sketches drawn as a whole: threads of a block, then elements of a thread.

The numbers of one kind of loop are drawn by their product: it gets a budget, and one axis after
another takes its next larger factor until the budget is spent or no axis has room.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sketch.lang.kept import kept
from sketch.lower.placement import place
from sketch.nest.loopnest import LoopKind
from sketch.schedule.decision import DecisionId
from sketch.schedule.loop import LoopId, LoopRole
from sketch.schedule.program import StagePlan, root_host, tile_of, walks_tiles
from sketch.schedule.sketch import Sketch, fixed_product
from sketch.schedule.stage import StageId

Ints = NDArray[np.int64]

# Threads of a block, in warps, and how often each is drawn.
_WARPS: Final = (1, 2, 4, 8, 16, 32)
_SHARES: Final = (0.05, 0.10, 0.35, 0.35, 0.10, 0.05)
# Most results of one thread, of a tile and without one; larger tiles spill, and longer runs of
# elements in one thread leave those of neighbouring threads far apart.
_MOST_ELEMENTS: Final = 64
_MOST_POINTS: Final = 16
# Most sums of one thread, where no two of a point share an operand; of twice as many, some spill.
_MOST_SUMS: Final = 64
# Registers of a thread for what such sums are made of, and for what is made of them.
_BESIDE_SUMS: Final = 88
# Most terms of a sum in a tile of shared memory, where several threads share them out: the threads
# are those of a warp, which exchange what they have.
_MOST_LANES: Final = 32
# Most trips of a serial tile loop: what a block keeps in shared memory grows with it.
_MOST_SERIAL: Final = 8
# Most trips of an unrolled reduce loop, of a tile and of a lane: there, of one wide access.
_MOST_UNROLLED: Final = 16
_MOST_TERMS: Final = 4
# Warps of a block that computes on tensor units, and how often each is drawn.
_UNIT_WARPS: Final = (1, 2, 4, 8, 16)
_UNIT_SHARES: Final = (0.05, 0.15, 0.40, 0.35, 0.05)
# The same of groups of warps that compute on one unit together.
_GROUPS: Final = (1, 2, 3, 4)
_GROUP_SHARES: Final = (0.1, 0.4, 0.3, 0.2)
# Most results of a thread on tensor units, which its registers hold beside operands.
_MOST_RESULTS: Final = 128
# Share of the rows whose numbers of threads are powers of two along every axis.
_POWERS: Final = 0.6
# How much likelier the last axis takes the next factor: neighbouring threads and the elements of a
# vector; the elements of a tile are to be square.
_LAST_AXIS: Final = 3.0


@dataclass(frozen=True, slots=True)
class _Kinds:
    """Positions of decisions by the loops that they are about.

    Attributes:
        kinds: of the loop, by position.
        reduces: decisions about reduce loops, maybe about others too.
        lanes: decisions about the inner one of two loops of threads along an axis.
        last: decisions about the last axis of a stage, which lies in order in memory.
        points: of all blocks of the nest together, by position: whole tiles where it walks such.
        sums: that a thread keeps for each of these points, by position.
        units: results and threads of a tensor unit that computes these points, by position; 0: none
            does.
    """

    kinds: Mapping[int, LoopKind]
    reduces: frozenset[int]
    lanes: frozenset[int]
    last: frozenset[int]
    points: Mapping[int, int]
    sums: Mapping[int, int]
    units: Mapping[int, tuple[int, int]]

    def of(
        self, columns: Sequence[int], kind: LoopKind, reduces: bool | None = None
    ) -> tuple[int, ...]:
        """The columns about loops of one kind."""
        return tuple(
            n for n in columns if self.kinds.get(n) is kind and reduces in (None, n in self.reduces)
        )


@kept
def _kinds(sketch: Sketch) -> _Kinds:
    positions = {decision.id: n for n, decision in enumerate(sketch.decisions)}
    kinds: dict[int, LoopKind] = {}
    reduces: set[int] = set()
    lanes: set[int] = set()
    last: set[int] = set()
    points: dict[int, int] = {}
    sums: dict[int, int] = {}
    units: dict[int, tuple[int, int]] = {}
    single = _sums_of_points(sketch)
    for plan in sketch.program.stages:
        host = root_host(sketch.program, plan)
        blocks = {n.axis for n, k in host.kinds.items() if k is LoopKind.BLOCK}
        around = [-(-host.axis_at(n).extent // tile_of(host, n)[1]) for n in blocks]
        wide = [n for n, axis in enumerate(plan.op.axes) if axis.extent > 1]
        for position, factors in plan.splits.items():
            axis = plan.op.all_axes[position]
            for level, factor in enumerate(factors, start=1):
                if not isinstance(factor, DecisionId):
                    continue
                n = positions[factor]
                loop = LoopId(position, level)
                kinds[n] = plan.kinds.get(loop, LoopKind.SERIAL)
                points[n], sums[n] = prod(around), single[host.id]
                units[n] = _unit_of(sketch, host)
                if plan.role(loop) is LoopRole.LANE:
                    lanes.add(n)
                if axis.kind == "reduce":
                    reduces.add(n)
                elif position == wide[-1]:
                    last.add(n)
    return _Kinds(kinds, frozenset(reduces), frozenset(lanes), frozenset(last), points, sums, units)


def _unit_of(sketch: Sketch, host: StagePlan) -> tuple[int, int]:
    """Results and threads of a tensor unit in the tiles of a root stage; 0 where it computes on
    none.
    """
    inside = (p for p in sketch.program.stages if root_host(sketch.program, p) is host)
    if not any(kind is LoopKind.TENSOR for plan in inside for kind in plan.kinds.values()):
        return 0, 0
    tiled = {axis: factors for axis, factors in host.splits.items() if len(factors) > 1}
    threads = 1
    for axis, factors in tiled.items():
        for level, factor in enumerate(factors, start=1):
            if isinstance(factor, int) and host.kinds.get(LoopId(axis, level)) is LoopKind.THREAD:
                threads *= factor
    return prod(fixed_product(factors) for factors in tiled.values()), threads


def _sums_of_points(sketch: Sketch) -> Mapping[StageId, int]:
    """How many sums are private to a thread of one point, by root stage: 1, but where a point is a
    tile of results that are made of many.
    """
    program = sketch.program
    found = {plan.id: 1 for plan in program.stages if plan.attach is None}
    walking = {name for name in found if walks_tiles(program.stage(name))}
    if not walking:
        return found
    placement = place(program, {decision.id: 1 for decision in sketch.decisions})
    for stage in placement.stages.values():
        host = root_host(program, stage.plan).id
        if host in walking and stage.plan.attach is not None and stage.plan.op.reduce is not None:
            count = prod(int(stage.extents[axis]) for axis in stage.plan.op.axes)
            found[host] = max(found[host], count)
    return found


def draw_blocks(
    sketch: Sketch, columns: Sequence[int], count: int, rng: np.random.Generator
) -> Ints:
    """``count`` rows, int64 ``[count, D]``; the decisions outside ``columns`` are 1.

    Args:
        sketch: what the rows are of.
        columns: the decisions of one nest.
        count: how many rows.
        rng: where the randomness comes from.
    """
    kinds, target = _kinds(sketch), sketch.target
    values = np.ones((count, len(sketch.decisions)), dtype=np.int64)
    if any(kinds.units[columns[0]]):
        return _draw_units(_Filling(sketch, values, rng), kinds, columns)
    tiled = bool(kinds.of(columns, LoopKind.VTHREAD))
    filling = _Filling(sketch, values, rng)
    points, sums = kinds.points[columns[0]], kinds.sums[columns[0]]

    def power(most: int, large: bool = False) -> Ints:
        """Powers of two up to ``most``; ``large``: large ones more often than small ones."""
        share = np.sqrt(rng.random(count)) if large else rng.random(count)
        return 2 ** (share * most.bit_length()).astype(np.int64)

    threads = target.warp_size * rng.choice(_WARPS, size=count, p=_SHARES)
    threads = np.minimum(threads, target.threads_per_block)
    # tiles reuse more of what they read the larger they are
    most = _MOST_ELEMENTS if sums == 1 else max(_MOST_SUMS // sums, 1)
    elements = power(most, large=True) if tiled else power(_MOST_POINTS)
    if sums > 1:
        left = target.registers_per_block // threads - _BESIDE_SUMS
        elements = np.minimum(elements, np.maximum(left // sums, 1))
    shared = kinds.of(columns, LoopKind.THREAD, True)
    # where the terms of a sum are shared out, a thread may still have several sums
    room = points * (_MOST_LANES if tiled and shared else 1)
    elements = np.minimum(elements, np.maximum(room // (threads * target.threads), 1))
    copies = np.minimum(power(target.max_vthreads), elements)
    in_order = () if tiled else kinds.last
    filling.fill(kinds.of(columns, LoopKind.UNROLLED, False), elements // copies, in_order)
    # as many lanes a point as leave a block for every processor
    wanted = threads * target.threads * (elements if tiled else 1)
    lanes = np.clip(wanted // points, 1, threads) * power(2) * power(2)
    lanes = np.minimum(lanes, _MOST_LANES) if tiled else lanes
    # shuffles serve powers of two; whole warps are made of them, or of them and odd extents
    shuffled, warps = np.ones(count, np.bool_), rng.random(count) < _POWERS
    filling.fill(shared, np.minimum(lanes, threads), powers=shuffled)
    own = kinds.of(columns, LoopKind.THREAD, False)
    inner = [n for n in own if n in kinds.lanes]
    filling.fill(
        inner, target.warp_size // filling.product(shared if tiled else ()), powers=shuffled
    )
    outer = [n for n in own if n not in kinds.lanes]
    rest = threads // filling.product((*shared, *inner))
    filling.fill(outer, rest, kinds.last, warps)
    filling.fill(kinds.of(columns, LoopKind.VTHREAD), copies)
    # operands of a point with several sums are as many: fewer terms of them fit a tile
    less = int(sums**0.5)
    terms = power(max(_MOST_UNROLLED // less, 1), large=True) if tiled else power(_MOST_TERMS)
    # terms of a tile in shared memory that are left for one of the threads that share them out
    deep = np.maximum(_MOST_LANES // filling.product(shared), 1)
    terms = np.minimum(terms, deep) if tiled and shared else terms
    filling.fill(kinds.of(columns, LoopKind.UNROLLED, True), terms)
    serial = power(max(_MOST_SERIAL // less, 1))
    serial = np.minimum(serial, np.maximum(deep // terms, 1)) if tiled and shared else serial
    filling.fill(kinds.of(columns, LoopKind.SERIAL), serial)
    filling.rest(columns, kinds)
    return filling.values


def _draw_units(filling: _Filling, kinds: _Kinds, columns: Sequence[int]) -> Ints:
    """Rows of a nest whose warps compute on tensor units: warps of a block, units of a warp.

    The units of a warp share their operands, so as many as its registers hold are likeliest.  Where
    several warps compute on one unit together, it is they that have several.
    """
    target, rng, count = filling.sketch.target, filling.rng, len(filling.values)
    warps = rng.choice(_UNIT_WARPS, size=count, p=_UNIT_SHARES)
    results, threads = kinds.units[columns[0]]
    if threads > target.warp_size:
        warps = rng.choice(_GROUPS, size=count, p=_GROUP_SHARES)
    room = kinds.points[columns[0]] // (results * target.threads)
    most = _MOST_RESULTS * threads // results
    units = 2 ** (np.sqrt(rng.random(count)) * most.bit_length()).astype(np.int64)
    units = np.minimum(units, np.maximum(room // warps, 1))
    powers = rng.random(count) < _POWERS
    filling.fill(kinds.of(columns, LoopKind.VTHREAD), units, powers=powers)
    alone = np.full(count, threads == target.warp_size)
    filling.fill(kinds.of(columns, LoopKind.THREAD), warps, powers=alone)
    serial = 2 ** (rng.random(count) * _MOST_SERIAL.bit_length()).astype(np.int64)
    filling.fill(kinds.of(columns, LoopKind.SERIAL), serial)
    filling.rest(columns, kinds)
    return filling.values


@dataclass(frozen=True, slots=True)
class _Filling:
    """Rows that are being filled; ``values``: int64 ``[P, D]``, changed in place."""

    sketch: Sketch
    values: Ints
    rng: np.random.Generator

    def fill(
        self,
        members: Sequence[int],
        budget: Ints,
        first: Collection[int] = (),
        powers: NDArray[np.bool_] | None = None,
    ) -> None:
        """Raise the factors of ``members`` one by one while their product is within ``budget``.

        Args:
            members: positions of decisions.
            budget: int64 ``[P]``.
            first: members that are likelier to take the next factor.
            powers: rows in which they are raised to powers of two alone, bool ``[P]``.
        """
        if not members:
            return
        choices = [np.array(self.sketch.decisions[n].choices, np.int64) for n in members]
        only = np.zeros(len(self.values), np.bool_) if powers is None else powers
        values = [self.values[:, n] for n in members]
        pairs = zip(choices, values, strict=True)
        places = np.stack([np.searchsorted(known, now) for known, now in pairs], axis=1)
        weights = np.array([_LAST_AXIS if n in first else 1.0 for n in members])
        for _ in range(sum(len(known) for known in choices)):
            fits = np.stack(
                [self._next_fits(n, choices[m], places[:, m], members, budget, only)
                 for m, n in enumerate(members)], axis=1
            )  # fmt: skip
            rows = np.flatnonzero(fits.any(axis=1))
            if not len(rows):
                return
            score = fits[rows] * weights * self.rng.random((len(rows), len(members)))
            chosen = score.argmax(axis=1)
            places[rows, chosen] += 1
            for m, n in enumerate(members):
                self.values[:, n] = choices[m][places[:, m]]

    def rest(self, columns: Sequence[int], kinds: _Kinds) -> None:
        """Draw the decisions that are about no loop."""
        for n in columns:
            if n not in kinds.kinds:
                choices = np.array(self.sketch.decisions[n].choices, np.int64)
                self.values[:, n] = self.rng.choice(choices, len(self.values))

    def product(self, members: Sequence[int]) -> Ints:
        """Of the factors of ``members``, int64 ``[P]``."""
        return np.prod(self.values[:, list(members)], axis=1)

    def _next_fits(
        self,
        n: int,
        choices: Ints,
        place: Ints,
        members: Sequence[int],
        budget: Ints,
        powers: NDArray[np.bool_],
    ) -> NDArray[np.bool_]:
        """Whether the next larger factor of a decision leaves its axis and the budget room."""
        more = place + 1 < len(choices)
        wanted = choices[np.minimum(place + 1, len(choices) - 1)]
        others = self.product([m for m in members if m != n])
        whole = ~powers | (wanted & (wanted - 1) == 0)
        return more & whole & (wanted * others <= budget) & (wanted <= self._room(n))

    def _room(self, n: int) -> Ints:
        """What is left of an axis for one of its levels."""
        room = np.full(len(self.values), self.sketch.decisions[n].choices[-1])
        for chain in self.sketch.chains:
            if n in chain.columns:
                others = [m for m in chain.columns if m != n]
                inner = self.product(others) * chain.fixed
                room = np.minimum(room, -(-chain.extent // inner))
        return room
