"""Normalisations written out are one operator, and nothing else is taken for one."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from autosched.graph.builder import GraphBuilder
from autosched.graph.extract import extract
from autosched.graph.ir import Graph, Value
from autosched.graph.ops.elementwise import BinaryOp, UnaryOp
from autosched.graph.ops.matmul import MatMul
from autosched.graph.ops.norm import Normalize
from autosched.graph.ops.reduce import ReduceOp
from autosched.graph.passes.dead_code import remove_dead_code
from autosched.graph.passes.normalization import recognize_normalizations
from tests.support.small_graphs import Net, assert_close, values_of


def _number(net: Net, value: float) -> str:
    return net.constant(net.unique("number"), np.array([value], np.float32))


def _variance(net: Net, data: str, epsilon: str | None = None) -> str:
    square = net.then(BinaryOp("mul"), data, data)
    mean = net.then(ReduceOp("mean", (2,), True), square)
    return net.then(BinaryOp("add"), _number(net, 1e-3) if epsilon is None else epsilon, mean)


def _rsqrt(net: Net, data: str) -> str:
    return net.then(BinaryOp("mul"), net.unary(_variance(net, data), "rsqrt"), data)


def _reciprocal(net: Net, data: str) -> str:
    root = net.unary(_variance(net, data), "sqrt")
    return net.then(BinaryOp("mul"), data, net.unary(root, "reciprocal"))


def _one_over(net: Net, data: str) -> str:
    root = net.unary(_variance(net, data), "sqrt")
    return net.then(BinaryOp("mul"), data, net.then(BinaryOp("div"), _number(net, 1), root))


def _quotient(net: Net, data: str) -> str:
    return net.then(BinaryOp("div"), data, net.unary(_variance(net, data), "sqrt"))


def _centred(net: Net) -> str:
    return net.then(BinaryOp("sub"), net.x, net.then(ReduceOp("mean", (2,), True), net.x))


def _graph(make: Callable[[Net, str], str], centered: bool) -> Graph:
    net = Net((2, 5, 16))
    return net.finish({"y": make(net, _centred(net) if centered else net.x)})


@pytest.mark.parametrize("centered", [False, True])
@pytest.mark.parametrize("make", [_rsqrt, _reciprocal, _one_over, _quotient])
def test_forms_of_a_normalisation(make: Callable[[Net, str], str], centered: bool) -> None:
    graph = _graph(make, centered)
    found = remove_dead_code(recognize_normalizations(graph))
    (node,) = found.nodes
    assert isinstance(node.op, Normalize) and node.op.centered == centered
    assert node.op.axes == (2,) and node.op.epsilon == pytest.approx(1e-3)
    assert set(node.origins) <= {n.name for n in graph.nodes} and len(node.origins) > 1
    assert_close(values_of(found), values_of(graph), "normalisation")


def _times_root(net: Net) -> str:
    inverse = net.unary(net.unary(_variance(net, net.x), "rsqrt"), "reciprocal")
    return net.then(BinaryOp("mul"), net.x, inverse)


def _over_inverse_root(net: Net) -> str:
    return net.then(BinaryOp("div"), net.x, net.unary(_variance(net, net.x), "rsqrt"))


def _of_another(net: Net) -> str:
    other = net.unary(net.x, "abs")
    return net.then(BinaryOp("div"), net.unary(net.x), net.unary(_variance(net, other), "sqrt"))


def _vector_epsilon(net: Net) -> str:
    variance = _variance(net, net.x, net.positive(5 * 16))
    return net.then(BinaryOp("div"), net.x, net.unary(variance, "sqrt"))


def _no_mean(net: Net) -> str:
    square = net.then(BinaryOp("mul"), net.x, net.x)
    total = net.then(ReduceOp("sum", (2,), True), square)
    shifted = net.then(BinaryOp("add"), total, _number(net, 1e-3))
    return net.then(BinaryOp("mul"), net.x, net.unary(shifted, "rsqrt"))


@pytest.mark.parametrize("make", [_times_root, _over_inverse_root, _of_another, _no_mean])
def test_what_only_looks_like_one(make: Callable[[Net], str]) -> None:
    net = Net((2, 5, 16))
    graph = net.finish({"y": make(net)})
    assert str(recognize_normalizations(graph)) == str(graph)


def test_an_epsilon_for_each_element_is_none() -> None:
    net = Net((1, 1, 80))
    graph = net.finish({"y": _vector_epsilon(net)})
    assert str(recognize_normalizations(graph)) == str(graph)


def test_means_that_others_read_stay() -> None:
    net = Net((2, 5, 16))
    variance = _variance(net, net.x)
    y = net.then(BinaryOp("div"), net.x, net.unary(variance, "sqrt"))
    graph = net.finish({"y": y, "v": variance})
    assert_close(values_of(recognize_normalizations(graph)), values_of(graph), "two results")


def test_rows_of_a_dense_layer_are_normalised_in_one_kernel() -> None:
    net = Net((1, 5, 16))
    added = net.then(BinaryOp("add"), net.then(MatMul(), net.x, net.random(16, 16)), net.x)
    scaled = net.then(BinaryOp("mul"), _reciprocal(net, added), net.random(16))
    graph = net.finish({"y": scaled, "added": added})
    names = [call.name for call in extract(graph).subgraphs]
    assert names == ["dense_add.1", "normalize_mul.1"]


def test_half_precision_is_rounded_as_written() -> None:
    builder = GraphBuilder("half")
    x = builder.input(Value("x", (2, 8), "float16"))
    epsilon = builder.constant("epsilon", np.array(1e-3, np.float16))
    mean = builder.add(ReduceOp("mean", (1,), True), [builder.add(BinaryOp("mul"), [x, x])])
    root = builder.add(UnaryOp("rsqrt"), [builder.add(BinaryOp("add"), [mean, epsilon])])
    graph = builder.finish({"y": builder.add(BinaryOp("mul"), [x, root])})
    assert str(recognize_normalizations(graph)) == str(graph)
