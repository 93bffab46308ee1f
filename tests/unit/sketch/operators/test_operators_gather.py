"""Operators whose indices are data, against NumPy."""

import numpy as np
import pytest

from sketch.dag.dag import ComputeDAG
from sketch.errors import ExpressionError
from sketch.lang.tensor import Tensor, placeholder
from sketch.operators import gather, layout
from sketch.oracle.interpret import interpret

DATA = np.arange(60.0).reshape(3, 4, 5)


def run(result: Tensor, **inputs: np.ndarray) -> np.ndarray:
    (value,) = interpret(ComputeDAG([result]), inputs).values()
    return value


def placeholders(indices: np.ndarray) -> tuple[Tensor, Tensor]:
    return placeholder(DATA.shape, name="a"), placeholder(indices.shape, str(indices.dtype), "i")


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_take(axis: int, dtype: str) -> None:
    indices = np.array([[0, -1], [2, -3]], dtype)
    a, i = placeholders(indices)
    np.testing.assert_array_equal(
        run(gather.take(a, i, axis), a=DATA, i=indices), DATA.take(indices, axis)
    )


def test_indices_out_of_range_are_clamped() -> None:
    indices = np.array([7, -7, np.iinfo(np.int64).max, np.iinfo(np.int64).min])
    a, i = placeholders(indices)
    np.testing.assert_array_equal(run(gather.take(a, i, 0), a=DATA, i=indices), DATA[[2, 0, 2, 0]])


def test_take_along() -> None:
    indices = np.random.default_rng(0).integers(-4, 4, (3, 7, 2))
    a, i = placeholders(indices)
    expected = np.take_along_axis(DATA[:, :, :2], indices, 1)
    np.testing.assert_array_equal(run(gather.take_along(a, i, 1), a=DATA, i=indices), expected)
    with pytest.raises(ExpressionError, match="do not fit"):
        gather.take_along(a, placeholder((4, 7, 2), "int64", "j"), 1)


def test_take_points() -> None:
    indices = np.array([[[0, -1]], [[2, 4]], [[3, 0]]])
    a, i = placeholders(indices)
    rows = run(gather.take_points(a, placeholder((3, 1, 1), "int64", "i")), a=DATA,
               i=np.array([[[0]], [[2]], [[-2]]]))  # fmt: skip
    np.testing.assert_array_equal(rows, DATA[[[0], [2], [1]]])
    points = run(gather.take_points(a, i, batch=1), a=DATA, i=indices)
    np.testing.assert_array_equal(points, [[DATA[0, 0, 4]], [DATA[1, 2, 4]], [DATA[2, 3, 0]]])
    with pytest.raises(ExpressionError, match="1 batch dimensions"):
        gather.take_points(a, placeholder((2, 1, 2), "int64", "j"), 1)


def test_one_hot_ignores_indices_out_of_range() -> None:
    indices, values = np.array([1, -1, 3, -4]), np.array([5.0, 7.0])
    tensors = placeholder((4,), "int64", "i"), placeholder((2,), name="v")
    result = run(gather.one_hot(*tensors, depth=3, axis=0), i=indices, v=values)
    np.testing.assert_array_equal(result, [[5, 5, 5, 5], [7, 5, 5, 5], [5, 7, 5, 5]])


def test_reverse_sequences() -> None:
    lengths = np.array([1, 4, 3])
    a, n = placeholder(DATA.shape, name="a"), placeholder((3,), "int64", "n")
    expected = DATA.copy()
    for batch, length in enumerate(lengths):
        expected[batch, :length] = expected[batch, :length][::-1]
    np.testing.assert_array_equal(
        run(gather.reverse_sequences(a, n, 0, 1), a=DATA, n=lengths), expected
    )


@pytest.mark.parametrize("upper", [True, False])
@pytest.mark.parametrize("diagonal", [-2, 0, 1, 9])
def test_triangle(upper: bool, diagonal: int) -> None:
    a = placeholder(DATA.shape, name="a")
    expected = (np.triu if upper else np.tril)(DATA, diagonal)
    np.testing.assert_array_equal(run(layout.triangle(a, upper, diagonal), a=DATA), expected)
