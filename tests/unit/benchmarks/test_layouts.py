"""Both layouts compute the same convolutions."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.layouts import LAYERS, Layer, blocked, last, reordered
from sketch.oracle.interpret import interpret


@pytest.mark.parametrize(
    "layer",
    [
        Layer(6, 32, 48, 3),
        Layer(7, 32, 16, 1),
        Layer(9, 16, 32, 3, 2),
        Layer(8, 48, 48, 3, 2, depthwise=True),
    ],
    ids=lambda layer: layer.name,
)
def test_blocks_of_channels_are_the_same_numbers(layer: Layer) -> None:
    rng, dag = np.random.default_rng(0), last(layer)
    arrays = {value.name: rng.standard_normal(value.shape) for value in dag.inputs}
    wide = {name: array.astype(np.float32) for name, array in arrays.items()}
    expected = interpret(dag, wide)["y"]
    found = interpret(blocked(layer), reordered(layer, wide))["y"]
    found = found.transpose(0, 2, 3, 1, 4).reshape(expected.shape)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5 * np.abs(expected).max())


def test_rows_have_names_of_their_own() -> None:
    assert len({layer.name for layer in LAYERS}) == len(LAYERS)
