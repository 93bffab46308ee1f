"""Algorithms that move results: who writes into a part of a larger array relies on it."""

from __future__ import annotations

import pytest

from sketch.dag.dag import ComputeDAG
from sketch.lang.tensor import Tensor, placeholder
from sketch.operators.conv import conv, grouped_conv
from sketch.variants.derive import ALGORITHMS, GPU_ALGORITHMS, Algorithm

# Images, filters, stride, groups: what the algorithms of both kinds of machines apply to.
CONVOLUTIONS = [
    ((1, 16, 16, 16), (3, 3, 16, 16), 1, 1),
    ((1, 16, 16, 16), (3, 3, 16, 32), 2, 1),
    ((1, 14, 14, 64), (1, 7, 64, 64), 1, 1),
    ((2, 12, 12, 3), (5, 5, 3, 3), 1, 1),
    ((1, 56, 56, 32), (3, 3, 2, 32), 1, 16),
    ((1, 32, 32, 512), (1, 1, 512, 512), 1, 1),
    ((1, 112, 112, 3), (7, 7, 3, 64), 2, 1),
]


def _convolutions() -> list[ComputeDAG]:
    def made(image: tuple[int, ...], filters: tuple[int, ...], stride: int, groups: int) -> Tensor:
        data, weight = placeholder(image, name="x"), placeholder(filters, name="w", constant=True)
        padding = tuple(extent // 2 for extent in filters[:2])
        return conv(data, weight, stride=stride, padding=padding, groups=groups, name="y")

    image, filters = placeholder((1, 8, 8, 64), name="x"), (16, 3, 3, 4, 4)
    groups = grouped_conv(image, placeholder(filters, name="w", constant=True), 1, 1, 1, 16)
    return [ComputeDAG([y]) for y in (*(made(*case) for case in CONVOLUTIONS), groups)]


@pytest.mark.parametrize("algorithm", [*ALGORITHMS, *GPU_ALGORITHMS], ids=lambda a: a.name)
def test_algorithms_that_do_not_say_so_leave_results_in_their_places(algorithm: Algorithm) -> None:
    derived = [dag for one in _convolutions() if (dag := algorithm.derive(one)) is not None]
    moved = any(stage.store is not None for dag in derived for stage in dag.stages)
    assert algorithm.moves_results or not moved


def test_some_algorithms_move_results() -> None:
    names = {a.name for a in (*ALGORITHMS, *GPU_ALGORITHMS) if a.moves_results}
    moving = {
        a.name
        for a in (*ALGORITHMS, *GPU_ALGORITHMS)
        for one in _convolutions()
        if (dag := a.derive(one)) and any(stage.store is not None for stage in dag.stages)
    }
    assert moving == names
