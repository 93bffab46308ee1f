"""Numbers go from the larger operand of a product to the smaller one."""

from __future__ import annotations

import numpy as np
import pytest

from autosched.graph.ir import Graph, Value
from autosched.graph.ops.elementwise import BinaryOp
from autosched.graph.ops.matmul import MatMul
from autosched.graph.passes.clean_up import clean_up
from autosched.graph.passes.dead_code import remove_dead_code
from autosched.graph.passes.scales import move_scales
from tests.support.small_graphs import Net, assert_close, values_of


def _scaled(net: Net, data: str, number: float) -> str:
    constant = net.constant(net.unique("number"), np.array([number], np.float32))
    return net.then(BinaryOp("mul"), data, constant)


def _attention(
    queries: int, keys: int, query_scale: float | None, key_scale: float | None
) -> Graph:
    net = Net((2, queries, 8))
    cache = net.input(Value("cache", (2, 8, keys)))
    query = net.x if query_scale is None else _scaled(net, net.x, query_scale)
    key = cache if key_scale is None else _scaled(net, cache, key_scale)
    return net.finish({"y": net.then(MatMul(), query, key)})


def _numbers(graph: Graph) -> dict[str, float]:
    """Which inputs are multiplied, and by how much."""
    return {
        node.inputs[0]: float(graph.constants[node.inputs[1]].reshape(()))
        for node in graph.nodes
        if node.op == BinaryOp("mul")
    }


@pytest.mark.parametrize(
    ("extents", "scales", "expected"),
    [
        ((1, 9), (None, 0.5), {"x": 0.5}),
        ((1, 9), (0.25, 0.5), {"x": 0.125}),
        ((1, 9), (0.25, None), {"x": 0.25}),
        ((9, 1), (0.5, None), {"cache": 0.5}),
        ((9, 9), (0.25, 0.5), {"x": 0.125}),
        ((9, 9), (None, 0.5), {"cache": 0.5}),
        ((1, 9), (1e-30, 1e-30), {"x": 1e-30, "cache": 1e-30}),  # their product is 0
    ],
)
def test_where_numbers_go(
    extents: tuple[int, int],
    scales: tuple[float | None, float | None],
    expected: dict[str, float],
) -> None:
    graph = _attention(*extents, *scales)
    moved = remove_dead_code(move_scales(graph))
    assert _numbers(moved) == pytest.approx(expected)
    assert_close(values_of(moved), values_of(graph), "scales")


def test_multiples_that_others_read_stay() -> None:
    net = Net((2, 1, 8))
    cache = _scaled(net, net.input(Value("cache", (2, 8, 9))), 0.5)
    graph = net.finish({"y": net.then(MatMul(), net.x, cache), "cache": cache})
    assert str(move_scales(graph)) == str(graph)


def test_constants_keep_their_products() -> None:
    net = Net((2, 9, 8))
    graph = net.finish({"y": net.then(MatMul(), _scaled(net, net.x, 0.5), net.random(8, 2))})
    assert str(clean_up(move_scales(graph))) == str(graph)
