"""The draft model on measured pools: what it picks is near the best that was drawn.

``tests/golden/draft_pools.json`` holds rows of some programs with the microseconds that they took
on one core with AVX-512: {"target": fields of ``Target``, "pools": [{"program", "arguments",
"sketches": [{"steps", "decisions": names, "values": rows, "us": one a row}]}]}.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from autosched.records.old_names import positions
from costmodel.extract import draft_seconds
from sketch.population.population import from_rows
from sketch.schedule.sketch import sketch_from_steps
from sketch.schedule.step_reading import steps_from_json
from sketch.target.target import Target
from tests.support import workloads

Pool = tuple[NDArray[np.float64], NDArray[np.float64]]  # draft seconds and microseconds, [rows]

FILE = Path(__file__).parents[2] / "golden" / "draft_pools.json"
STORED: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))
NAMES = [f"{pool['program']}{tuple(pool['arguments'])}" for pool in STORED["pools"]]
# The pick's time over the best of the pool; at most this.
LIMITS = {**dict.fromkeys(NAMES, 1.25), "conv2d_relu(224, 3, 32, 3, 2, 1)": 1.4}


def drafted(pool: dict[str, Any], target: Target) -> Pool:
    dag = getattr(workloads, pool["program"])(*pool["arguments"])
    seconds: list[float] = []
    measured: list[float] = []
    for stored in pool["sketches"]:
        by_position = positions(dag, None, stored["steps"], stored["decisions"])
        steps, decisions = steps_from_json(dag, *by_position)
        sketch = sketch_from_steps(dag, steps, "direct", target)
        rows = [dict(zip(decisions, row, strict=True)) for row in stored["values"]]
        seconds.extend(draft_seconds(from_rows(sketch, rows), once=True))
        measured.extend(stored["us"])
    return np.array(seconds), np.array(measured)


@pytest.fixture(scope="module")
def pools() -> dict[str, Pool]:
    target = Target("cpu", **STORED["target"])
    found = [drafted(pool, target) for pool in STORED["pools"]]
    return dict(zip(NAMES, found, strict=True))


@pytest.mark.parametrize("name", NAMES)
def test_what_the_draft_picks_is_near_the_best(pools: dict[str, Pool], name: str) -> None:
    seconds, measured = pools[name]
    assert measured[seconds.argmin()] <= LIMITS[name] * measured.min()


def test_the_luck_of_the_draw_decides_little(pools: dict[str, Pool]) -> None:
    """The mean loss of a pick where only some of the rows were drawn."""
    losses = [mean_loss(*pool, share) for pool in pools.values() for share in (2, 4)]
    assert np.exp(np.mean(losses)) < 1.12
    assert np.exp(max(losses)) < 1.5


def mean_loss(seconds: NDArray[np.float64], measured: NDArray[np.float64], share: int) -> float:
    rng = np.random.default_rng(0)
    draws: Sequence[NDArray[np.int64]] = [
        rng.permutation(len(seconds))[: len(seconds) // share] for _ in range(64)
    ]
    picks = [measured[draw[seconds[draw].argmin()]] / measured[draw].min() for draw in draws]
    return float(np.log(picks).mean())


def test_the_order_is_that_of_the_machine(pools: dict[str, Pool]) -> None:
    """Rank correlation, the mean over the pools."""
    ranks = [
        np.corrcoef(seconds.argsort().argsort(), measured.argsort().argsort())[0, 1]
        for seconds, measured in pools.values()
    ]
    assert np.mean(ranks) > 0.6
