"""Populations: many rows of decisions of one sketch, as one integer array.

All operators are NumPy operations over whole populations and take their randomness as an
argument.  Every row they return is valid: the product of an axis' tile levels fits the axis.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sketch.errors import ScheduleError
from sketch.lang.kept import kept
from sketch.population.feasible import BlockDraw, feasible, fills, hardware_of
from sketch.population.tile_tables import TileLevel, tile_table
from sketch.schedule.decision import DecisionId
from sketch.schedule.program import root_host
from sketch.schedule.sketch import Sketch
from sketch.schedule.stage import StageId

Ints = NDArray[np.int64]

# Share of mutations that move a factor between two levels of an axis; the others re-draw a value.
_MOVE_SHARE: Final = 0.5
# Where few rows use all of the machine, one of so many is another one.
_OTHERS: Final = 8


@dataclass(frozen=True, eq=False)
class Population:
    """``values``: int64 ``[P, D]``, one row a candidate, one column a decision of ``sketch``."""

    sketch: Sketch
    values: Ints

    @property
    def count(self) -> int:
        return int(self.values.shape[0])

    def columns(self) -> dict[DecisionId, Ints]:
        """Contiguous int64 ``[P]`` per decision."""
        names = [d.id for d in self.sketch.decisions]
        table = np.ascontiguousarray(self.values.T)
        return {name: table[n] for n, name in enumerate(names)}

    def row(self, index: int) -> dict[DecisionId, int]:
        """One candidate's decisions."""
        names = [d.id for d in self.sketch.decisions]
        return {name: int(v) for name, v in zip(names, self.values[index], strict=True)}

    def take(self, index: NDArray[np.intp] | NDArray[np.bool_] | Sequence[int]) -> Population:
        """The rows at ``index``."""
        rows = np.asarray(index)
        return self._known(
            self.values[rows], self._keys[rows] if "_keys" in self.__dict__ else None
        )

    def keys(self) -> NDArray[np.uint64]:
        """A 64-bit hash per row, the same in every process."""
        return self._keys

    @cached_property
    def _keys(self) -> NDArray[np.uint64]:
        return row_keys(self.values)

    def _known(self, values: Ints, keys: NDArray[np.uint64] | None) -> Population:
        """Other rows of the sketch, with their keys where these are known."""
        other = Population(self.sketch, values)
        if keys is not None:
            other.__dict__["_keys"] = keys
        return other


