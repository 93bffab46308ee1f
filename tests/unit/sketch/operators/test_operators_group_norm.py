"""Normalisation of groups of channels, channels last, against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sketch.dag.dag import ComputeDAG
from sketch.lang.tensor import placeholder
from sketch.operators.normalization import normalize_groups
from sketch.oracle.interpret import interpret


def _normalized(data: Any, groups: int, epsilon: float) -> Any:
    wide = data.astype(np.float64)
    parts = wide.reshape(len(data), -1, groups, data.shape[-1] // groups)
    mean = parts.mean((1, 3), keepdims=True)
    variance = parts.var((1, 3), keepdims=True)
    return ((parts - mean) / np.sqrt(variance + epsilon)).reshape(data.shape)


@pytest.mark.parametrize("shape", [(2, 5, 12), (3, 4, 5, 12), (1, 2, 3, 4, 12), (2, 1, 1, 12)])
@pytest.mark.parametrize("groups", [1, 3, 4, 12])
@pytest.mark.parametrize("offset", [0.0, 50.0])
def test_groups(shape: tuple[int, ...], groups: int, offset: float) -> None:
    data = (np.random.default_rng(0).standard_normal(shape) + offset).astype(np.float32)
    dag = ComputeDAG([normalize_groups(placeholder(shape, name="x"), groups, 1e-3, "y")])
    found = interpret(dag, {"x": data})["y"]
    np.testing.assert_allclose(found, _normalized(data, groups, 1e-3), rtol=1e-5, atol=1e-4)
