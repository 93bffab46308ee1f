"""Arithmetic of positions that leaves the range of its type wraps around, as NumPy's does."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import autosched as asd
from codegen.cuda.build import emit
from codegen.host import host_target
from sketch.analysis.access import affine_index, index_interval
from sketch.lang.expr import Expr, as_expr
from tests.support.cuda_programs import GPU, feasible_nests

EXTENT = 64
GOLDEN = {"int32": 1_500_000_000, "int64": 6_364_136_223_846_793_005}
X = np.arange(1, EXTENT + 1, dtype=np.float32)


def product(position: Expr, dtype: str) -> Expr:
    return asd.cast(position, dtype) * GOLDEN[dtype]


def numbers(dtype: str) -> np.ndarray:
    with np.errstate(over="ignore"):
        return np.arange(EXTENT, dtype=dtype) * np.array(GOLDEN[dtype], dtype)


def run(define: Callable[[asd.Tensor], asd.Tensor]) -> np.ndarray:
    x = asd.placeholder((EXTENT,), name="x")
    dag = asd.ComputeDAG([define(x)])
    module = asd.Task(dag, host_target(1)).module()
    return np.asarray(next(iter(module.run({"x": X}).values())))


@pytest.mark.parametrize("dtype", GOLDEN)
def test_a_comparison(dtype: str) -> None:
    found = run(
        lambda x: asd.compute(
            (EXTENT,), lambda i: asd.select(product(i, dtype) < 0, x[i], -x[i]), name="y"
        )
    )
    np.testing.assert_array_equal(found, np.where(numbers(dtype) < 0, X, -X))


@pytest.mark.parametrize("dtype", GOLDEN)
def test_the_guard_of_a_sum(dtype: str) -> None:
    k = asd.reduce_axis(EXTENT, "k")
    found = run(
        lambda x: asd.compute(
            (1,), lambda _: asd.sum(asd.select(product(k, dtype) < 0, x[k], 0.0), axis=k), name="y"
        )
    )
    np.testing.assert_array_equal(found, [X[numbers(dtype) < 0].sum()])


@pytest.mark.parametrize("dtype", GOLDEN)
def test_a_number(dtype: str) -> None:
    found = run(
        lambda x: asd.compute(
            (EXTENT,),
            lambda i: asd.cast(asd.cast(product(i, dtype), "int64"), "float64") + 0.0 * x[i],
            name="y",
        )
    )
    np.testing.assert_array_equal(found, numbers(dtype).astype(np.float64))


@pytest.mark.parametrize("dtype", GOLDEN)
def test_an_index_stays_inside(dtype: str) -> None:
    found = run(
        lambda x: asd.compute(
            (EXTENT,), lambda i: x[asd.minimum(product(i, dtype), EXTENT - 1)] * 2.0, name="y"
        )
    )
    np.testing.assert_array_equal(found, 2 * X[np.clip(numbers(dtype), 0, EXTENT - 1)])


def test_a_narrow_copy_of_a_wide_product() -> None:
    """2^31 as an int32 is the least one, and negated it is that again."""
    found = run(
        lambda x: asd.compute(
            (EXTENT,),
            lambda i: (
                asd.cast(asd.cast(-asd.cast(i * 2**31, "int32"), "int64"), "float32") + 0 * x[i]
            ),
            name="y",
        )
    )
    expected = -(np.arange(EXTENT) * 2**31).astype(np.int32)
    np.testing.assert_array_equal(found, expected.astype(np.float64))


def test_what_does_not_wrap_is_a_form() -> None:
    axis = asd.compute((EXTENT,), lambda i: asd.cast(i, "float32"), name="y").op.axes[0]
    assert affine_index(asd.cast(axis, "int32") * 3) == ({axis: 3}, 0)
    assert affine_index(product(axis, "int32")) is None
    assert index_interval(product(axis, "int32")) == (-(2**31), 2**31 - 1)
    assert index_interval(asd.cast(axis, "uint8") + 200) == (0, 255)


@pytest.mark.parametrize("limit", [2_000_000_000, 6_000_000_000])
def test_lanes_far_beyond_32_bits_are_masked(limit: int) -> None:
    """The guard of a sum is a predicate of the nest, tested for all lanes at once."""
    columns, rows = 100_000, 4
    x, k = asd.placeholder((rows, columns), name="x"), asd.reduce_axis(rows, "k")
    inside = asd.compute(
        (columns,),
        lambda j: asd.sum(asd.select(j * 100_000 + k * 7 < limit, x[k, j], 0.0), axis=k),
        name="y",
    )
    given = np.ones((rows, columns), np.float32)
    module = asd.Task(asd.ComputeDAG([inside]), host_target(1)).module()
    place = np.arange(columns) * 100_000 + 7 * np.arange(rows)[:, None]
    np.testing.assert_array_equal(module.run({"x": given})["y"], (place < limit).sum(0))


def test_a_bound_beyond_all_indices() -> None:
    x, k = asd.placeholder((128,), name="x"), asd.reduce_axis(128, "k")
    dag = asd.ComputeDAG(
        [asd.compute((1,), lambda _: asd.sum(asd.select(k * 2**35 < 2**41, x[k], 0.0), axis=k))]
    )
    found = asd.Task(dag, host_target(1)).module().run({"x": np.ones(128, np.float32)})
    assert float(next(iter(found.values()))[0]) == 64
    for nest in feasible_nests(dag, 1, np.random.default_rng(0)):
        assert "2199023255552" in emit(nest, GPU).text


@pytest.mark.parametrize("inside", [False, True])
def test_comparisons_in_cuda_do_not_overflow(inside: bool) -> None:
    x, k = asd.placeholder((2000, 8), name="x"), asd.reduce_axis(2000, "k")

    def chosen(i: Expr, j: Expr) -> Expr:
        return asd.select(i * 3_000_000 + j * 1000 < 2_000_000_000, x[i, j], -x[i, j])

    elementwise = asd.compute((2000, 8), chosen, name="y")
    total = asd.compute((8,), lambda j: asd.sum(chosen(k, j), axis=k), name="y")
    dag = asd.ComputeDAG([total if inside else elementwise])
    for nest in feasible_nests(dag, 2, np.random.default_rng(0)):
        assert "typedef long long index_t" in emit(nest, GPU).text


def test_a_form_beyond_2_to_the_40() -> None:
    """The end of a predicate stands for none only beyond all forms."""
    x, k = asd.placeholder((1000,), name="x"), asd.reduce_axis(1000, "k")
    guarded = asd.compute(
        (1,), lambda _: asd.sum(asd.select(k * 2_000_000_000 >= 5, x[k], 0.0), axis=k), name="y"
    )
    module = asd.Task(asd.ComputeDAG([guarded]), host_target(1)).module()
    assert float(module.run({"x": np.ones(1000, np.float32)})["y"][0]) == 999


def test_lanes_of_a_wrapped_index() -> None:
    place = np.arange(EXTENT) * np.array(GOLDEN["int64"])
    found = run(
        lambda x: asd.compute((EXTENT,), lambda i: x[product(i, "int64") % EXTENT] * 1.0, name="y")
    )
    np.testing.assert_array_equal(found, X[place % EXTENT])


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_the_least_literal_negated(dtype: str) -> None:
    least = -(2 ** (31 if dtype == "int32" else 63))
    found = run(
        lambda x: asd.compute(
            (EXTENT,),
            lambda i: asd.select(-as_expr(least, dtype) < 0, x[i], -x[i]),
            name="y",
        )
    )
    np.testing.assert_array_equal(found, X)


@pytest.mark.parametrize("kind", ["shift", "mask", "float"])
def test_clamped_data_are_indices(kind: str) -> None:
    table = asd.placeholder((16,), name="table")
    q = asd.placeholder((EXTENT,), "float32" if kind == "float" else "uint8", name="q")
    places = {
        "shift": lambda i: asd.maximum(asd.minimum(q[i] >> 4, 15), 0),
        "mask": lambda i: q[i] & 15,
        "float": lambda i: asd.maximum(asd.minimum(asd.cast(q[i], "int32"), 15), 0),
    }
    dag = asd.ComputeDAG([asd.compute((EXTENT,), lambda i: table[places[kind](i)], name="y")])
    given = np.arange(EXTENT).astype(q.dtype) * 4
    values = np.arange(16, dtype=np.float32)
    found = asd.Task(dag, host_target(1)).module().run({"table": values, "q": given})["y"]
    bytes_ = given.astype(np.int64)
    expected = {"shift": bytes_ >> 4, "mask": bytes_ & 15, "float": np.minimum(bytes_, 15)}[kind]
    np.testing.assert_array_equal(found, values[expected])


def test_an_index_of_a_narrow_type() -> None:
    x = asd.placeholder((1000,), name="x")
    y = asd.compute((EXTENT,), lambda i: x[asd.bitwise_xor(asd.cast(i, "uint8"), 3)], name="y")
    values = np.arange(1000, dtype=np.float32)
    found = asd.Task(asd.ComputeDAG([y]), host_target(1)).module().run({"x": values})["y"]
    np.testing.assert_array_equal(found, np.arange(EXTENT) ^ 3)


def test_a_stage_that_is_computed_where_it_is_read_ends_where_it_ends() -> None:
    """``b[j * j]`` is kept inside of ``b``, wherever that is computed."""
    a = asd.placeholder((50,), name="a")
    b = asd.compute((50,), lambda i: a[i] + asd.cast(i, "float32"), name="b")
    y = asd.compute((16,), lambda j: b[j * j], name="y")
    values = np.linspace(0, 1, 50, dtype=np.float32)
    found = asd.Task(asd.ComputeDAG([y]), host_target(1)).module().run({"a": values})["y"]
    place = np.minimum(np.arange(16) ** 2, 49)
    np.testing.assert_allclose(found, values[place] + place, rtol=1e-6)
