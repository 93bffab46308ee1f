"""Weights of attention are the first operand of their product."""

from __future__ import annotations

import numpy as np
import pytest

from autosched.graph.extract import extract
from autosched.graph.ir import Graph, Value
from autosched.graph.ops.conv import Conv
from autosched.graph.ops.elementwise import BinaryOp
from autosched.graph.ops.matmul import MatMul
from autosched.graph.ops.shape import Reshape, Transpose
from autosched.graph.ops.softmax import Softmax
from autosched.graph.passes.dead_code import remove_dead_code
from autosched.graph.passes.turned_weights import turn_weights
from tests.support.small_graphs import Net, assert_close, values_of


def _mixed(softmax: Softmax, order: tuple[int, ...] = (0, 2, 1), scaled: bool = False) -> Graph:
    net = Net((2, 6, 6))
    weights = net.then(softmax, net.x)
    if scaled:
        weights = net.then(BinaryOp("mul"), weights, net.constant("s", np.ones((), np.float32)))
    values = net.input(Value("v", (2, 3, 6)))
    return net.finish({"y": net.then(MatMul(), values, net.then(Transpose(order), weights))})


@pytest.mark.parametrize("scaled", [False, True])
def test_weights_come_first(scaled: bool) -> None:
    graph = _mixed(Softmax(), scaled=scaled)
    found = remove_dead_code(turn_weights(graph))
    kinds = [node.op.kind for node in found.nodes]
    assert kinds == ["softmax", *["mul"] * scaled, "transpose", "matmul", "transpose"]
    assert_close(values_of(found), values_of(graph), "turned")


@pytest.mark.parametrize(
    "graph",
    [_mixed(Softmax(1)), _mixed(Softmax(log=True)), _mixed(Softmax(), (0, 1, 2))],
    ids=["along columns", "logarithms", "not transposed"],
)
def test_other_products_stay(graph: Graph) -> None:
    assert turn_weights(graph).nodes == graph.nodes


def test_attention_over_an_image_has_no_copies() -> None:
    """As in the decoder of an image: products of [channels, places] between convolutions."""
    net = Net((1, 16, 8, 8))
    query, key, value = (
        net.then(Reshape((1, 16, 64)), net.then(Conv(), net.x, net.random(16, 16, 1, 1)))
        for _ in range(3)
    )
    scores = net.then(MatMul(), net.then(Transpose((0, 2, 1)), query), key)
    weights = net.then(Transpose((0, 2, 1)), net.then(Softmax(), scores))
    mixed = net.then(Reshape((1, 16, 8, 8)), net.then(MatMul(), value, weights))
    graph = net.finish({"y": net.then(Conv(), mixed, net.random(16, 16, 1, 1))})
    calls = [call.name.rpartition(".")[0] for call in extract(graph, chains=True).subgraphs]
    assert calls.count("transpose") <= 2  # of the image and of the result
    assert "einsum_softmax_matmul" in calls
