"""Long sums are about as accurate as NumPy's pairwise ones, however they are scheduled."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from codegen.build import build
from codegen.kernel import Kernel
from sketch.dag.dag import ComputeDAG
from sketch.lang import reducers
from sketch.lang.dtypes import numpy_dtype
from sketch.lang.tensor import compute, placeholder, reduce_axis
from sketch.lower import lower
from sketch.operators import reduction
from sketch.operators.normalization import normalize
from sketch.population.population import mutate, sample
from sketch.rules.generate import generate
from sketch.schedule.sketch import Sketch
from sketch.target.target import Target
from tests.support.compiled import packed_inputs, run_compiled
from tests.support.cpu_targets import runnable
from tests.support.examples import examples
from tests.support.guard_pages import run_guarded

Array = NDArray[np.float64]
TARGETS = [t.with_threads(n) for t in runnable() for n in (1, 2)]

# None of these cancels: what is lost is lost for good.
VALUES: Mapping[str, Callable[[np.random.Generator, tuple[int, ...]], Array]] = {
    "0..1": lambda rng, shape: rng.random(shape),
    "100..101": lambda rng, shape: 100 + rng.random(shape),
    "constant": lambda rng, shape: np.full(shape, 1 + rng.random()),
    "1.1": lambda rng, shape: np.full(shape, 1.1),
    "1e3 and noise": lambda rng, shape: 1e3 + 0.1 * rng.standard_normal(shape),
    "1e4 and noise": lambda rng, shape: 1e4 + 0.1 * rng.standard_normal(shape),
}


def layouts(length: int) -> Mapping[str, tuple[tuple[int, ...], tuple[int, ...]]]:
    """Shapes, and the axes over which ``length`` elements or a few less are added."""
    root = int(length**0.5)
    return {
        "all": ((length,), (0,)),
        "rows": ((3, length), (1,)),
        "columns": ((length, 5), (0,)),
        "vectors of columns": ((length, 40), (0,)),
        "planes": ((2, root, root), (1, 2)),
        "outer and inner": ((root, 3, root), (0, 2)),
        "pixels": ((root, root, 16), (0, 1)),
    }


def pairwise(values: NDArray[np.float32], axes: tuple[int, ...]) -> NDArray[np.float32]:
    """NumPy's sums of contiguous elements: those that it adds in pairs."""
    kept = [d for d in range(values.ndim) if d not in axes]
    rows = values.transpose(*kept, *axes).reshape([values.shape[d] for d in kept] + [-1])
    return np.asarray(np.sum(np.ascontiguousarray(rows), axis=-1))


def check_sum(
    shape: tuple[int, ...], axes: tuple[int, ...], values: str, target: Target, seed: int
) -> None:
    """One random row of one sketch: within 4 of NumPy's errors (one rounding at least)."""
    rng = np.random.default_rng(seed)
    dag = ComputeDAG([reduction.sum(placeholder(shape, name="X"), axes, name="Y")])
    sketches = generate(dag, target)
    sketch = sketches[seed % len(sketches)]
    row = mutate(sample(sketch, 1, rng), rng).row(0)
    data = VALUES[values](rng, shape).astype("f4")
    exact = np.sum(data, axis=axes, dtype="f8").reshape(-1)
    got = run_compiled(sketch, row, {"X": data}, target)["Y"].reshape(-1)

    def error(sums: NDArray[np.float32]) -> float:
        return float(np.max(np.abs(sums.reshape(-1) - exact) / exact))

    numpy = max(error(pairwise(data, axes)), 2.0**-23)
    assert error(got) <= 4 * numpy, f"{sketch} with {row}: {error(got)}, NumPy {numpy}"


@examples(50)
@given(
    length=st.sampled_from([256, 300, 1000, 4096, 12_289, 65_536]),
    layout=st.sampled_from(sorted(layouts(256))),
    values=st.sampled_from(sorted(VALUES)),
    target=st.integers(0, len(TARGETS) - 1),
    seed=st.integers(0, 2**32),
)
def test_any_layout_any_schedule(
    length: int, layout: str, values: str, target: int, seed: int
) -> None:
    shape, axes = layouts(length)[layout]
    check_sum(shape, axes, values, TARGETS[target], seed)


@pytest.mark.parametrize("values", ["1.1", "100..101"])
@pytest.mark.parametrize("threads", [1, 2])
def test_a_million_terms(threads: int, values: str) -> None:
    check_sum((1 << 20,), (0,), values, TARGETS[0].with_threads(threads), threads)


@pytest.mark.slow
@pytest.mark.parametrize("values", sorted(VALUES))
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("length", [1 << 22, 1 << 24])
def test_millions_of_terms(length: int, threads: int, values: str) -> None:
    for shape, axes in (((length,), (0,)), ((1 << 11, length >> 11), (0, 1))):
        check_sum(shape, axes, values, TARGETS[0].with_threads(threads), threads)


