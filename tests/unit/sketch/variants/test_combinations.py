"""Constant matrices as sums: right for any matrix, and short for those of symmetric points."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sketch.lang.expr import Binary, Load
from sketch.lang.rewrite import walk
from sketch.lang.tensor import placeholder
from sketch.oracle.evaluate import Evaluator
from sketch.variants.combinations import combinations
from sketch.variants.interpolation import F2_3, SIX_POINTS, transforms

COEFFICIENTS = st.sampled_from([-3, -1, 0, 0, 1, 1, 2, Fraction(1, 4)])


def values_of(matrix, vector):
    data = placeholder((len(vector),), "float64", name="d")
    terms = [data[n] for n in range(len(vector))]
    evaluate = Evaluator({}, lambda tensor: np.array(vector, np.float64))
    return [float(evaluate(expr)) for expr in combinations(matrix, terms)]


def rows_of(width):
    row = st.lists(COEFFICIENTS, min_size=width, max_size=width).filter(any)
    return st.lists(row.map(lambda xs: tuple(map(Fraction, xs))), min_size=1, max_size=6)


@given(st.integers(1, 6).flatmap(rows_of), st.randoms(use_true_random=False))
def test_any_matrix(matrix, random):
    vector = [float(random.randint(-9, 9)) for _ in matrix[0]]
    expected = [float(sum(c * Fraction(v) for c, v in zip(row, vector, strict=True)))
                for row in matrix]  # fmt: skip
    assert values_of(matrix, vector) == expected


def operations(matrix):
    data = placeholder((len(matrix[0]),), name="d")
    nodes = {}
    for expr in combinations(matrix, [data[n] for n in range(len(matrix[0]))]):
        nodes |= {id(node): node for node in walk(expr)}
    return sum(
        isinstance(node, Binary) and node.op in ("add", "sub") and not isinstance(node, Load)
        for node in nodes.values()
    )


def test_points_of_two_signs_share_their_halves():
    """Additions of one pass over a tile; rows and columns written out have more."""
    assert operations(transforms(F2_3, 3).data) + operations(transforms(F2_3, 3).results) <= 8
    assert (
        operations(transforms(SIX_POINTS, 3).data) + operations(transforms(SIX_POINTS, 3).results)
        <= 22
    )


def test_a_row_of_zeros_is_refused():
    with pytest.raises(ValueError, match="zeros"):
        values_of([(Fraction(0), Fraction(0))], [1.0, 2.0])
