"""What a register tile costs: the operands that its accumulators share, and how long they stay.

Whether a tile fits the registers at all is decided before, from the loops alone
(``sketch.population.feasible``).  Here rows and vectors are told apart by what a copy *reads*: an
unrolled loop that moves no vector operand is a row, along whichever axis it runs.
"""

from __future__ import annotations

from dataclasses import dataclass

from costmodel.extract.access import READ, Access
from costmodel.extract.analysis import Analysis
from costmodel.extract.evictions import evicted_lines
from costmodel.extract.quantity import Quantity, ceil, is_one, larger, to_quantity, where
from costmodel.extract.statement import UNROLLED_KINDS, VECTOR_KINDS, LoopInfo
from sketch.nest.loopnest import LoopKind

# Vector instructions per operation: polynomials of transcendental functions, everything else one.
INSTRUCTIONS = {"float_math": 16.0, "int": 0.0}


@dataclass(frozen=True, slots=True, eq=False)
class AccumulatorTile:
    """The tile of a statement's main store; quantities are [P] or fixed.

    A *step* is one trip of the serial reduce loops: every accumulator is updated once.

    Attributes:
        rows, vectors: their product is the number of accumulators; rows share vector operands.
        width: elements of the vectorised loop (1: scalar code).
        reduce_unroll: copies of a step by unrolled reduce loops.
        chain: serial reduce trips for which the accumulators stay in registers.
        vector_loads, broadcast_loads, gathered_loads: loads of a step.
        prefetches: of a step, one with each vector load of a constant that is fetched ahead.
        evicted: lines of broadcast operands that a step fetches again from the second cache.
        operations: vector operations of a step.
        lane_use: share of the lanes that work.
    """

    rows: Quantity
    vectors: Quantity
    width: Quantity
    reduce_unroll: Quantity
    chain: Quantity
    vector_loads: Quantity
    broadcast_loads: Quantity
    gathered_loads: Quantity
    prefetches: Quantity
    evicted: Quantity
    operations: Quantity
    lane_use: Quantity

    @property
    def accumulators(self) -> Quantity:
        """Registers that hold results."""
        return self.rows * self.vectors

    @property
    def registers(self) -> Quantity:
        """Registers the tile needs: accumulators, a row of vector operands, one broadcast."""
        return self.rows * self.vectors + self.vectors + 1.0

    @property
    def live(self) -> Quantity:
        """Registers the tile fills where broadcasts that several vectors share are loaded first."""
        return (
            self.accumulators + self.vectors + where(self.vectors > 1.0, self.broadcast_loads, 1.0)
        )

    @property
    def loads(self) -> Quantity:
        """All loads of a step."""
        return self.vector_loads + self.broadcast_loads + self.gathered_loads


@dataclass(frozen=True, slots=True, eq=False)
class _Tile:
    """Spatial loops of the tile, with their extents where they belong to it (else 1).

    ``unit_terms``: neighbours along a reduce axis that a lane of a tensor unit takes together.
    """

    unrolled: tuple[tuple[LoopInfo, Quantity], ...]
    vector: tuple[LoopInfo, Quantity] | None
    reduce_unroll: Quantity
    chain: Quantity
    unit_terms: Quantity


def accumulator_tile(analysis: Analysis) -> AccumulatorTile:
    """Derive the tile from the loops: from the innermost out to the first serial spatial loop."""
    tile = _collect(analysis.loops, analysis.uses_tiles)
    lanes = float(analysis.target.lanes(analysis.lane_bytes))
    width = 1.0 if tile.vector is None else tile.vector[1]
    parts = ceil(width / lanes)
    reads = [a for a in analysis.accesses if a.kind == READ and a.site is analysis.main]
    rows, vectors = _shape(tile, reads)
    vector_loads, broadcast_loads, gathered_loads = _loads(tile, reads, parts)
    per_execution = sum(
        INSTRUCTIONS.get(kind, 1.0) * number for kind, number in analysis.main_operations.items()
    )
    vectors = vectors * parts
    return AccumulatorTile(
        rows=rows,
        vectors=vectors,
        width=width,
        reduce_unroll=tile.reduce_unroll,
        chain=tile.chain,
        vector_loads=vector_loads,
        broadcast_loads=broadcast_loads,
        gathered_loads=gathered_loads,
        prefetches=_prefetches(tile, reads, parts),
        evicted=_evicted(tile, reads, analysis),
        operations=rows * vectors * per_execution,
        lane_use=width / (parts * lanes),
    )


