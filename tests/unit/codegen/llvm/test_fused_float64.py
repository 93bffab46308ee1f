"""Functions of float64 on processors with fused multiply-adds, against many digits and against the
C library.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from codegen.llvm.features import features_of
from codegen.llvm.functions.of_float64 import Float64Lanes, FusedFloat64Lanes
from codegen.llvm.functions.of_tables import WideFloat64Lanes
from sketch.target.target import Target
from tests.support import elementary
from tests.support.cpu_targets import in_turns, instruction_sets, label
from tests.support.examples import examples

TARGETS = [target for target in instruction_sets() if features_of(target, flushed=False).fused]
pytestmark = pytest.mark.skipif(not TARGETS, reason="no fused multiply-adds")

BOUNDS = {
    "exp": 1.0, "expm1": 1.2, "log": 1.0, "log1p": 1.0, "sigmoid": 1.5, "tanh": 1.0, "erf": 1.3,
    "sin": 1.0, "cos": 1.0, "tan": 1.0, "asin": 1.3, "acos": 1.3, "atan": 1.6,
    "sinh": 1.8, "cosh": 1.5, "asinh": 1.5, "acosh": 1.8, "atanh": 1.5,
}  # fmt: skip
EXACT: dict[str, Callable[[Any], Any]] = {
    name: getattr(mpmath, name) for name in BOUNDS if name != "sigmoid"
} | {"sigmoid": lambda x: 1 / (1 + mpmath.exp(-x))}
# Where results are numbers, neither infinite nor all the same.
RANGES = {
    "exp": (-746.0, 709.7), "expm1": (-40.0, 709.7), "sigmoid": (-745.0, 40.0),
    "log": (0.0, 1e308), "log1p": (-1.0, 1e308), "tanh": (-20.0, 20.0), "erf": (-6.0, 6.0),
    "sin": (-1.6e9, 1.6e9), "cos": (-1.6e9, 1.6e9), "tan": (-1.6e9, 1.6e9),
    "asin": (-1.0, 1.0), "acos": (-1.0, 1.0), "atan": (-1e308, 1e308),
    "sinh": (-710.4, 710.4), "cosh": (-710.4, 710.4),
    "asinh": (-1e308, 1e308), "acosh": (1.0, 1e308), "atanh": (-1.0, 1.0),
}  # fmt: skip
ODD = {"expm1", "log1p", "tanh", "erf", "sin", "tan", "asin", "atan", "sinh", "asinh", "atanh"}
EDGES = [
    0.0, 5e-324, 1e-310, 2.2250738585072009e-308, 2.0**-1022, 2.0**-54, 2.0**-53, 2.0**-28, 1e-8,
    0.25, 0.34657359, 0.5, math.sqrt(0.5), 0.75, 1 - 2.0**-53, 1.0, 1 + 2.0**-52, math.sqrt(2), 2.0,
    3.0, 6.0, 20.0, 40.0, 709.0, 709.78271289338397, 709.78271289338409, 710.0, 710.4758600739439,
    710.4758600739440, 745.13321910194110, 745.13321910194122, 746.0, 1e5, 2.0**53, 1.6e9, 1.69e9,
    2.0**500, 1e200, 1.7976931348623157e308, math.inf, math.nan,
]  # fmt: skip
SPECIAL = np.array([*EDGES, *(-edge for edge in EDGES)])


def run(name: str, target: Target, width: int, *operands: np.ndarray) -> np.ndarray:
    """The functions of so many operands, repeated."""
    values = [np.resize(operand, elementary.COUNT) for operand in operands]
    wide = features_of(target, flushed=False).wide
    lanes = WideFloat64Lanes if wide else FusedFloat64Lanes
    return elementary.run(lanes, name, target, width, *values)


def of_library(name: str, *operands: np.ndarray) -> np.ndarray:
    values = [np.resize(operand, elementary.COUNT) for operand in operands]
    return elementary.run(Float64Lanes, name, TARGETS[0], 0, *values)


def arguments(name: str, rng: np.random.Generator) -> np.ndarray:
    """Numbers of all sizes, near 0, near 1, and evenly spread, that are in the range."""
    low, high = RANGES[name]
    sizes = np.exp2(rng.uniform(-60, 60, 400)) * rng.choice([-1, 1], 400)
    bits = rng.integers(0, 2**64, 200, dtype=np.uint64).view(np.float64)
    near_one = (1 + np.exp2(rng.uniform(-52, -2, 200)) * rng.choice([-1, 1], 200)) * [[1], [-1]]
    even = rng.uniform(max(low, -800.0), min(high, 800.0), 400)
    few = rng.uniform(max(low, -3.0), min(high, 3.0), 800)
    values = np.concatenate([sizes, bits, near_one.ravel(), even, few])
    return values[(values > low) & (values < high)]


def ulps(result: np.ndarray, exact: list[Any]) -> np.ndarray:
    """Errors in units in the last place; denormal results have the least unit."""
    errors = []
    for value, true in zip(result.tolist(), exact, strict=True):
        unit = max(math.ulp(float(true)), 5e-324)
        errors.append(float(abs(mpmath.mpf(value) - true) / unit))
    return np.array(errors)


def exactly(function: Callable[..., Any], *operands: np.ndarray) -> list[Any]:
    with mpmath.workprec(140):
        return [function(*map(mpmath.mpf, each)) for each in zip(*map(list, operands), strict=True)]


@pytest.mark.parametrize(("name", "target"), in_turns(sorted(BOUNDS), TARGETS))
def test_error_bound(name: str, target: Target, rng: np.random.Generator) -> None:
    x = arguments(name, rng)
    errors = ulps(run(name, target, target.lanes(8), x)[: len(x)], exactly(EXACT[name], x))
    worst = errors.argmax()
    assert errors[worst] <= BOUNDS[name], x[worst]


@pytest.mark.parametrize("name", sorted(BOUNDS))
def test_all_widths_give_the_same_bits(name: str, rng: np.random.Generator) -> None:
    x = np.concatenate([SPECIAL, arguments(name, rng)])
    scalars = run(name, TARGETS[0], 0, x)
    for target in TARGETS:
        for width in {2, 4, target.lanes(8), 2 * target.lanes(8)}:
            np.testing.assert_array_equal(scalars, run(name, target, width, x), f"{width} lanes")


def assert_like_library(result: np.ndarray, exact: np.ndarray, units: float) -> None:
    """NaN, infinities and signs, of zeros too, agree; numbers are next to each other."""
    np.testing.assert_array_equal(np.isnan(result), np.isnan(exact))
    numbers = ~np.isnan(exact)
    result, exact = result[numbers], exact[numbers]
    np.testing.assert_array_equal(np.signbit(result), np.signbit(exact))
    np.testing.assert_array_equal(np.isinf(result), np.isinf(exact))
    finite = np.isfinite(exact)
    with np.errstate(over="ignore"):  # of the largest number
        unit = np.spacing(np.abs(exact[finite]))
    assert (np.abs(result[finite] - exact[finite]) <= units * unit).all()


@pytest.mark.parametrize("name", sorted(BOUNDS))
def test_special_numbers(name: str) -> None:
    exact = of_library(name, SPECIAL)
    for target in TARGETS:
        assert_like_library(run(name, target, target.lanes(8), SPECIAL), exact, 2)


@pytest.mark.parametrize("name", sorted(BOUNDS))
def test_nan_whatever_its_bits(name: str, rng: np.random.Generator) -> None:
    fractions = rng.integers(1, 2**52, elementary.COUNT) >> rng.integers(0, 52, elementary.COUNT)
    quiet = np.array([0x7FF8 << 48, -(8 << 48)])[:, None]  # with either sign
    x = (np.resize(quiet, elementary.COUNT) | fractions).view(np.float64)
    assert np.isnan(x).all()
    for target in TARGETS:
        assert np.isnan(run(name, target, target.lanes(8), x)).all()


@pytest.mark.parametrize("name", sorted(ODD))
def test_small_numbers_and_zeros_keep_their_signs(name: str) -> None:
    x = np.array([0.0, -0.0, 5e-324, -5e-324, 1e-310, -1e-310, 2.0**-1022, 1e-300, -1e-300])
    scale = 2 / math.sqrt(math.pi) if name == "erf" else 1.0
    result = run(name, TARGETS[0], 8, x)[: len(x)]
    np.testing.assert_array_max_ulp(result, x * scale, 1)
    np.testing.assert_array_equal(np.signbit(result), np.signbit(x))


@given(st.lists(st.floats(), min_size=64, max_size=64), st.sampled_from(sorted(BOUNDS)))
@examples(40)
def test_any_numbers(values: list[float], name: str) -> None:
    x = np.array(values)
    assert_like_library(run(name, TARGETS[-1], TARGETS[-1].lanes(8), x), of_library(name, x), 3)


@given(st.lists(st.tuples(st.floats(), st.floats()), min_size=64, max_size=64))
@examples(40)
def test_any_two_numbers(pairs: list[tuple[float, float]]) -> None:
    x, y = np.array(pairs).T.copy()
    for name, units in (("pow", 2), ("fmod", 0)):
        result = run(name, TARGETS[-1], TARGETS[-1].lanes(8), x, y)
        assert_like_library(result, of_library(name, x, y), units)


def test_parts_have_no_step_of_one_name() -> None:
    parts = [part for part in FusedFloat64Lanes.__mro__ if part.__name__.startswith("Double")]
    steps = [name for part in parts for name in vars(part) if not name.startswith("__")]
    assert len(steps) == len(set(steps))


@pytest.mark.parametrize("name", ["sin", "cos", "tan"])
def test_angles_next_to_quarter_turns(name: str, rng: np.random.Generator) -> None:
    with mpmath.workprec(140):
        counts = [*range(-50, 50), *rng.integers(-(2**30), 2**30, 500).tolist()]
        x = np.array([float(mpmath.pi / 2 * count) for count in counts])
    # those of the continued fraction of pi are the nearest
    x = np.concatenate([x, np.nextafter(x, np.inf), [355 / 2, 104348 / 2, 312689.0 * 3]])
    errors = ulps(run(name, TARGETS[0], 8, x)[: len(x)], exactly(EXACT[name], x))
    assert errors.max() <= BOUNDS[name]


@pytest.mark.parametrize(
    ("name", "far"),
    [("sin", -1e30), ("cos", 1e30), ("tan", -3e9), ("sinh", -710.2), ("cosh", 710.2),
     ("asinh", -1e200), ("acosh", 1e200)],
)  # fmt: skip
def test_a_far_number_changes_no_other_lane(name: str, far: float) -> None:
    x = np.resize(np.array([1.3, 4.0, 150.0, 7.7]), elementary.COUNT)
    alone = run(name, TARGETS[0], 8, x)
    changed = np.zeros(x.shape, bool)
    changed[::8] = changed[5::24] = True
    x[changed] = far
    mixed = run(name, TARGETS[0], 8, x)
    np.testing.assert_array_equal(mixed[~changed], alone[~changed])
    np.testing.assert_array_equal(mixed[changed], of_library(name, x)[changed])


def test_denormal_exponentials_are_rounded_once() -> None:
    x = np.linspace(-745.2, -715.0, elementary.COUNT)
    errors = ulps(run("exp", TARGETS[0], 8, x), exactly(mpmath.exp, x))
    assert errors.max() <= 0.51


@pytest.mark.parametrize("name", ["tanh", "erf", "sigmoid"])
def test_functions_that_go_to_one_stay_within_it(name: str) -> None:
    x = np.linspace(2, 60, elementary.COUNT)
    result = run(name, TARGETS[0], 8, x)
    assert result.max() == 1.0
    assert np.abs(run(name, TARGETS[0], 8, -x)).max() <= 1.0


def bases_and_exponents(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    x = np.exp2(rng.uniform(-30, 30, 1500))
    y = rng.uniform(-30, 30, 1500)
    x[:400], y[:400] = rng.uniform(0.9, 1.1, 400), rng.uniform(-5000, 5000, 400)
    x[400:500] = 1 + np.exp2(rng.uniform(-52, -40, 100))
    y[400:500] = np.exp2(rng.uniform(30, 48, 100))
    x[500:600], y[500:600] = rng.uniform(0, 2, 100), rng.uniform(-1074, 1000, 100)
    return x, y


@pytest.mark.parametrize("target", TARGETS, ids=label)
def test_powers(target: Target, rng: np.random.Generator) -> None:
    x, y = bases_and_exponents(rng)
    exact = exactly(mpmath.power, x, y)
    normal = np.array([mpmath.mpf(2) ** -1074 < value < 1.7e308 for value in exact])
    result = run("pow", target, target.lanes(8), x, y)[: len(x)]
    kept = [value for value, one in zip(exact, normal, strict=True) if one]
    assert ulps(result[normal], kept).max() <= 0.75
    np.testing.assert_array_equal(result, run("pow", target, 0, x, y)[: len(x)])


def test_powers_that_are_numbers_are_exact(rng: np.random.Generator) -> None:
    pairs = [(b, e) for b in range(-30, 31) for e in range(11) if abs(b) ** e < 2**53]
    pairs += [(float(n) ** 2, 0.5) for n in range(300)] + [(2.0, e) for e in range(-1074, 1024)]
    x, y = (np.array(column, float) for column in zip(*pairs, strict=True))
    np.testing.assert_array_equal(run("pow", TARGETS[0], 8, x, y)[: len(x)], np.power(x, y))


@pytest.mark.parametrize("target", TARGETS, ids=label)
def test_powers_of_special_numbers(target: Target) -> None:
    exponents = [0, 0.5, 1, 2, 3, 2.0**52 + 1, 2.0**53 + 2, 1e-310, 1e300, math.inf, math.nan]
    x = np.repeat(SPECIAL, 2 * len(exponents))
    y = np.resize([*exponents, *(-e for e in exponents)], len(x))
    assert len(x) <= elementary.COUNT
    result = run("pow", target, target.lanes(8), x, y)
    assert_like_library(result, of_library("pow", x, y), 1)


def dividends_and_divisors(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Quotients of all sizes, many of them next to integers; and special numbers."""
    y = np.exp2(rng.uniform(-20, 20, elementary.COUNT))
    x = y * np.exp2(rng.uniform(-4, 70, elementary.COUNT))
    x[:1500] = y[:1500] * np.round(np.exp2(rng.uniform(0, 54, 1500)))
    x[500:1000] = np.nextafter(x[500:1000], 0)
    x[1000:1500] = np.nextafter(x[1000:1500], np.inf)
    special = np.resize(SPECIAL, 1000), np.resize(SPECIAL[:-1], 1000)
    x[1500:2500], y[1500:2500] = special
    bits = rng.integers(0, 2**64, (2, 500), dtype=np.uint64).view(np.float64)
    x[2500:3000], y[2500:3000] = bits
    x[3000:3100], y[3000:3100] = rng.integers(0, 2**40, (2, 100)) * 5e-324
    signs = rng.choice([-1, 1], (2, elementary.COUNT))
    with np.errstate(invalid="ignore"):
        return x * signs[0], y * signs[1]


@pytest.mark.parametrize("target", TARGETS, ids=label)
def test_remainders_are_exact(target: Target, rng: np.random.Generator) -> None:
    for _ in range(5):
        x, y = dividends_and_divisors(rng)
        elementary.check_remainders(partial(_remainders, target, x, y), x, y, target.lanes(8))


def _remainders(target: Target, x: np.ndarray, y: np.ndarray, width: int) -> np.ndarray:
    return run("fmod", target, width, x, y)
