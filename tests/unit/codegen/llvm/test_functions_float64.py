"""Functions of float64 in compiled programs, against 80-bit arithmetic."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from sketch.dag.dag import ComputeDAG
from sketch.lang.expr import unary
from sketch.lang.tensor import compute, placeholder
from tests.support.compiled import random_run
from tests.support.cpu_targets import in_turns, instruction_sets

BOUNDS = {
    "exp": 1.0, "expm1": 1.2, "log": 1.0, "log1p": 1.0, "sqrt": 0.51, "rsqrt": 1.51,
    "sigmoid": 2.0, "sin": 1.0, "cos": 1.0, "tan": 1.0, "asin": 1.3, "acos": 1.3, "atan": 1.6,
    "sinh": 2.0, "cosh": 2.0, "tanh": 2.0, "asinh": 2.0, "acosh": 2.0, "atanh": 2.0,
    "floor": 0.0, "ceil": 0.0, "round": 0.0, "trunc": 0.0,
}  # fmt: skip
EXACT: dict[str, Callable[[Any], Any]] = {
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan,
    "asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh, "round": np.rint,
}  # fmt: skip
SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, 2.5, np.inf, -np.inf, np.nan, 1e-310, 1e308, 710.0, -745.0]


def arguments() -> np.ndarray:
    rng = np.random.default_rng(0)
    wide = rng.standard_normal(96) * np.exp2(rng.uniform(-60, 60, 96))
    near = rng.uniform(-12, 12, 96 - len(SPECIAL))
    return np.concatenate([SPECIAL, wide, near, rng.uniform(-1, 1, 64)])


def run(name: str, target: Any, x: np.ndarray) -> np.ndarray:
    data = placeholder(x.shape, "float64", "x")
    dag = ComputeDAG([compute(x.shape, lambda i: unary(name, data[i]), name="y")])
    return random_run(dag, {"x": x}, target, 0, 0)["y"]


@pytest.mark.skipif(np.finfo(np.longdouble).nmant < 63, reason="long double is no wider")
@pytest.mark.parametrize(("name", "target"), in_turns(sorted(BOUNDS), instruction_sets()))
def test_error_bound(name: str, target: Any) -> None:
    x = arguments()
    exact_function = EXACT.get(name) or getattr(np, name)
    with np.errstate(all="ignore"):
        exact = exact_function(x.astype(np.longdouble))
        rounded = exact.astype(np.float64)
    result = run(name, target, x)
    same = (result == rounded) | (np.isnan(result) & np.isnan(rounded))
    assert np.isfinite(rounded[~same]).all(), (x[~same], result[~same], rounded[~same])
    unit = np.maximum(np.spacing(np.abs(rounded[~same])), 5e-324)
    error = np.abs(result[~same] - exact[~same]) / unit
    assert error.size == 0 or error.max() <= BOUNDS[name]


def test_erf() -> None:
    x = arguments()
    exact = np.array([math.erf(value) for value in x])
    np.testing.assert_array_max_ulp(run("erf", instruction_sets()[0], x)[:8], exact[:8], 1)
    np.testing.assert_allclose(run("erf", instruction_sets()[0], x), exact, rtol=2.3e-16)
