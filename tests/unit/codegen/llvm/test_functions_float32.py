"""Elementary functions against float64, with their stated error bounds."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import numpy as np
import pytest

from codegen.llvm.features import features_of
from codegen.llvm.functions.of_float32 import Float32Lanes
from codegen.llvm.functions.of_tables import TableLanes
from sketch.target.target import Target
from tests.support import elementary
from tests.support.cpu_targets import by_kind, instruction_sets, label

SPECIAL = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    math.inf,
    -math.inf,
    math.nan,
    1e-45,
    -1e-45,
    1e-38,
    1.1754944e-38,
    3.4e38,
    -3.4e38,
    88.7,
    88.8,
    -87.3,
    -103.9,
    -104.5,
    0.625,
    0.9277,
]
BOUNDS = {
    "exp": 2.0,
    "log": 2.0,
    "tanh": 4.0,
    "erf": 4.0,
    "sigmoid": 4.0,
    "sqrt": 0.5001,
    "rsqrt": 1.51,
    "floor": 0.0,
    "ceil": 0.0,
    "round": 0.0,
    "trunc": 0.0,
    "expm1": 2.5,
    "log1p": 4.0,
    "sin": 1.0,
    "cos": 1.0,
    "tan": 1.0,
    "asin": 4.0,
    "acos": 4.0,
    "atan": 2.0,
    "sinh": 1.0,
    "cosh": 1.0,
    "asinh": 1.0,
    "acosh": 1.0,
    "atanh": 1.0,
}
ODD = ("tanh", "erf", "expm1", "log1p", "sin", "tan", "asin", "atan", "sinh", "asinh", "atanh")
EXACT: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "exp": np.exp,
    "log": np.log,
    "tanh": np.tanh,
    "erf": np.vectorize(math.erf),
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(np.abs(x)) * np.where(x < 0, np.nan, 1),
    "floor": np.floor,
    "ceil": np.ceil,
    "round": np.rint,
    "trunc": np.trunc,
    "expm1": np.expm1,
    "log1p": np.log1p,
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
}


def run(name: str, target: Target, width: int, *operands: np.ndarray) -> np.ndarray:
    rounding = "sse4.1" in target.features
    wide = features_of(target, flushed=False).wide
    lanes = TableLanes if wide else Float32Lanes
    return elementary.run(partial(lanes, rounding=rounding), name, target, width, *operands)


def ulps(result: np.ndarray, exact: np.ndarray) -> float:
    """Largest error in units in the last place of the exact result; NaN and inf must agree."""
    with np.errstate(over="ignore"):
        rounded = exact.astype(np.float32)
    same = (result == rounded) | (np.isnan(result) & np.isnan(rounded))
    finite = np.isfinite(rounded) & np.isfinite(result)
    # within rounding of the largest float32, infinity and the largest number may be swapped
    assert np.all(same | finite), (result[~(same | finite)], rounded[~(same | finite)])
    if not np.any(~same):
        return 0.0
    unit = np.maximum(np.spacing(np.abs(rounded[~same])).astype(np.float64), 2.0**-149)
    return float(np.max(np.abs(result[~same].astype(np.float64) - exact[~same]) / unit))


def operand(name: str, rng: np.random.Generator) -> np.ndarray:
    wide = rng.standard_normal(2048) * np.exp2(rng.uniform(-140, 127, 2048))
    near = rng.uniform(-12, 12, 2048 - len(SPECIAL))
    with np.errstate(over="ignore"):
        values = np.concatenate([SPECIAL, wide, near]).astype(np.float32)
    if name in ("asin", "acos", "atanh"):
        values[-1024:] /= 12
    return np.abs(values) if name in ("log",) else values


@pytest.mark.parametrize("target", by_kind(instruction_sets()), ids=label)
@pytest.mark.parametrize("name", sorted(BOUNDS))
def test_error_bound(name: str, target: Target, rng: np.random.Generator) -> None:
    x = operand(name, rng)
    with np.errstate(all="ignore"):
        exact = EXACT[name](x.astype(np.float64))
    if name == "rsqrt":
        exact = np.where(x == 0, np.copysign(np.inf, x), exact)
    assert ulps(run(name, target, target.lanes(4), x), exact) <= BOUNDS[name]


@pytest.mark.parametrize("name", sorted(BOUNDS))
def test_scalars_equal_vectors(name: str, rng: np.random.Generator) -> None:
    target, x = instruction_sets()[0], operand(name, rng)
    scalars = run(name, target, 0, x)
    for width in (4, 8, 16):
        np.testing.assert_array_equal(scalars, run(name, target, width, x), f"{width} lanes")


@pytest.mark.parametrize("target", by_kind(instruction_sets()), ids=label)
@pytest.mark.parametrize("name", ODD)
def test_odd_functions_keep_the_sign_of_zero(name: str, target: Target) -> None:
    x = np.resize(np.array([0.0, -0.0], np.float32), 4096)
    for width in (0, 4, target.lanes(4)):
        signs = np.signbit(run(name, target, width, x))
        np.testing.assert_array_equal(signs, np.signbit(x), f"{width} lanes")


@pytest.mark.parametrize("target", by_kind(instruction_sets()), ids=label)
@pytest.mark.parametrize("name", ["tanh", "erf"])
def test_functions_that_go_to_one_stay_within_it(name: str, target: Target) -> None:
    x = np.linspace(2, 10, 4096, dtype=np.float32)
    for values in (x, -x):
        assert np.abs(run(name, target, target.lanes(4), values)).max() == 1.0


@pytest.mark.parametrize("target", by_kind(instruction_sets()), ids=label)
@pytest.mark.parametrize("name", ["sin", "cos", "tan"])
def test_results_of_angles_are_rounded_once(
    name: str, target: Target, rng: np.random.Generator
) -> None:
    x = rng.uniform(-1.64e6, 1.64e6, 4096).astype(np.float32)
    x[:2048] /= 1e5
    exact = EXACT[name](x.astype(np.float64))
    assert ulps(run(name, target, target.lanes(4), x), exact) <= 0.7


@pytest.mark.parametrize("name", ["sin", "cos", "tan"])
def test_a_far_angle_changes_no_other_lane(name: str) -> None:
    x = np.resize(np.array([0.3, -4.0, 1.5e6, -7.7], np.float32), 4096)
    alone = run(name, instruction_sets()[0], 16, x)
    x[::16] = 1e30
    x[5::16] = np.inf
    mixed = run(name, instruction_sets()[0], 16, x)
    changed = [*range(0, 4096, 16), *range(5, 4096, 16)]
    np.testing.assert_array_equal(np.delete(mixed, changed), np.delete(alone, changed))
    assert np.isnan(mixed[5])


def test_log_of_negative_numbers_is_nan() -> None:
    x = np.full(4096, -1.0, np.float32)
    assert np.isnan(run("log", instruction_sets()[0], 16, x)).all()


@pytest.mark.parametrize("target", by_kind(instruction_sets()), ids=label)
def test_pow(target: Target, rng: np.random.Generator) -> None:
    x = np.exp2(rng.uniform(-30, 30, 4096)).astype(np.float32)
    y = rng.uniform(-3, 3, 4096).astype(np.float32)
    x[:1024] *= -1
    y[:1024] = np.round(y[:1024])
    pairs = [
        (a, b)
        for a in SPECIAL
        for b in (0.0, 1.0, -1.0, 2.0, 3.0, 0.5, -0.5, np.inf, -np.inf, np.nan)
    ]
    x[1024 : 1024 + len(pairs)] = [a for a, _ in pairs]
    y[1024 : 1024 + len(pairs)] = [b for _, b in pairs]
    with np.errstate(all="ignore"):
        exact = np.power(x.astype(np.float64), y.astype(np.float64))
    assert ulps(run("pow", target, target.lanes(4), x, y), exact) <= 2.0


def _pairs(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Quotients of all sizes, many of them next to integers; and special numbers."""
    y = np.exp2(rng.uniform(-20, 20, 4096)).astype(np.float32)
    x = (y * np.exp2(rng.uniform(-4, 40, 4096))).astype(np.float32)
    whole = np.round(np.exp2(rng.uniform(0, 29, 2048)))
    x[:2048] = (y[:2048] * whole).astype(np.float32)
    x[512:1024] = np.nextafter(x[512:1024], np.float32(0))
    x[1024:1536] = np.nextafter(x[1024:1536], np.float32(np.inf))
    special = [(a, b) for a in SPECIAL for b in SPECIAL]
    x[3000 : 3000 + len(special)] = [a for a, _ in special]
    y[3000 : 3000 + len(special)] = [b for _, b in special]
    signs = rng.choice([-1, 1], (2, 4096)).astype(np.float32)
    return x * signs[0], y * signs[1]


@pytest.mark.parametrize("target", by_kind(instruction_sets()), ids=label)
def test_remainders_are_exact(target: Target, rng: np.random.Generator) -> None:
    for _ in range(20):
        x, y = _pairs(rng)
        elementary.check_remainders(partial(_remainders, target, x, y), x, y, target.lanes(4))


def _remainders(target: Target, x: np.ndarray, y: np.ndarray, width: int) -> np.ndarray:
    return run("fmod", target, width, x, y)
