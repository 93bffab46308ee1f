"""What is known about one statement of a population: loops, footprints and working sets by level.

Level l of a statement with n loops (outermost first) is the body made of loops ``l .. n-1``; level
0 is everything, level n one execution.  Matrices are ``[levels, P]``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from costmodel.extract.access import (
    Access,
    Footprint,
    accesses_of,
    at_main_levels,
    footprint,
    shares_of_sets,
)
from costmodel.extract.operations import flops, operation_counts
from costmodel.extract.quantity import (
    Floats,
    Quantity,
    Rows,
    count_true,
    gather,
    is_one,
    stack,
)
from costmodel.extract.statement import PARALLEL_KINDS, LoopInfo, Statement, StoreSite
from sketch.nest.lanes import store_bytes
from sketch.nest.loopnest import LoopKind
from sketch.population.tape import maximum, recordable
from sketch.target.target import Target


def product(loops: tuple[LoopInfo, ...]) -> Quantity:
    """Product of the extents."""
    total: Quantity = 1.0
    for loop in loops:
        total = total * loop.extent
    return total


@dataclass(frozen=True, eq=False)
class Analysis:
    """One statement of P programs, as all groups of features see it.

    Attributes:
        programs: 0 .. P-1.
        accesses: the written buffer first (``accesses_of``).
        footprints: of each access, at the levels of the main site.
    """

    statement: Statement
    programs: Rows
    target: Target
    accesses: tuple[Access, ...]
    footprints: tuple[Footprint, ...]

    @property
    def main(self) -> StoreSite:
        """The store that does the work."""
        return self.statement.main

    @property
    def lane_bytes(self) -> int:
        """Bytes of a lane of the main store's vectors."""
        return store_bytes(self.main.store)

    @property
    def loops(self) -> tuple[LoopInfo, ...]:
        """The main site's loops, outermost first."""
        return self.main.loops

    @cached_property
    def trips(self) -> Quantity:
        """Executions of the main store."""
        return product(self.loops)

    @cached_property
    def extents(self) -> Floats:
        """[n, P]."""
        return stack(self.programs, *(loop.extent for loop in self.loops))

    @cached_property
    def outer(self) -> Floats:
        """[n + 1, P]: trips of the loops outside each level."""
        return stack(self.programs, *_cumulative(self.loops))

    @cached_property
    def inner(self) -> Floats:
        """[n + 1, P]: trips of the loops of each level."""
        return stack(self.programs, *_cumulative(self.loops[::-1])[::-1])

    @cached_property
    def element_levels(self) -> tuple[Floats, ...]:
        """Per access, [n + 1, P]: elements touched at each level."""
        return tuple(stack(self.programs, *f.elements) for f in self.footprints)

    @cached_property
    def line_levels(self) -> tuple[Floats, ...]:
        """Per access, [n + 1, P]: cache lines touched at each level."""
        return tuple(stack(self.programs, *f.lines) for f in self.footprints)

    @cached_property
    def byte_levels(self) -> Floats:
        """[n + 1, P]: bytes touched at each level, all buffers."""
        levels = self.element_levels[0] * self.accesses[0].element_bytes
        for access, elements in zip(self.accesses[1:], self.element_levels[1:], strict=True):
            levels = levels + elements * access.element_bytes
        return levels

    @cached_property
    def working_set(self) -> Floats:
        """[n + 1, P]: bytes of the cache lines touched at each level, all buffers."""
        return sum(self.line_levels[1:], self.line_levels[0]) * self.target.cache_line_bytes

    @cached_property
    def crowded_set(self) -> Floats:
        """[n + 1, P]: at least the working set; bytes of caches that are as full as the sets in
        which the lines of one access meet.
        """
        line_bytes, page_bytes = self.target.cache_line_bytes, self.target.rates.page_bytes
        most = self.working_set
        for access, lines in zip(self.accesses, self.line_levels, strict=True):
            if access.site is self.main and access.in_rows:
                shares = shares_of_sets(access, self.loops, line_bytes, page_bytes)
                if not all(map(is_one, shares)):
                    crowded = lines * line_bytes / stack(self.programs, *shares)
                    most = maximum(most, crowded)
        return most

    @cached_property
    def _moving(self) -> NDArray[np.bool_]:
        """[n, P]: loops of more than one trip."""
        return self.extents > 1.0

    def at(self, levels: Floats, index: int | Rows) -> Floats:
        """[P]: one level of a matrix, the same or a different one for each program."""
        return levels[index] if isinstance(index, int) else gather(levels, index, self.programs)

    def outermost(self, chosen: Callable[[LoopInfo], bool]) -> Rows:
        """[P]: index of the outermost chosen loop of more than one trip; n where there is none."""
        return self._first(chosen, 1)

    def innermost(self, chosen: Callable[[LoopInfo], bool]) -> Rows:
        """[P]: index of the innermost chosen loop of more than one trip; n where there is none."""
        return self._first(chosen, -1)

    def _first(self, chosen: Callable[[LoopInfo], bool], step: int) -> Rows:
        # The first loop has the highest rank; 0 is for those that were not chosen.
        order = [n for n, loop in enumerate(self.loops) if chosen(loop)][::step]
        ranks = [0] * len(self.loops)
        for rank, n in enumerate(reversed(order), start=1):
            ranks[n] = rank
        return highest(self._moving, tuple(ranks), self.programs)

    def extent_at(self, index: Rows) -> Floats:
        """[P]: the extent of a loop per program; 1 where the index is n."""
        padded = stack(self.programs, *(loop.extent for loop in self.loops), 1.0)
        return gather(padded, index, self.programs)

    @cached_property
    def task_level(self) -> int:
        """The level inside the parallel loops."""
        return sum(loop.kind in PARALLEL_KINDS for loop in self.loops)

    @cached_property
    def reduce_level(self) -> Rows:
        """[P]: the level of the outermost reduce loop (n without one)."""
        return self.outermost(lambda loop: loop.reduce)

    def traffic_level(self, capacity: int) -> int | Rows:
        """[P]: the level whose data moves into a cache once per visit.

        It is the outermost loop of which a single trip fits: what consecutive trips share stays in
        the cache, so the loop moves its own footprint, once for every trip of the loops around.
        Caches of single cores have sets; what all cores share spreads lines evenly.
        """
        if not self.loops:
            return 0
        filled = self.crowded_set if capacity < self.target.l3_bytes else self.working_set
        return count_true(filled[1:] > capacity)

    @cached_property
    def operations(self) -> Mapping[str, Quantity]:
        """Operations by kind, all sites and trips."""
        totals: dict[str, Quantity] = {}
        for site in self.statement.sites:
            trips = product(site.loops)
            for kind, number in operation_counts(site.store).items():
                if number:
                    totals[kind] = totals.get(kind, 0.0) + number * trips
        return totals

    @cached_property
    def main_operations(self) -> Mapping[str, float]:
        """Operations of one execution of the main store, by kind; those of a tensor unit are one
        for all the terms that it adds.
        """
        return {"mac": 1.0} if self.uses_unit else operation_counts(self.main.store)

    @property
    def uses_unit(self) -> bool:
        """Whether a tensor unit does the work."""
        return any(loop.kind is LoopKind.TENSOR for loop in self.loops)

    @property
    def uses_tiles(self) -> bool:
        """Whether that unit has tile registers: it adds groups of products."""
        units = (loop for loop in self.loops if loop.kind is LoopKind.TENSOR)
        return sum(loop.reduce for loop in units) > 1

    @cached_property
    def unit_terms(self) -> Quantity:
        """Terms that a tensor unit adds in one operation."""
        units = tuple(loop for loop in self.loops if loop.kind is LoopKind.TENSOR)
        return product(tuple(loop for loop in units if loop.reduce))

    @cached_property
    def unit_rows(self) -> Quantity:
        """Rows that a tensor unit computes in one operation."""
        units = tuple(loop for loop in self.loops if loop.kind is LoopKind.TENSOR)
        return product(tuple(loop for loop in units if not loop.reduce))

    @cached_property
    def flops(self) -> Quantity:
        """Floating-point operations, all sites and trips."""
        total: Quantity = 0.0
        for site in self.statement.sites:
            total = total + flops(operation_counts(site.store)) * product(site.loops)
        return total


