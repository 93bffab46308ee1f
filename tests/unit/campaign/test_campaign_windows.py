"""Convolutions of the campaign have other algorithms, whose kernels it runs; some programs turn
arrays, and some scatter.
"""

from __future__ import annotations

import numpy as np
import pytest

from autosched.task import Task
from campaign.tensor.compare import difference
from campaign.tensor.draw import draw_program
from campaign.tensor.execute import candidates
from campaign.tensor.express import dag_of
from campaign.tensor.numbers import SMOOTH, Number, smooth
from campaign.tensor.reduction import widened
from campaign.tensor.targets import target_of
from sketch.analysis.access import stage_loads
from sketch.analysis.scattering import scattered_axes
from sketch.lang.rewrite import walk
from sketch.lang.tensor import Compute
from sketch.variants.correlation import correlation


def test_convolutions_are_drawn_that_have_other_algorithms() -> None:
    cases = [draw_program(seed) for seed in range(20, 420, 20)]
    tasks = [Task(dag_of(case), target_of(case)) for case in cases]
    assert sum(len(task.variants) > 1 for task in tasks) > len(cases) // 2
    names = {variant.name for task in tasks for variant in task.variants}
    assert {"winograd-4", "winograd-6", "winograd-3-strided"} <= names


def test_taps_of_every_other_convolution_may_be_apart() -> None:
    cases = [draw_program(seed) for seed in range(10, 410, 20)]
    matches = [correlation(dag_of(case).stages[0]) for case in cases]
    spaced = [n for n, match in enumerate(matches) if match and max(match.spacings) > 1]
    assert len(spaced) > len(cases) // 2
    tasks = [Task(dag_of(cases[n]), target_of(cases[n])) for n in spaced]
    assert any(len(task.variants) > 1 for task in tasks)


def test_arrays_are_drawn_that_are_turned() -> None:
    cases = [draw_program(seed) for seed in range(4, 204, 10)]
    turned = [case for case in cases if any(map(_turns, dag_of(case).stages))]
    assert len(turned) > len(cases) // 2


def test_reductions_are_drawn_that_scatter() -> None:
    """Along one axis or two; of whole rows, or each element to a place of its own."""
    stages = [op for seed in range(9, 409, 10) for op in dag_of(draw_program(seed)).stages]
    found = [scattered_axes(op) for op in stages]
    assert sum(map(bool, found)) > 30
    assert {len(axes) for axes in found} == {0, 1, 2}
    own = [
        any(axis in walk(place) for axis in op.axes for place in axes.values())
        for op, axes in zip(stages, found, strict=True)
        if axes and len(op.axes) > len(axes)
    ]
    assert {True, False} == set(own)


def _turns(op: Compute) -> bool:
    """Whether the last axis moves along another dimension than the last one of what is read."""
    return any(op.axes[-1] in load.indices[:-1] for load in stage_loads(op) if op.reduce is None)


def test_kernels_of_other_algorithms_are_chosen() -> None:
    case = draw_program(next(s for s in range(10, 500, 10) if _several(s)))
    found = candidates(dag_of(case), target_of(case), case, lambda mark: None)
    assert all(sketch.variant != "direct" for sketch, _ in found)


def _several(seed: int) -> bool:
    case = draw_program(seed)
    return len(Task(dag_of(case), target_of(case)).variants) > 1


def test_other_algorithms_are_judged_by_the_largest_error_of_an_array() -> None:
    number = Number(np.array([1.0, 100.0, 5.0]), np.array([1e-6, 1e-4, np.inf]), "float32")
    found = np.array([1.0003, 100.0, 0.0], np.float32)
    assert difference(found, number)[1] is not None
    assert difference(found, widened(number, 4.0, 1)) == (2, None)
    assert difference(np.array([1.01, 100, 0], np.float32), widened(number, 4.0, 1))[1] is not None


@pytest.mark.parametrize("name", ["sin", "cos", "tan"])
def test_the_function_of_an_angle_that_may_be_any_is_unknown(name: str) -> None:
    angle = Number(np.array([4.0, 4.0]), np.array([4.0, 1e-3]), "float32")
    known = np.isfinite(smooth(angle, SMOOTH[name]).error)
    assert known.tolist() == [False, True]
