"""Products of integers less their zero points, as products of bytes."""

import numpy as np
import pytest

from autosched.graph.builder import GraphBuilder
from autosched.graph.evaluate import evaluate
from autosched.graph.ir import Graph, Value
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
