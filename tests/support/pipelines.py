"""Programs with tiles that are filled ahead of the one that is read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from sketch.dag.dag import ComputeDAG
from sketch.lower import lower
from sketch.nest.loopnest import LoopNest
from sketch.population.feasible import feasible
from sketch.rules.generate import generate
from sketch.schedule.decision import DecisionId, LoopDecision
from sketch.schedule.sketch import Sketch
from sketch.target.target import Target
from tests.support.cuda_programs import GPU, feasible_rows


def of_level(sketch: Sketch, level: str) -> list[DecisionId]:
    """The decisions that say ``level`` about the loops of an axis."""
    names = [decision.id for decision in sketch.decisions]
    return [n for n in names if isinstance(n, LoopDecision) and n.level == level]


def with_tiles(
    sketch: Sketch, row: Mapping[DecisionId, int], count: int, layout: int
) -> dict[DecisionId, int]:
    """The row with so many tiles in shared memory, laid out so where an operand has that layout."""
    changed = dict(row)
    choices = {decision.id: decision.choices for decision in sketch.decisions}
    for name in of_level(sketch, "tiles"):
        changed[name] = min(count, choices[name][-1])
    for name in of_level(sketch, "layout"):
        changed[name] = min(layout, choices[name][-1])
    return changed


def pipelined_nests(
    dag: ComputeDAG,
    counts: tuple[int, ...],
    layouts: tuple[int, ...],
    rng: np.random.Generator,
    target: Target = GPU,
) -> Iterator[LoopNest]:
    """A random feasible row with tiles of every tiled sketch, with all those counts and layouts.

    Args:
        dag: the program.
        counts: of tiles in shared memory.
        layouts: of those tiles.
        rng: where the rows come from.
        target: what the sketches are for.
    """
    for sketch in generate(dag, target):
        if not of_level(sketch, "tiles"):
            continue
        for row in _rows(sketch, rng):
            for count in counts:
                for layout in layouts:
                    yield lower(sketch, with_tiles(sketch, row, count, layout))


def _rows(sketch: Sketch, rng: np.random.Generator) -> Iterator[dict[DecisionId, int]]:
    """One whose loop over tiles has several trips, also with the most tiles."""
    population = feasible_rows(sketch, 64, rng)
    for index in range(population.count):
        row = with_tiles(sketch, population.row(index), 4, 3)
        if feasible(sketch, row)[0] and _tiles_of(sketch, row) >= 3:
            yield dict(population.row(index))
            return


def _tiles_of(sketch: Sketch, row: Mapping[DecisionId, int]) -> int:
    (name,) = of_level(sketch, "tiles")
    assert isinstance(name, LoopDecision)
    inside = [row[name._replace(level=str(level))] for level in (1, 2)]
    plan = sketch.program.stage(name.stage)
    extent = plan.op.all_axes[name.axis].extent
    return -(-extent // (inside[0] * inside[1]))
