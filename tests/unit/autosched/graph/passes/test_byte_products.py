"""Products of integers less their zero points, as products of bytes."""

import numpy as np
import pytest

from autosched.graph.builder import GraphBuilder
from autosched.graph.evaluate import evaluate
from autosched.graph.ir import Graph, Value
from autosched.graph.ops.conv import Conv
from autosched.graph.ops.elementwise import BinaryOp, CastOp
from autosched.graph.ops.matmul import MatMul
from autosched.graph.passes.byte_products import byte_products

RNG = np.random.default_rng(0)


def product(zero: np.ndarray, weight: np.ndarray, rows: int = 3, dtype: str = "int8") -> Graph:
    """``(x - zero) @ weight`` in int32 of ``x [rows, 4]``."""
    builder = GraphBuilder("g")
    x = builder.input(Value("x", (rows, 4), dtype))
    wide = builder.add(CastOp("int32"), (x,))
    centered = builder.add(BinaryOp("sub"), (wide, builder.constant("zero", zero)))
    done = builder.add(MatMul(), (centered, builder.constant("weight", weight)))
    return builder.finish({"y": done})


def dtypes(graph: Graph) -> list[str]:
    (node,) = [node for node in graph.nodes if isinstance(node.op, MatMul)]
    return [graph.types[name].dtype for name in node.inputs]


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_bytes_less_a_zero_point_are_multiplied_as_bytes(dtype: str) -> None:
    weight = RNG.integers(-128, 128, (4, 5)).astype(np.int32)
    graph = product(np.array([[3], [-9], [0]], np.int32), weight, dtype=dtype)
    found = byte_products(graph)
    assert dtypes(found) == ["uint8", "int8"]
    limits = np.iinfo(dtype)
    given = {"x": RNG.integers(limits.min, limits.max + 1, (3, 4)).astype(dtype)}
    for name, array in evaluate(graph, given).items():
        np.testing.assert_array_equal(evaluate(found, given)[name], array)


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_weights_beyond_int8_are_bytes_and_a_number_for_each_column(dtype: str) -> None:
    least = np.array([-255, -200, -128, 0, 100], np.int32)
    weight = least + RNG.integers(0, 256, (4, 5)).astype(np.int32)
    graph = product(np.array([[3], [-9], [0]], np.int32), weight, dtype=dtype)
    found = byte_products(graph)
    assert dtypes(found) == ["uint8", "int8"]
    limits = np.iinfo(dtype)
    given = {"x": RNG.integers(limits.min, limits.max + 1, (3, 4)).astype(dtype)}
    np.testing.assert_array_equal(evaluate(found, given)["y"], evaluate(graph, given)["y"])


def test_what_is_no_product_of_bytes_stays() -> None:
    fits, wide = np.full((4, 5), 127, np.int32), np.full((4, 5), 128, np.int32)
    wide[2, 3] = -128  # further apart than bytes are
    one, more = np.zeros((), np.int32), np.zeros((3, 1), np.int32)
    for graph in (
        product(one, wide),
        product(one, fits, dtype="int16"),
        product(more, fits, rows=1),  # the zero points repeat the bytes
    ):
        assert byte_products(graph) is graph


@pytest.mark.parametrize("columns", [4, 5, 1])
@pytest.mark.parametrize("shape", [(4,), (1, 4), (3, 4)])
def test_zero_points_that_differ_along_the_sum_are_none(
    shape: tuple[int, ...], columns: int
) -> None:
    zero = RNG.integers(-9, 9, shape).astype(np.int32)
    weight = RNG.integers(-100, 100, (4, columns)).astype(np.int32)
    graph = product(zero, weight)
    found = byte_products(graph)
    assert dtypes(found) == ["int32", "int32"]
    given = {"x": RNG.integers(-128, 128, (3, 4)).astype("int8")}
    np.testing.assert_array_equal(evaluate(found, given)["y"], evaluate(graph, given)["y"])


@pytest.mark.parametrize(
    ("dtype", "zero", "bytes_"),
    [("uint8", -5, False), ("uint8", 300, False), ("int8", 200, False), ("int8", 3, True)],
)
def test_what_is_padded_has_to_be_a_byte(dtype: str, zero: int, bytes_: bool) -> None:
    builder = GraphBuilder("g")
    x = builder.input(Value("x", (1, 4, 5, 5), dtype))
    wide = builder.add(CastOp("int32"), (x,))
    point = builder.constant("zero", np.asarray(zero, np.int32))
    centered = builder.add(BinaryOp("sub"), (wide, point))
    weight = RNG.integers(-100, 100, (8, 4, 3, 3)).astype(np.int32)
    done = builder.add(Conv(padding=(1,) * 4), (centered, builder.constant("w", weight)))
    graph = builder.finish({"y": done})
    found = byte_products(graph)
    (node,) = [node for node in found.nodes if isinstance(node.op, Conv)]
    assert (found.types[node.inputs[0]].dtype == "uint8") == bytes_
    limits = np.iinfo(dtype)
    given = {"x": RNG.integers(limits.min, limits.max + 1, (1, 4, 5, 5)).astype(dtype)}
    np.testing.assert_array_equal(evaluate(found, given)["y"], evaluate(graph, given)["y"])
