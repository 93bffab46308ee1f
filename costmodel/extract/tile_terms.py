"""What products on the tile registers of a tensor unit cost, and where results wait."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from costmodel.extract.analysis import Analysis
from costmodel.extract.quantity import Quantity, larger, smaller, where
from costmodel.extract.registers import AccumulatorTile
from costmodel.extract.statement import STRAIGHT_KINDS
from costmodel.extract.validity import Validity, share
from sketch.nest.loopnest import LoopKind
from sketch.target.units import UNITS

# A product takes as long as all rows that a unit can have, but for few of them.
_ROWS = float(max(unit.m for unit in UNITS if unit.tiles))


def tile_cycles(analysis: Analysis, tile: AccumulatorTile, checks: Validity) -> Quantity:
    """Cycles of the main statement on one thread.

    A step multiplies each first operand of a tile with each second one.  Blocks at an edge, and
    those that padding cuts, take as long as whole ones, and what is missing of their operands is
    filled with zeros in a copy.
    """
    rates = analysis.target.rates
    height = analysis.unit_rows
    results = tile.accumulators
    lanes = float(analysis.target.lanes(analysis.lane_bytes))
    steps = analysis.trips / (results * lanes * height * analysis.unit_terms)
    product = product_cycles(analysis)
    products = results * product
    lines = tile.prefetches * analysis.unit_terms / 4.0 / rates.loads
    loads = (tile.broadcast_loads + tile.vector_loads) * rates.tile_load + lines
    whole = checks.tile_valid * (1.0 - _cut(analysis, checks))
    copies = tile.broadcast_loads * rates.tile_copy * (height / _ROWS) * (1.0 - whole)
    step = larger(products, loads) + rates.load_overlap * smaller(products, loads) + copies
    fetched = where(in_memory(analysis), rates.tile_load + rates.tile_store, 0.0)
    visit = results * (rates.tile_store + fetched) + product
    chain = larger(tile.chain * tile.reduce_unroll, 1.0)
    return steps * (step + visit / chain) * checks.tail_executed


def product_cycles(analysis: Analysis) -> Quantity:
    """Of one product on tile registers."""
    rates = analysis.target.rates
    return rates.tile_product * larger(analysis.unit_rows / _ROWS, rates.tile_least)


def _cut(analysis: Analysis, checks: Validity) -> Quantity:
    """Share of blocks of which padding leaves out rows, if it leaves out one of each of them."""
    rows = {x.var for x in analysis.loops if x.kind is LoopKind.TENSOR and not x.reduce}
    cut: Quantity = 0.0
    for guard in checks.paddings:
        if guard.variables & rows:
            outside = 1.0 - share(guard, analysis.main.loops)
            cut = larger(cut, smaller(outside * analysis.unit_rows, 1.0))
    return cut


def in_memory(analysis: Analysis) -> bool | NDArray[np.bool_]:
    """Whether results wait in memory between the visits of their tile.

    Then their buffer is allocated outside of serial loops over tiles.
    """
    depth = analysis.main.allocation_depth(analysis.accesses[0].buffer)
    tiles: Quantity = 1.0
    for loop in analysis.loops[depth:]:
        if not loop.reduce and loop.kind not in STRAIGHT_KINDS:
            tiles = tiles * loop.extent
    return tiles > 1.0