def _cumulative(loops: tuple[LoopInfo, ...]) -> list[Quantity]:
    """1, and the products of the extents of the first loop, the first two, and so on."""
    products: list[Quantity] = [1.0]
    for loop in loops:
        products.append(products[-1] * loop.extent)
    return products


@recordable
def highest(moving: NDArray[np.bool_], ranks: tuple[int, ...], programs: Rows) -> Rows:
    """[P]: the row of [n, P] with the highest rank of those that hold; n where no ranked one does.

    As bytes, which reduce many times as fast as ``argmax`` does.
    """
    if not any(ranks):
        return np.full(len(programs), len(ranks), dtype=np.intp)
    weights, rows = _weights_and_rows(ranks)
    return rows.take((moving.view(np.uint8) * weights).max(axis=0))


@lru_cache(maxsize=1024)
def _weights_and_rows(ranks: tuple[int, ...]) -> tuple[NDArray[np.uint8], Rows]:
    """(uint8 [n, 1], the row by rank; n for rank 0)."""
    rows = np.full(max(ranks) + 1, len(ranks), dtype=np.intp)
    for row, rank in enumerate(ranks):
        if rank:
            rows[rank] = row
    return np.array(ranks, dtype=np.uint8)[:, None], rows


def analyse(statement: Statement, programs: Rows, target: Target) -> Analysis:
    """Footprints of all accesses of a statement of the programs 0 .. P-1."""
    accesses = accesses_of(statement)
    main = statement.main
    footprints = []
    for access in accesses:
        own = footprint(access, access.site.loops, target.cache_line_bytes)
        same = access.site is main
        footprints.append(own if same else at_main_levels(access, own, main.loops))
    return Analysis(statement, programs, target, accesses, tuple(footprints))
