"""The numbers that a program's inputs hold."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from campaign.tensor.numbers import FLOATS, Array
from campaign.verdict import Json

_EDGES: Final = [
    0.0, -0.0, 1.0, -1.0, 0.5, 1.5, 2.5, -2.5, 255.5, 65504.0, 65520.0, 1e-7, 6e-8, 1e30, -1e30,
    3.4e38, 2.0**31, -(2.0**31), 2.0**63, -(2.0**63), np.inf, -np.inf, np.nan,
]  # fmt: skip


def inputs_of(program: Json) -> dict[str, Array]:
    """An array for every input, by name."""
    return {
        entry["name"]: _values(entry, np.random.default_rng([program["values"], place]))
        for place, entry in enumerate(program["inputs"])
    }


def _values(entry: Json, rng: np.random.Generator) -> Array:
    shape, dtype, kind = tuple(entry["shape"]), entry["dtype"], entry["kind"]
    if dtype == "bool":
        return rng.random(shape) < 0.5
    if dtype in FLOATS:
        with np.errstate(over="ignore"):
            return _floats(shape, kind, rng).astype(_numpy(dtype))
    limits = np.iinfo(dtype)
    if kind == "index":
        low, high = max(-3, int(limits.min)), min(entry["high"] + 3, int(limits.max))
        return rng.integers(low, high, shape, dtype, endpoint=True)
    if kind == "edges":
        values = rng.integers(limits.min, limits.max, shape, dtype, endpoint=True)
        small = rng.integers(max(int(limits.min), -4), 9, shape).astype(dtype)
        return np.where(rng.random(shape) < 0.5, values, small)
    return rng.integers(max(int(limits.min), -9), 10, shape).astype(dtype)


def _floats(shape: tuple[int, ...], kind: str, rng: np.random.Generator) -> Array:
    with np.errstate(all="ignore"):
        if kind == "positive":
            return rng.uniform(0.25, 2.0, shape)
        if kind == "whole":
            return rng.integers(-4, 5, shape).astype(np.float64)
        if kind == "edges":
            special = rng.choice(np.array(_EDGES), shape)
            return np.where(rng.random(shape) < 0.4, special, rng.standard_normal(shape))
        return rng.uniform(-2.0, 2.0, shape)


def _numpy(dtype: str) -> Any:
    import ml_dtypes

    return ml_dtypes.bfloat16 if dtype == "bfloat16" else np.dtype(dtype)
