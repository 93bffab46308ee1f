"""Dequantised weights stay bytes where few rows read them."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from autosched.graph.builder import GraphBuilder
from autosched.graph.evaluate import evaluate
from autosched.graph.ir import Graph, Value
from autosched.graph.ops.elementwise import BinaryOp, CastOp
from autosched.graph.ops.gather import Gather
from autosched.graph.ops.matmul import Dense, MatMul
from autosched.graph.ops.narrow import NarrowMatMul
from autosched.graph.ops.shape import Transpose
from autosched.graph.optimize import optimize
from autosched.graph.passes.narrow_weights import narrow_weights
from sketch.operators.narrow import NarrowFormat, integers_of, words_of

K, N = 64, 16
RNG = np.random.default_rng(0)
FORMAT = NarrowFormat(4, 16)


def dequantised(
    builder: GraphBuilder, dtype: str, shape: tuple[int, ...], turned: bool = False
) -> str:
    """A matrix ``[K, N]``; scale and zero point have ``shape``, spread over rows if they have 4."""
    limits = np.iinfo(dtype)
    integers = RNG.integers(limits.min, limits.max + 1, (K, N)).astype(dtype)
    scale, zero = RNG.random(shape) + 0.1, RNG.integers(-9, 10, shape)
    each = [np.repeat(a, K // 4, 0) if shape == (4, N) else a for a in (scale, zero)]
    parameters = [array.astype(np.float32) for array in each]
    if turned:
        integers, parameters = integers.T, [a.T for a in parameters]
    value = builder.add(CastOp("float32"), [builder.constant("integers", integers)])
    value = builder.add(BinaryOp("sub"), [value, builder.constant("point", parameters[1])])
    value = builder.add(BinaryOp("mul"), [value, builder.constant("scale", parameters[0])])
    return builder.add(Transpose((1, 0)), [value]) if turned else value


def product(rows: int, dtype: str, shape: tuple[int, ...], turned: bool = False) -> Graph:
    builder = GraphBuilder("product")
    data = builder.input(Value("data", (rows, K), "float32"))
    weight = dequantised(builder, dtype, shape, turned)
    bias = builder.constant("bias", RNG.random(N, np.float32))
    return builder.finish({"y": builder.add(Dense(), [data, weight, bias])})


def check(graph: Graph, data: NDArray[np.generic]) -> Graph:
    """The optimised graph, which computes the same."""
    found = optimize(graph)
    given = {graph.inputs[0].name: data}
    (expected,), (values,) = evaluate(graph, given).values(), evaluate(found, given).values()
    largest = np.abs(expected).max()
    np.testing.assert_allclose(values, expected, rtol=0, atol=1e-6 * largest)
    return found


def bytes_of(graph: Graph) -> int:
    return sum(array.nbytes for array in graph.constants.values())


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("shape", [(), (N,), (1, N), (4, N)])
@pytest.mark.parametrize("turned", [False, True])
def test_a_product_of_few_rows_reads_bytes(
    dtype: str, shape: tuple[int, ...], turned: bool
) -> None:
    if turned and shape == (N,):
        shape = (1, N)
    graph = product(2, dtype, shape, turned)
    found = check(graph, RNG.standard_normal((2, K), np.float32))
    assert [type(node.op) for node in found] == [NarrowMatMul, BinaryOp]
    assert bytes_of(found) < 2 * K * N


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize(("bits", "stored"), [(2, 2), (3, 4), (4, 4), (5, 8), (8, 8)])
def test_integers_of_few_bits_are_stored_in_so_few(dtype: str, bits: int, stored: int) -> None:
    low = -(1 << (bits - 1)) if dtype == "int8" else 0
    integers = RNG.integers(low, low + (1 << bits), (K, N)).astype(dtype)
    integers.flat[0], integers.flat[1] = low, low + (1 << bits) - 1
    builder = GraphBuilder("few")
    data = builder.input(Value("data", (1, K), "float32"))
    weight = builder.add(CastOp("float32"), [builder.constant("integers", integers)])
    scale = builder.constant("scale", RNG.random(N, np.float32))
    weight = builder.add(BinaryOp("mul"), [weight, scale])
    graph = builder.finish({"y": builder.add(MatMul(), [data, weight])})
    found = check(graph, RNG.standard_normal((1, K), np.float32))
    assert [node.op for node in found] == [NarrowMatMul(NarrowFormat(stored, K))]


@pytest.mark.parametrize(
    ("rows", "shape"), [(100, (N,)), (2, (K, 1))], ids=["many rows", "a scale for each row"]
)
def test_other_products_read_floats(rows: int, shape: tuple[int, ...]) -> None:
    found = check(product(rows, "int8", shape), RNG.standard_normal((rows, K), np.float32))
    assert [type(node.op) for node in found] == [Dense]


def test_a_graph_without_bytes_is_itself() -> None:
    builder = GraphBuilder("floats")
    data = builder.input(Value("data", (2, K), "float32"))
    weight = builder.constant("weight", RNG.random((K, N), np.float32))
    graph = builder.finish({"y": builder.add(MatMul(), [data, weight])})
    assert narrow_weights(graph) is graph


@pytest.mark.parametrize("shape", [(), (N,), (K, 1), (K, N)])
def test_rows_of_a_table_are_taken_as_bytes(shape: tuple[int, ...]) -> None:
    builder = GraphBuilder("table")
    places = builder.input(Value("places", (2, 3), "int64"))
    table = dequantised(builder, "uint8", shape)
    graph = builder.finish({"y": builder.add(Gather(0), [table, places])})
    found = check(graph, RNG.integers(0, K, (2, 3)))
    assert ("uint8" in {str(a.dtype) for a in found.constants.values()}) == (shape != (K, N))


def test_many_rows_by_words_become_a_product_with_floats() -> None:
    for rows in (1, 100):
        builder = GraphBuilder("words")
        data = builder.input(Value("data", (rows, K), "float32"))
        integers = RNG.integers(-8, 8, (K, N)).astype(np.int8)
        arrays = words_of(integers, FORMAT), *RNG.random((2, 4, N), np.float32)
        names = [builder.constant(f"c{i}", array) for i, array in enumerate(arrays)]
        graph = builder.finish({"y": builder.add(NarrowMatMul(FORMAT), [data, *names])})
        found = check(graph, RNG.standard_normal((rows, K), np.float32))
        assert [type(node.op) for node in found] == [NarrowMatMul if rows == 1 else Dense]


@pytest.mark.parametrize("bits", [2, 4, 8])
def test_words_hold_integers(bits: int) -> None:
    stored = NarrowFormat(bits, 16)
    integers = RNG.integers(-(1 << (bits - 1)), 1 << (bits - 1), (32, 3)).astype(np.int8)
    np.testing.assert_array_equal(integers_of(words_of(integers, stored), stored), integers)
