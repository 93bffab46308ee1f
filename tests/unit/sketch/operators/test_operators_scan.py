"""Running sums and products against NumPy."""

from itertools import product

import numpy as np
import pytest

from codegen.host import host_target
from sketch.dag.dag import ComputeDAG
from sketch.lang.dtypes import numpy_dtype
from sketch.lang.tensor import placeholder
from sketch.operators.scan import cumulative
from sketch.oracle.interpret import interpret
from sketch.population.population import sample
from sketch.rules.generate import generate
from tests.support.compiled import run_compiled

# Without blocks, in whole blocks, with a shorter last one, in blocks of blocks.
LENGTHS = (1, 7, 96, 97, 128, 130, 4000)


def running(data, function, axis, exclusive, reverse):
    accumulate = np.add.accumulate if function == "sum" else np.multiply.accumulate
    moved = np.moveaxis(np.flip(data, axis) if reverse else data, axis, 0)
    found = accumulate(moved.astype(np.float64), axis=0)
    if exclusive:
        neutral = np.full_like(found[:1], 0 if function == "sum" else 1)
        found = np.concatenate([neutral, found[:-1]])
    found = np.moveaxis(found, 0, axis)
    return np.flip(found, axis) if reverse else found


def scanned(data, *arguments):
    result = cumulative(placeholder(data.shape, str(data.dtype), "data"), *arguments)
    (found,) = interpret(ComputeDAG([result]), {"data": data}).values()
    return found


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize(("exclusive", "reverse"), list(product((False, True), repeat=2)))
def test_scans_of_any_length(length, exclusive, reverse, rng):
    numbers = rng.standard_normal((2, length)).astype(np.float32)
    found = scanned(numbers, "sum", 1, exclusive, reverse)
    wanted = running(numbers, "sum", 1, exclusive, reverse)
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-4)
    factors = rng.uniform(0.9, 1.1, (length, 3)).astype(np.float32)
    found = scanned(factors, "prod", 0, exclusive, reverse)
    wanted = running(factors, "prod", 0, exclusive, reverse)
    np.testing.assert_allclose(found, wanted, rtol=1e-3)


def test_integers_are_exact(rng):
    numbers = rng.integers(-(2**40), 2**40, (2, 500, 3))
    assert np.array_equal(scanned(numbers, "sum", 1), np.cumsum(numbers, 1))


def test_what_comes_later_does_not_count(rng):
    numbers = np.ones((1, 200), np.float32)
    numbers[0, 150] = np.nan
    found = scanned(numbers, "sum", 1)
    assert np.array_equal(found[0, :150], np.arange(1, 151)) and np.isnan(found[0, 150:]).all()


def test_half_floats_are_added_as_single_ones():
    numbers = np.full((1, 4000), 1.0, np.float16)  # 2048 + 1 is no half float
    assert cumulative(placeholder(numbers.shape, "float16"), "sum", 1).dtype == "float16"
    found = scanned(numbers, "sum", 1)[0]
    np.testing.assert_allclose(found, np.arange(1, 4001), rtol=1e-3)


def test_a_long_scan_takes_few_additions():
    length = 100_000
    dag = ComputeDAG([cumulative(placeholder((length,), name="data"), "sum", 0)])
    assert dag.flops < 100 * length


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_products_of_blocks_do_not_overflow_where_running_ones_do_not(dtype):
    """A block's product is 1e48 or 1e-48; infinity times 0 would even be no number."""
    small, large = np.full(16, 1e-3), np.full(16, 1e3)
    rows = [np.r_[small[:12], np.ones(4), large], np.r_[large[:12], np.ones(4), small]]
    numbers = np.array(rows).astype(numpy_dtype(dtype))
    dag = ComputeDAG([cumulative(placeholder(numbers.shape, dtype, "data"), "prod", 1)])
    target = host_target(1)
    sketch = generate(dag, target)[0]
    row = sample(sketch, 1, np.random.default_rng(0)).row(0)
    (found,) = run_compiled(sketch, row, {"data": numbers}, target).values()
    wanted = np.multiply.accumulate(numbers.astype(np.float64), 1)
    tolerance = 1e-5 if dtype == "float32" else 2.0**-7
    np.testing.assert_allclose(found.reshape(2, -1).astype(np.float64), wanted, rtol=tolerance)
