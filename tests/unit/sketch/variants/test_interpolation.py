"""Transforms from interpolation points: exact, proven, and what old records hold."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from sketch.dag.dag import ComputeDAG
from sketch.lang.tensor import compute, placeholder
from sketch.oracle.interpret import interpret
from sketch.variants import winograd
from sketch.variants.interpolation import (
    EIGHT_POINTS,
    F2_3,
    FIVE_POINTS,
    SIX_POINTS,
    THREE_POINTS,
    prove,
    strided,
    transforms,
)

INFINITY = (1, 0)
POINTS = [
    (F2_3, 3),
    *((SIX_POINTS, taps) for taps in range(2, 6)),
    *((EIGHT_POINTS, taps) for taps in range(2, 8)),
    (((0, 1), (1, 1), (-1, 1), (2, 1), (-2, 1), INFINITY), 3),
    (((0, 1), (1, 2), (-3, 2), INFINITY), 2),
    (((5, 1), (1, 3), (7, 2)), 3),
]


@pytest.mark.parametrize(("points", "taps"), POINTS)
def test_transforms_are_a_correlation_in_exact_numbers(points, taps):
    found = transforms(points, taps)
    prove(found)
    rng = np.random.default_rng(0)
    data, filters = rng.integers(-9, 9, len(points)), rng.integers(-9, 9, taps)
    products = (np.array(found.filters) @ filters) * (np.array(found.data) @ data)
    direct = [Fraction(int(sum(data[i : i + taps] * filters)))
              for i in range(len(points) + 1 - taps)]  # fmt: skip
    assert list(np.array(found.results) @ products) == direct


@pytest.mark.parametrize("name", ["data", "filters", "results"])
def test_a_wrong_element_is_not_proven(name):
    found = transforms(F2_3, 3)
    rows = [list(row) for row in getattr(found, name)]
    rows[1][1] += Fraction(1, 7)
    with pytest.raises(ValueError, match="result"):
        prove(replace(found, **{name: tuple(map(tuple, rows))}))


def test_equal_points_are_refused():
    with pytest.raises(ValueError, match="distinct"):
        transforms(((1, 1), (2, 2), (0, 1)), 2)
    with pytest.raises(ValueError, match="distinct"):
        transforms(((1, 1), (0, 1)), 3)


def test_what_variants_are_made_with():
    found = transforms(F2_3, 3)
    assert found.filters == ((1, 0, 0), (0.5, 0.5, 0.5), (-0.5, 0.5, -0.5), (0, 0, 1))
    assert found.data == ((1, 0, -1, 0), (0, 1, 1, 0), (0, 1, -1, 0), (0, 1, 0, -1))
    assert found.results == ((1, 1, 1, 0), (0, 1, -1, -1))


def test_the_program_combines_data_as_the_matrix_does():
    data = placeholder((4,), name="d")

    def element(i):
        first, second = winograd._pair(i)
        return data[first] + winograd._sign(i) * data[second]

    dag = ComputeDAG([compute((4,), element, name="t")])
    columns = [interpret(dag, {"d": column})["t"] for column in np.eye(4, dtype=np.float32)]
    assert np.array_equal(np.stack(columns, 1), np.array(transforms(F2_3, 3).data, float))


@pytest.mark.parametrize("points", [THREE_POINTS, FIVE_POINTS, SIX_POINTS])
@pytest.mark.parametrize(("taps", "stride"), [(3, 2), (4, 2), (2, 1), (3, 3), (4, 3)])
def test_strides_are_sums_of_correlations_of_stride_1(points, taps, stride):
    found = strided(points, taps, stride)
    rng = np.random.default_rng(0)
    count = len(found.results)
    data = rng.integers(-9, 9, (count - 1) * stride + taps)
    filters = rng.integers(-9, 9, taps)
    products = (np.array(found.filters) @ filters) * (np.array(found.data) @ data)
    direct = [int(sum(data[i * stride : i * stride + taps] * filters)) for i in range(count)]
    assert list(np.array(found.results) @ products) == direct


def test_sums_of_other_numbers_of_taps_are_refused():
    with pytest.raises(ValueError, match="sums of 2 and 3"):
        strided(SIX_POINTS, 5, 2)