def _collect(loops: tuple[LoopInfo, ...], tiles: bool) -> _Tile:
    """``tiles``: one instruction computes on all loops of a unit, on results in a register."""
    unrolled: list[tuple[LoopInfo, Quantity]] = []
    vector: tuple[LoopInfo, Quantity] | None = None
    reduce_unroll: Quantity = 1.0
    chain: Quantity = 1.0
    unit_terms: Quantity = 1.0
    inside: Quantity = 1.0  # 1 while no serial spatial loop of more than one trip was met
    for loop in reversed(loops):
        extent = loop.extent if is_one(inside) else where(inside == 1.0, loop.extent, 1.0)
        if loop.kind in VECTOR_KINDS:
            vector = (loop, extent)
        elif loop.reduce and loop.kind in UNROLLED_KINDS:
            reduce_unroll = reduce_unroll * extent
        elif loop.reduce and loop.kind is LoopKind.TENSOR:
            unit_terms = unit_terms * where(loop.stride == 1.0, extent, 1.0)
        elif tiles and loop.kind is LoopKind.TENSOR:
            continue
        elif loop.reduce:
            chain = chain * extent
        elif loop.kind in UNROLLED_KINDS or loop.kind is LoopKind.TENSOR:
            unrolled.append((loop, extent))
        else:
            inside = inside * where(loop.extent == 1.0, 1.0, 0.0)
    return _Tile(tuple(unrolled), vector, reduce_unroll, chain, unit_terms)


def _shape(tile: _Tile, reads: list[Access]) -> tuple[Quantity, Quantity]:
    """(copies that share the vector operands, copies of the vector operands)."""
    rows: Quantity = 1.0
    vectors: Quantity = 1.0
    for loop, extent in tile.unrolled:
        if tile.vector is not None and _moves_vector(loop, tile.vector[0], reads):
            # A scalar "vector" has no lanes: all its copies are rows.
            scalar = tile.vector[1] == 1.0
            rows, vectors = rows * where(scalar, extent, 1.0), vectors * where(scalar, 1.0, extent)
        else:
            rows = rows * extent
    return rows, vectors


def _moves_vector(loop: LoopInfo, vector: LoopInfo, reads: list[Access]) -> bool:
    return any(read.uses(loop.var) and read.uses(vector.var) for read in reads)


def _loads(
    tile: _Tile, reads: list[Access], parts: Quantity
) -> tuple[Quantity, Quantity, Quantity]:
    vector_loads: Quantity = 0.0
    broadcast_loads: Quantity = 0.0
    gathered_loads: Quantity = 0.0
    for read in reads:
        copies: Quantity = 1.0
        for loop, extent in tile.unrolled:
            if read.uses(loop.var):
                copies = copies * extent
        if tile.vector is None or not read.uses(tile.vector[0].var):
            broadcast_loads = broadcast_loads + copies
            continue
        vector, width = tile.vector
        step = read.address_step(vector)
        scalar, dense = width == 1.0, step == tile.unit_terms
        broadcast_loads = broadcast_loads + where(scalar, copies, 0.0)
        wide = where(scalar, 0.0, copies)
        vector_loads = vector_loads + where(dense, wide * parts * _words(tile, read), 0.0)
        gathered_loads = gathered_loads + where(dense, 0.0, wide * width)
    return vector_loads, broadcast_loads, gathered_loads


def _words(tile: _Tile, read: Access) -> Quantity:
    """32-bit words that a lane of a tensor unit takes at a time; of other lanes one element."""
    if is_one(tile.unit_terms):
        return 1.0
    return larger(tile.unit_terms * read.element_bytes / 4.0, 1.0)


def _prefetches(tile: _Tile, reads: list[Access], parts: Quantity) -> Quantity:
    total: Quantity = 0.0
    for read in reads:
        used = where(to_quantity(read.buffer.ahead) > 0.0, 1.0, 0.0)
        total = total + used * _loads(tile, [read], parts)[0]
    return total


def _evicted(tile: _Tile, reads: list[Access], analysis: Analysis) -> Quantity:
    total: Quantity = 0.0
    reduced = tuple(loop for loop in analysis.loops if loop.reduce)
    for read in reads:
        if tile.vector is None or not read.uses(tile.vector[0].var):
            total = total + evicted_lines(read, tile.unrolled, reduced, analysis.target)
    return total


def latency_cover(tile: AccumulatorTile, accumulators: int) -> Quantity:
    """Share of the accumulators that hide the latency of a multiply-add."""
    return larger(tile.accumulators, 1.0) / accumulators
