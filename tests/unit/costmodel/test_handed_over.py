"""Cache lines that go from thread to thread between kernels, against a walk of all tasks."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

from costmodel.extract.analysis import analyse
from costmodel.extract.handed_over import lines_handed_over
from costmodel.extract.statement import statements_of
from sketch.nest.loopnest import BufferLoad, LoopNest, LoopVar, Scope, Store
from tests.support.nests import PARALLEL, SERIAL, dense, loop, plus
from tests.support.targets import AVX512

ROWS, COLUMNS, PER_LINE = 64, 256, 16
Tile = tuple[int, int]


def copy_nest(tile: Tile, rows_outside: bool) -> LoopNest:
    """A copy of an array in parallel tiles, after an axis of length one."""
    shape = (1, ROWS, COLUMNS)
    source, copy = dense("x", shape, Scope.INPUT), dense("y", shape, Scope.OUTPUT)
    i, j, r, c = (LoopVar(name) for name in ("i", "j", "r", "c"))
    indices = (plus(), plus(i, r), plus(j, c))
    node = Store((copy,), indices, (BufferLoad(source, indices),))
    inside = loop(r, tile[0], SERIAL, loop(c, tile[1], SERIAL, node))
    outside = [(i, ROWS, tile[0]), (j, COLUMNS, tile[1])]
    for var, extent, step in outside if not rows_outside else outside[::-1]:
        inside = loop(var, extent // step, PARALLEL, inside, step=step)
    return LoopNest("copy", (source, copy), (), (inside,))


def walked(tile: Tile, rows_outside: bool, threads: int) -> int:
    """The same by walking: lines that a thread touches in rows of another one."""
    rows, columns = range(0, ROWS, tile[0]), range(0, COLUMNS, tile[1])
    tasks = (
        list(itertools.product(rows, columns))
        if rows_outside
        else [(i, j) for j, i in itertools.product(columns, rows)]
    )
    total, share = 0, len(tasks) // threads
    for thread in range(threads):
        touched = {
            (row, column // PER_LINE)
            for i, j in tasks[thread * share : (thread + 1) * share]
            for row in range(i, i + tile[0])
            for column in range(j, j + tile[1])
        }
        total += sum(row * threads // ROWS != thread for row, _ in touched)
    return 2 * total  # of what is read, and of what is written


@pytest.mark.parametrize("threads", [1, 2, 4])
@pytest.mark.parametrize("rows_outside", [True, False])
@pytest.mark.parametrize("tile", [(8, 256), (64, 32), (8, 32), (16, 64), (2, 16)])
def test_lines_of_other_threads_are_counted(tile: Tile, rows_outside: bool, threads: int) -> None:
    if rows_outside and tile[0] == ROWS and threads > 1:
        rows_outside = False  # one row of tiles: the same
    (statement,) = statements_of(copy_nest(tile, rows_outside))
    target = replace(AVX512, threads=threads, l2_bytes=2**20)
    found = lines_handed_over(analyse(statement, np.arange(1), target))
    assert found == pytest.approx(walked(tile, rows_outside, threads))


def test_what_no_second_cache_holds_is_no_other_threads() -> None:
    (statement,) = statements_of(copy_nest((64, 32), False))
    size = 2 * ROWS * COLUMNS * 4

    def lines(l2_bytes: int) -> float:
        target = replace(AVX512, threads=2, l2_bytes=l2_bytes)
        return float(np.asarray(lines_handed_over(analyse(statement, np.arange(1), target)))[0])

    assert lines(size // 2) == lines(size)
    assert lines(size // 8) == pytest.approx(lines(size) / 4)
