"""What GPU kernels read again: by the blocks that run at a time, counted."""

from __future__ import annotations

import numpy as np
import pytest

from costmodel.extract import draft_seconds
from costmodel.extract.gpu_memory import running_together
from costmodel.extract.statement import LoopInfo
from sketch.nest.loopnest import LoopKind, LoopVar
from sketch.population.population import from_rows
from sketch.rules.generate import generate
from sketch.schedule.decision import DecisionId
from sketch.schedule.sketch import Sketch
from sketch.target.gpu_targets import cuda_target
from sketch.target.target import Target
from tests.support.cuda_programs import row_of
from tests.support.workloads import matmul_dag

SIZE = 4096


def loop(extent: int, together: int = 1) -> LoopInfo:
    kind = LoopKind.BLOCK
    trips = float(extent)
    return LoopInfo(LoopVar("i"), trips, 1.0, trips - 1, kind, False, float(together))


@pytest.mark.parametrize("together", [1, 2, 4, 8])
@pytest.mark.parametrize("count", [1, 2, 4, 8, 16, 32, 64, 128, 256])
def test_blocks_that_run_at_a_time_are_counted(together: int, count: int) -> None:
    """Of 2 x 8 x 16 blocks, the first ``count`` in order."""
    order = [
        (copy, row, column)
        for copy in range(2)
        for first in range(0, 8, together)
        for column in range(16)
        for row in range(first, first + together)
    ][:count]
    expected = [len({place[n] for place in order}) for n in range(3)]
    found = running_together((loop(2), loop(8, together), loop(16)), float(count))
    assert [part.extent for part in found] == expected
    assert [part.reach for part in found] == [n - 1 for n in expected]


def product(target: Target, size: int = SIZE) -> tuple[Sketch, dict[DecisionId, int]]:
    """A product in blocks of 128 x 128."""
    sketch = generate(matmul_dag(size, size, size), target)[0]
    row = row_of({
        "C.i@1": 1, "C.i@2": 4, "C.i@3": 4, "C.i@4": 8,
        "C.j@1": 1, "C.j@2": 2, "C.j@3": 8, "C.j@4": 8,
        "C.local.k@1": 1, "C.local.k@2": 8, "C.local.k@tiles": 3,
        "A.cache.d1@layout": 1, "B.cache.d1@layout": 0,
    }, sketch)  # fmt: skip
    return sketch, row


def seconds(target: Target) -> np.ndarray:
    """By rows of blocks that start together: 1, 2, 4, 8, 16."""
    sketch, row = product(target)
    rows = sketch.decision("C.i@together")
    return draft_seconds(from_rows(sketch, [{**row, rows: count} for count in (1, 2, 4, 8, 16)]))


def test_squares_of_blocks_read_less_than_rows_of_them() -> None:
    """58 processors of 2 blocks each: of 32 columns, 4 or 8 rows are the most compact."""
    times = seconds(cuda_target("l4"))
    assert times.argmin() in (2, 3, 4) and times.min() < 0.97 * times[0]


def test_where_memory_is_fast_the_order_changes_little() -> None:
    times = seconds(cuda_target("h200"))
    assert times.max() < 1.02 * times.min()
