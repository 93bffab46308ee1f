"""Folding columns, against windows that are added one by one."""

import numpy as np
import pytest

from sketch.dag.dag import ComputeDAG
from sketch.errors import ExpressionError
from sketch.lang.tensor import placeholder
from sketch.operators.columns import fold
from sketch.operators.window import Window
from sketch.oracle.interpret import interpret


def added(data: np.ndarray, windows: list[Window]) -> np.ndarray:
    height, width = (w.extent + w.before + w.after for w in windows)
    padded = np.zeros((*data.shape[:2], height, width), data.dtype)
    taps, positions = data.shape[2:4], data.shape[4:]
    for r, s in np.ndindex(taps):
        for i, j in np.ndindex(positions):
            y = i * windows[0].stride + r * windows[0].dilation
            x = j * windows[1].stride + s * windows[1].dilation
            padded[:, :, y, x] += data[:, :, r, s, i, j]
    rows, columns = (slice(w.before, w.before + w.extent) for w in windows)
    return padded[:, :, rows, columns]


@pytest.mark.parametrize(
    "windows",
    [
        [Window(5, 3, 1, 1, 1, 1), Window(6, 2, 1, 1, 0, 0)],
        [Window(7, 4, 3, 1, 2, 0), Window(8, 3, 2, 1, 1, 3)],
        [Window(9, 3, 2, 2, 1, 2), Window(7, 2, 1, 3, 0, 1)],
        [Window(6, 2, 4, 1, 0, 0), Window(1, 1, 1, 1, 0, 0)],
    ],
)
def test_every_point_is_the_sum_of_what_windows_see_of_it(windows: list[Window]) -> None:
    counts = tuple(window.positions("test") for window in windows)
    shape = (2, 3, *(window.kernel for window in windows), *counts)
    data = np.random.default_rng(0).integers(-9, 9, shape).astype(np.float32)
    dag = ComputeDAG([fold(placeholder(shape, name="data"), windows)])
    (result,) = interpret(dag, {"data": data}).values()
    np.testing.assert_array_equal(result, added(data, windows))


def test_columns_of_other_windows_are_refused() -> None:
    data = placeholder((1, 2, 3, 3, 4, 4), name="data")
    with pytest.raises(ExpressionError, match="cannot fold"):
        fold(data, [Window(5, 3, 1, 1, 0, 0), Window(6, 3, 1, 1, 0, 0)])
