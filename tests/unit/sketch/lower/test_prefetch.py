"""How far ahead of what is read constants are prefetched."""

from __future__ import annotations

import pytest

from sketch.dag.dag import ComputeDAG
from sketch.lang.tensor import placeholder
from sketch.lower import lower
from sketch.nest.loopnest import Scope
from sketch.operators.conv import conv2d
from sketch.operators.matmul import matmul
from sketch.rules.generate import generate
from sketch.schedule.sketch import Sketch
from sketch.schedule.walks import NOT_AHEAD, PANEL_AHEAD, WALK_AHEAD
from sketch.variants.winograd_blocks import winograd_four
from tests.support.targets import SMALL

ROWS, DEPTH, COLUMNS = 32, 96, 64
IMAGE, CHANNELS, FILTERS = 8, 16, 64
LANES = SMALL.lanes(4)


def product() -> ComputeDAG:
    a, b = (
        placeholder((ROWS, DEPTH), name="a"),
        placeholder((DEPTH, COLUMNS), name="b", constant=True),
    )
    return ComputeDAG([matmul(a, b)])


def convolution() -> ComputeDAG:
    data = placeholder((1, IMAGE, IMAGE, CHANNELS), name="data")
    weight = placeholder((3, 3, CHANNELS, FILTERS), name="weight", constant=True)
    return ComputeDAG([conv2d(data, weight, padding=1)])


def choices(sketch: Sketch) -> tuple[int, ...]:
    return sketch.decisions[_prefetch(sketch)].choices


def distances(sketch: Sketch, **chosen: int) -> list[int]:
    """Elements for each choice, where all decisions that are not ``chosen`` by name are 1."""
    row = {d.id: chosen.get(sketch.labels[d.id], 1) for d in sketch.decisions}
    found = []
    for choice in choices(sketch):
        row[sketch.decisions[_prefetch(sketch)].id] = choice
        buffers = lower(sketch, row).arguments
        found += [int(b.ahead) for b in buffers if b.scope is Scope.CONSTANT]
    return found


def _prefetch(sketch: Sketch) -> int:
    (found,) = [n for n, d in enumerate(sketch.decisions) if d.id.level == "prefetch"]
    return found


def cut(sketch: Sketch) -> list[str]:
    """The decisions on parts of the sum."""
    return [name for name in sketch.labels.values() if name.endswith("k@1")]


def test_a_sum_in_registers_walks_whole_panels() -> None:
    sketch = next(s for s in generate(product(), SMALL) if not cut(s))
    assert choices(sketch) == (NOT_AHEAD, PANEL_AHEAD)
    assert distances(sketch) == [0, DEPTH * LANES]


@pytest.mark.parametrize("part", [8, 24])
def test_a_sum_in_parts_walks_a_part(part: int) -> None:
    sketch = next(s for s in generate(product(), SMALL) if cut(s))
    assert choices(sketch) == (NOT_AHEAD, PANEL_AHEAD, WALK_AHEAD)
    (name,) = cut(sketch)
    assert distances(sketch, **{name: part}) == [0, DEPTH * LANES, part * LANES]


def test_products_of_tiles_walk_the_channels_of_one_point() -> None:
    other = winograd_four(convolution())
    assert other is not None
    (sketch,) = generate(other, SMALL, variant="winograd-4")
    walk = CHANNELS * LANES
    assert distances(sketch) == [0, 16 * walk, walk]