@examples(20)
@given(
    dtype=st.sampled_from(["float16", "bfloat16", "float32", "float64"]),
    values=st.sampled_from(["0..1", "constant"]),
    target=st.integers(0, len(TARGETS) - 1),
    seed=st.integers(0, 2**32),
)
def test_products_of_any_float(dtype: str, values: str, target: int, seed: int) -> None:
    rng, length = np.random.default_rng(seed), 40_000
    x, y = (placeholder((length,), dtype=dtype, name=name) for name in "XY")
    k = reduce_axis(length, "k")
    dag = ComputeDAG([compute((), lambda: reducers.sum(x[k] * y[k], k), name="Z")])
    sketches = generate(dag, TARGETS[target])
    sketch = sketches[seed % len(sketches)]
    row = mutate(sample(sketch, 1, rng), rng).row(0)
    inputs = {n: VALUES[values](rng, (length,)).astype(numpy_dtype(dtype)) for n in "XY"}
    products = inputs["X"].astype("f8") * inputs["Y"].astype("f8")
    got = float(run_compiled(sketch, row, inputs, TARGETS[target])["Z"].reshape(-1)[0])
    rounding = 2.0**-52 if dtype == "float64" else 2.0**-23
    exact = float(np.sum(products.astype("longdouble")))
    assert abs(got - exact) / exact <= 8 * rounding


@cache
def normalisation(shape: tuple[int, int], number: int) -> tuple[Sketch, Mapping[str, int], Kernel]:
    """A random schedule for one of the targets, compiled once for all data."""
    dag = ComputeDAG([normalize(placeholder(shape, name="X"), (1,), 1e-5, name="Y")])
    rng, sketches = np.random.default_rng(number), generate(dag, TARGETS[number])
    sketch = sketches[number % len(sketches)]
    row = mutate(sample(sketch, 1, rng), rng).row(0)
    return sketch, row, build(lower(sketch, row), TARGETS[number])


NUMBERS = range(len(TARGETS))


@pytest.mark.parametrize(("mean", "deviation"), [(0.0, 1.0), (1e3, 1.0), (1e3, 0.1), (1e4, 0.1)])
@pytest.mark.parametrize(
    ("shape", "numbers"),
    [
        ((5, 768), NUMBERS[::3]),
        ((2, 5000), NUMBERS[1::3]),
        *(pytest.param(s, NUMBERS, marks=pytest.mark.slow) for s in ((5, 768), (2, 5000))),
    ],
    ids=str,
)
def test_normalisation_of_offset_data(
    shape: tuple[int, int], numbers: range, mean: float, deviation: float
) -> None:
    """What is lost is the mean's last digits: a float32 has no more."""
    for number in numbers:
        sketch, row, kernel = normalisation(shape, number)
        rng = np.random.default_rng(number)
        data = (mean + deviation * rng.standard_normal(shape)).astype("f4")
        wide = data.astype("f8")
        variance = wide.var(axis=1, keepdims=True)
        exact = (wide - wide.mean(axis=1, keepdims=True)) / np.sqrt(variance + 1e-5)
        inputs = packed_inputs(sketch, row, {"X": data})
        got = run_guarded(kernel, inputs)["Y"].reshape(shape)
        last_digit = float(np.spacing(np.float32(mean))) / deviation
        assert np.abs(got - exact).max() <= 3 * last_digit + 2e-6


@pytest.mark.parametrize(
    "length", [256, 1000, 4096, 65_537, pytest.param(1 << 20, marks=pytest.mark.slow)]
)
def test_means_of_offset_rows(length: int) -> None:
    """A float32 mean is off by 0.29 of its last digit (root mean square) as it is, and a sum of
    pairs of pairs by 0.4: what normalised rows are shifted by.
    """
    mean, rows = 1e3, max(1, min(64, 100_000 // length))
    sketch, row, kernel = normalisation((rows, length), 0)
    shifts: list[Array] = []
    for seed in range(min(40 // rows + 1, (1 << 24) // length)):
        rng = np.random.default_rng(seed)
        data = (mean + rng.standard_normal((rows, length))).astype("f4")
        wide = data.astype("f8")
        deviation = wide.std(axis=1, keepdims=True)
        exact = (wide - wide.mean(axis=1, keepdims=True)) / deviation
        got = run_guarded(kernel, packed_inputs(sketch, row, {"X": data}))["Y"]
        shifts.append(np.mean((got.reshape(exact.shape) - exact) * deviation, axis=1))
    error = float(np.sqrt(np.mean(np.concatenate(shifts) ** 2)))
    assert error <= 0.7 * float(np.spacing(np.float32(mean)))
