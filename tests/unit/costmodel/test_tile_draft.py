"""The draft model of units with tile registers: copies of blocks that padding cuts."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from costmodel.extract import draft_seconds
from costmodel.extract.assemble import draft_columns
from sketch.lower import lower
from sketch.population.population import from_rows
from sketch.rules.unit_fit import unit_of
from sketch.target.rates import Rates
from sketch.target.units import UNITS
from tests.support.cuda_programs import feasible_rows
from tests.support.units import TILES, int_product, int_window, on_units

WITH_TILES = tuple(unit for unit in UNITS if unit.tiles)
RATES = TILES.rates


def copying(size: int, taps: int, blocks: int = 1) -> float:
    """Seconds for copies of operands, of each of ``size * size`` elements of a map."""
    dag = int_window(size, 64, 64, taps)
    sketch = next(s for s in on_units(dag, TILES) if unit_of(s, WITH_TILES) is not None)
    row = {decision.id: 1 for decision in sketch.decisions}
    row[sketch.decision("C.o@3")] = blocks
    slow, free = (replace(RATES, tile_copy=cycles) for cycles in (1e6, 1e-6))
    targets = (replace(TILES, rates=rates) for rates in (slow, free))
    seconds = [
        float(draft_seconds(from_rows(replace(sketch, target=t), [row]))[0]) for t in targets
    ]
    return (seconds[0] - seconds[1]) / size**2


def test_padding_costs_copies() -> None:
    assert copying(16, 1) == pytest.approx(0.0, abs=1e-12)
    assert copying(16, 3) > 1e-6


def test_fewer_blocks_of_wide_maps_are_cut() -> None:
    """Of 16 columns one block for two taps of three, of 64 two of four blocks for one tap each."""
    assert copying(16, 3) / copying(64, 3) == pytest.approx(4.0, rel=0.1)


def test_blocks_side_by_side_share_a_copy() -> None:
    assert copying(16, 3, blocks=1) / copying(16, 3, blocks=4) == pytest.approx(4.0, rel=0.1)


def product(rates: Rates) -> np.ndarray:
    """Seconds of the products of rows of a program whose operand has 1 KB in a row of terms."""
    sketch = on_units(int_product(256, 256, 1024), TILES)[-1]
    rows = feasible_rows(sketch, 32, np.random.default_rng(0))
    nest = lower(sketch, rows.columns())
    columns = draft_columns(nest, np.arange(rows.count), replace(TILES, rates=rates))
    return np.max([np.broadcast_to(seconds, rows.count) for seconds in columns[:-1]], axis=0)


def test_rows_of_registers_are_in_different_pages_anyway() -> None:
    np.testing.assert_array_equal(product(RATES), product(replace(RATES, jumping=100.0)))


def test_products_wait_for_a_part_of_what_comes_from_l2() -> None:
    few, some, more = (product(replace(RATES, tile_arrival=x)) for x in (0.25, 0.5, 0.75))
    assert (few < some).all()
    np.testing.assert_allclose(more - some, some - few, rtol=1e-3)