def row_keys(values: Ints) -> NDArray[np.uint64]:
    """Mix the columns of ``[P, D]`` into uint64 ``[P]`` (splitmix64's finaliser per column)."""
    keys = np.full(values.shape[0], 0x9E3779B97F4A7C15, dtype=np.uint64)
    with np.errstate(over="ignore"):
        for column in values.T:
            keys ^= column.astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
            keys = (keys ^ (keys >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
            keys = (keys ^ (keys >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
            keys ^= keys >> np.uint64(31)
    return keys


def among(keys: NDArray[np.uint64], known: NDArray[np.uint64]) -> NDArray[np.bool_]:
    """Which of the hashes ``keys`` are in ``known``, in whatever order that is."""
    if not len(known):
        return np.zeros(len(keys), dtype=np.bool_)
    ordered = np.sort(known)
    places = np.minimum(np.searchsorted(ordered, keys), len(ordered) - 1)
    found: NDArray[np.bool_] = ordered[places] == keys
    return found


def from_rows(sketch: Sketch, rows: Sequence[Mapping[DecisionId, int]]) -> Population:
    """A population from rows of decisions; raises ScheduleError when one is missing."""
    names = [d.id for d in sketch.decisions]
    for row in rows:
        missing = [n for n in names if n not in row]
        if missing:
            raise ScheduleError(
                f"no value for decision {sketch.labels[missing[0]]}", f"sketch {sketch.key}"
            )
    table = [[int(row[n]) for n in names] for row in rows]
    return Population(sketch, np.array(table, dtype=np.int64).reshape(len(rows), len(names)))


def concat(populations: Sequence[Population]) -> Population:
    """Rows of several populations of one sketch."""
    values = np.concatenate([p.values for p in populations])
    return populations[0]._known(values, np.concatenate([p.keys() for p in populations]))


def deduplicate(population: Population) -> Population:
    """The first of every set of equal rows, in order."""
    _, first = np.unique(population.keys(), return_index=True)
    return population.take(np.sort(first))


def sample(sketch: Sketch, count: int, rng: np.random.Generator) -> Population:
    """``count`` random rows; a sketch without decisions has one.

    Where the hardware has a way of its own (``Hardware.blocks``), by that: rows that fit and fill
    the machine first.  Else the register tile (all decisions of unrolled loops) is drawn jointly
    from those that fit the registers; then the levels of an axis inner first, uniformly over the
    choices that still fit; other decisions uniformly.
    """
    if not sketch.decisions:
        return Population(sketch, np.empty((min(count, 1), 0), dtype=np.int64))
    blocks = hardware_of(sketch.target).blocks
    if blocks is not None:
        return _sample_blocks(sketch, blocks, count, rng)
    values = np.empty((count, len(sketch.decisions)), dtype=np.int64)
    for n, choices in enumerate(_choices(sketch)):
        values[:, n] = choices[rng.integers(0, len(choices), count)]
    drawn: set[int] = set()
    for members, table in register_tiles(sketch):
        values[:, members] = table[rng.integers(0, len(table), count)]
        drawn.update(members)
    for chain in sketch.chains:
        room = np.full(count, -(-chain.extent // chain.fixed), dtype=np.int64)
        for n in chain.columns:
            if n not in drawn:
                choices = _choices(sketch)[n]
                fitting = np.maximum(np.searchsorted(choices, room, side="right"), 1)
                values[:, n] = choices[(rng.random(count) * fitting).astype(np.int64)]
            room = -(-room // values[:, n])
    return Population(sketch, values)


def _sample_blocks(
    sketch: Sketch, blocks: BlockDraw, count: int, rng: np.random.Generator
) -> Population:
    """Rows of every nest by themselves, the better ones of twice as many."""
    values = np.ones((count, len(sketch.decisions)), dtype=np.int64)
    for root, columns in nests(sketch).items():
        drawn = Population(sketch, clamp(sketch, blocks.draw(sketch, columns, 2 * count, rng)))
        fit = feasible(sketch, drawn.columns(), root)
        full = fit & fills(sketch, drawn.columns(), root)
        fresh = np.zeros_like(full)
        fresh[np.unique(drawn.keys(), return_index=True)[1]] = True
        again = np.flatnonzero(full & ~fresh)
        rank = np.where(fit, 2, 3)
        rank[full & fresh] = 0
        rank[again[: max(count - count // _OTHERS - (full & fresh).sum(), 0)]] = 1
        best = np.argsort(rank, kind="stable")[:count]
        members = list(columns)
        values[:, members] = drawn.values[rng.permutation(best)][:, members]
    return Population(sketch, values)


@kept
def _choices(sketch: Sketch) -> tuple[Ints, ...]:
    """The choices of every decision."""
    return tuple([np.array(d.choices, dtype=np.int64) for d in sketch.decisions])


@kept
def register_tiles(sketch: Sketch) -> tuple[tuple[tuple[int, ...], Ints], ...]:
    """For every nest: (columns of the decisions of unrolled loops, their feasible combinations
    ``[T, C]``).

    A random part of the combinations where there are more than 16,384.
    """
    tables = []
    for root, columns in nests(sketch).items():
        members = tuple(n for n in columns if sketch.decisions[n].id in sketch.unrolled)
        if members:
            tables.append((members, _feasible_tiles(sketch, root, members)))
    return tuple(tables)


@kept
def nests(sketch: Sketch) -> Mapping[StageId, tuple[int, ...]]:
    """Columns of the decisions of every nest, by its root stage."""
    found: dict[StageId, tuple[int, ...]] = {}
    for n, decision in enumerate(sketch.decisions):
        plan = sketch.program.stage(decision.stage)
        root = root_host(sketch.program, plan).id
        found[root] = (*found.get(root, ()), n)
    return found


def mix_nests(population: Population, rng: np.random.Generator) -> Population:
    """Rows in which every nest has decisions that fit the hardware, if some row has them.

    Nests that run one after another fit independently: where few rows fit in each, hardly any
    fits in all of them.
    """
    sketch, parts = population.sketch, nests(population.sketch)
    if len(parts) < 2:
        return population
    values = population.values.copy()
    for root, columns in parts.items():
        fits = feasible(sketch, population.columns(), root)
        good = np.flatnonzero(fits)
        if len(good):
            drawn = good[rng.integers(0, len(good), population.count)]
            values[:, columns] = population.values[drawn][:, columns]
    return Population(sketch, values)


def _feasible_tiles(sketch: Sketch, root: StageId, members: Sequence[int]) -> Ints:
    table = tile_table(_tile_levels(sketch, members), sketch.target.registers)
    table = table[_within_axes(sketch, members, table)]
    # One number of every other decision: what depends on these alone is computed once.
    one = np.ones(1, dtype=np.int64)
    values = {decision.id: one for decision in sketch.decisions}
    for n, trips in zip(members, np.ascontiguousarray(table.T), strict=True):
        values[sketch.decisions[n].id] = trips
    fits = feasible(sketch, values, root)
    return table[fits] if fits.any() else table[:1]


def _tile_levels(sketch: Sketch, members: Sequence[int]) -> tuple[TileLevel, ...]:
    """The decisions ``members`` of unrolled loops."""
    decisions = [sketch.decisions[n] for n in members]
    stages = list(dict.fromkeys(decision.stage for decision in decisions))
    return tuple(
        TileLevel(d.choices, None if d.id in sketch.unrolled_reductions else stages.index(d.stage))
        for d in decisions
    )


def _within_axes(sketch: Sketch, members: Sequence[int], table: Ints) -> NDArray[np.bool_]:
    """The rows of ``table`` that ``clamp`` leaves as they are, where all other decisions are 1."""
    trips_of = dict(zip(members, table.T, strict=True))
    within = np.ones(len(table), dtype=np.bool_)
    for chain in sketch.chains:
        room: int | Ints = -(-chain.extent // chain.fixed)
        for n in chain.columns:
            if n in trips_of:
                trips = trips_of[n]
                within &= trips <= np.maximum(room, sketch.decisions[n].choices[0])
                room = -(-room // trips)
    return within


def clamp(sketch: Sketch, values: Ints) -> Ints:
    """Lower factors, outermost levels first to give, until every tile fits its axis."""
    result = values.copy()
    for chain in sketch.chains:
        room = np.full(values.shape[0], -(-chain.extent // chain.fixed), dtype=np.int64)
        for n in chain.columns:
            choices = _choices(sketch)[n]
            top = np.maximum(np.searchsorted(choices, room, side="right") - 1, 0)
            result[:, n] = np.minimum(result[:, n], choices[top])
            room = -(-room // result[:, n])
    return result


def mutate(population: Population, rng: np.random.Generator) -> Population:
    """Change one decision a row: re-draw it, or move part of a tile to another level."""
    sketch, count = population.sketch, population.count
    if not sketch.decisions:
        return population
    values = population.values.copy()
    column = rng.integers(0, len(sketch.decisions), count)
    moving = rng.random(count) < _MOVE_SHARE
    draws = rng.random(count)
    partner = _partners(sketch, column, rng.random(count))
    for n, choices in enumerate(_choices(sketch)):
        rows = np.flatnonzero(column == n)
        if not len(rows):
            continue
        old = values[rows, n]
        drawn = choices[(draws[rows] * len(choices)).astype(np.int64)]
        here = np.searchsorted(choices, old)
        hop = np.where(draws[rows] < 0.5, -1, 1) * rng.integers(1, 4, len(rows))
        near = choices[np.clip(here + hop, 0, len(choices) - 1)]
        values[rows, n] = np.where(moving[rows], near, drawn)
    _rebalance(sketch, population.values, values, column, partner, moving)
    return Population(sketch, clamp(sketch, values))


def _partners(sketch: Sketch, column: Ints, draws: NDArray[np.float64]) -> Ints:
    """For each row another level of the same axis, or -1 where the axis has only one."""
    partner = np.full(len(column), -1, dtype=np.int64)
    for chain in sketch.chains:
        for n in chain.columns:
            others = np.array([m for m in chain.columns if m != n], dtype=np.int64)
            rows = column == n
            if len(others):
                partner[rows] = others[(draws[rows] * len(others)).astype(np.int64)]
    return partner


def _rebalance(
    sketch: Sketch,
    before: Ints,
    after: Ints,
    column: Ints,
    partner: Ints,
    moving: NDArray[np.bool_],
) -> None:
    """Scale the partner level so that the tile keeps about its size; changes ``after``."""
    rows = np.flatnonzero(moving & (partner >= 0))
    ratio = before[rows, column[rows]] / after[rows, column[rows]]
    wanted = np.maximum(np.rint(after[rows, partner[rows]] * ratio), 1).astype(np.int64)
    for n, choices in enumerate(_choices(sketch)):
        mine = partner[rows] == n
        top = np.maximum(np.searchsorted(choices, wanted[mine], side="right") - 1, 0)
        after[rows[mine], n] = choices[top]


def crossover(a: Population, b: Population, rng: np.random.Generator) -> Population:
    """Rows that take every axis from one of two parents (rows of ``a`` and ``b``, pairwise)."""
    sketch = a.sketch
    values = a.values.copy()
    for members in _groups(sketch):
        other = rng.random(a.count) < 0.5
        for n in members:
            values[other, n] = b.values[other, n]
    return Population(sketch, values)


def _groups(sketch: Sketch) -> list[tuple[int, ...]]:
    groups = [chain.columns for chain in sketch.chains]
    grouped = {n for group in groups for n in group}
    return groups + [(n,) for n in range(len(sketch.decisions)) if n not in grouped]
