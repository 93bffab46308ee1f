"""Tables of register tiles: all combinations that have registers, or a random part of them."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from sketch.population.tile_tables import TileLevel, tile_table

REGISTERS = 16
LEVELS = (
    TileLevel((1, 2, 4, 8, 16), 0),
    TileLevel((1, 3), None),
    TileLevel((1, 2, 3, 8), 1),
    TileLevel((1, 5, 6, 9), 0),
)
MANY = tuple(TileLevel(tuple(range(1, 17)), stage) for stage in (0, 1, 0, 2, 1, 2, 3))


def copies(rows: np.ndarray, levels: tuple[TileLevel, ...], stage: int) -> np.ndarray:
    own = [n for n, level in enumerate(levels) if level.stage == stage]
    return rows[:, own].prod(axis=1)


def test_all_combinations_whose_copies_have_registers_are_there_in_order() -> None:
    every = np.array(list(itertools.product(*(level.choices for level in LEVELS))))
    fitting = [(copies(every, LEVELS, stage) <= REGISTERS) for stage in (0, 1)]
    assert (tile_table(LEVELS, REGISTERS) == every[np.all(fitting, axis=0)]).all()


def test_of_very_many_a_part_is_left_in_which_all_have_registers() -> None:
    table = tile_table(MANY, REGISTERS)
    assert table.shape == (16384, len(MANY))
    assert len(np.unique(table, axis=0)) == len(table)
    for stage in range(4):
        assert copies(table, MANY, stage).max() == REGISTERS
    for n, level in enumerate(MANY):
        assert set(table[:, n]) == set(level.choices)


def test_the_part_is_the_same_whenever_it_is_asked() -> None:
    first = tile_table(MANY, REGISTERS)
    tile_table.cache_clear()
    again = tile_table(MANY, REGISTERS)
    assert again is not first
    assert (again == first).all()


def test_no_level_is_one_empty_combination() -> None:
    assert tile_table((), REGISTERS).shape == (1, 0)


def test_a_table_that_is_shared_cannot_be_changed() -> None:
    with pytest.raises(ValueError, match="read-only"):
        tile_table(LEVELS, REGISTERS)[0, 0] = 2
