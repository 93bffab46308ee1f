"""Conversions to 16-bit floats round once, whatever they come from: compiled and in the oracle."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray

from codegen.cuda.scalars import literal as cuda_literal
from codegen.llvm.values import rounded_bits
from sketch.dag.dag import ComputeDAG
from sketch.lang.dtypes import numpy_dtype
from sketch.lang.expr import cast
from sketch.lang.scalar_functions import convert
from sketch.lang.storage_floats import storage_floats
from sketch.lang.tensor import compute, placeholder
from sketch.target.target import Target
from tests.support.compiled import random_run
from tests.support.cpu_targets import label, runnable

TARGETS = runnable()
SOURCES = ("float64", "float32", "int64", "int32", "int16")
SHORT = ("float16", "bfloat16")
COUNT = 3000


def near_ties(source: str, target: str, seed: int) -> NDArray[np.generic]:
    """Numbers at and just beside the middle of two neighbours of the 16-bit type."""
    rng = np.random.default_rng(seed)
    bits = rng.integers(0, 1 << 15, COUNT // 3).astype(np.uint16)
    with np.errstate(all="ignore"):
        low = bits.view(numpy_dtype(target)).astype(np.float64)
        high = (bits + np.uint16(1)).view(numpy_dtype(target)).astype(np.float64)
        middle = (low + high) / 2
    middle = middle[np.isfinite(middle)] * rng.choice([-1.0, 1.0], np.isfinite(middle).sum())
    if source.startswith("float"):
        with np.errstate(all="ignore"):
            ties = middle.astype(source)
            limit = np.asarray(np.inf, source)
            values = [ties, np.nextafter(ties, limit), np.nextafter(ties, -limit)]
            values.append(np.asarray([np.inf, -np.inf, 0.0, -0.0, 1e300, 1e-300]).astype(source))
        return np.concatenate(values)
    info = np.iinfo(source)
    ties = middle[np.abs(middle) < info.max / 2].astype(np.int64)
    scaled = ties << rng.integers(0, 40, ties.size) if source == "int64" else ties
    spread = np.concatenate([scaled, scaled + 1, scaled - 1, [info.max, info.min, 0]])
    return np.clip(spread, info.min, info.max).astype(source)


def nearest(value: int | float, dtype: str) -> float:
    """The nearest 16-bit float, by exact arithmetic."""
    if isinstance(value, float) and not np.isfinite(value):
        return value
    kind, exact = numpy_dtype(dtype), Fraction(value)
    with np.errstate(over="ignore"):
        start = np.asarray(float(value)).astype(np.float32).astype(kind)
    bits = int(start.view(np.uint16))
    around = [
        np.uint16(n).view(kind)
        for n in (bits - 1, bits, bits + 1)
        if 0 <= n < 1 << 16 and (n ^ bits) < 1 << 15
    ]

    def distance(candidate: np.generic) -> tuple[Fraction, int]:
        number = float(candidate)
        if not np.isfinite(number):  # as if the exponent went on
            digits = {"float16": 2.0**16, "bfloat16": 2.0**128}[dtype]
            number = float(np.copysign(digits, number))
        return abs(Fraction(number) - exact), int(candidate.view(np.uint16)) & 1

    return float(min((c for c in around if not np.isnan(float(c))), key=distance))


@pytest.mark.parametrize("target", SHORT)
@pytest.mark.parametrize("source", SOURCES)
def test_definition_rounds_once(source: str, target: str) -> None:
    values = near_ties(source, target, 1)
    expected = np.asarray([nearest(v.item(), target) for v in values])
    np.testing.assert_array_equal(storage_floats(values, target).astype("f8"), expected)
    held = values.astype("f8") if source == "float32" else values
    np.testing.assert_array_equal(convert(held, source, target), expected)


@pytest.mark.parametrize("machine", TARGETS, ids=label)
@pytest.mark.parametrize("target", SHORT)
@pytest.mark.parametrize("source", SOURCES)
def test_kernels_round_once(source: str, target: str, machine: Target) -> None:
    values = near_ties(source, target, 2)
    data = placeholder(values.shape, source, "data")
    dag = ComputeDAG([compute(values.shape, lambda i: cast(data[i], target), name="short")])
    for choice in range(2):
        got = random_run(dag, {"data": values}, machine, choice, choice)["short"]
        np.testing.assert_array_equal(
            got.view(np.uint16), storage_floats(values, target).view(np.uint16)
        )


def test_doubles_round_to_halves_as_in_numpy() -> None:
    values = near_ties("float64", "float16", 3)
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(storage_floats(values, "float16"), values.astype("f2"))


@pytest.mark.parametrize("source", ["int64", "int32"])
def test_integers_to_single_round_once(source: str) -> None:
    rng = np.random.default_rng(4)
    values = rng.integers(np.iinfo(source).min, np.iinfo(source).max, 2000, source)
    data = placeholder(values.shape, source, "data")
    dag = ComputeDAG([compute(values.shape, lambda i: cast(data[i], "float32"), name="single")])
    for machine in TARGETS:
        got = random_run(dag, {"data": values}, machine, 0, 0)["single"]
        np.testing.assert_array_equal(got, values.astype("f4"))


@pytest.mark.parametrize("dtype", SHORT)
def test_literals_round_once(dtype: str) -> None:
    for value in near_ties("float64", dtype, 5)[:300].tolist():
        bits = int(storage_floats(value, dtype).view(np.uint16))
        assert rounded_bits(value, dtype) & 0xFFFF == bits
        assert cuda_literal(value, dtype) == f"(unsigned short){bits}"
