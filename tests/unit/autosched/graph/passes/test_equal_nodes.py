"""What is computed twice is computed once."""

import numpy as np

from autosched.graph.ops.elementwise import BinaryOp
from autosched.graph.ops.shape import Pad
from autosched.graph.passes.equal_nodes import merge_equal_nodes
from tests.support.small_graphs import Net, assert_close, kinds_of, values_of


def test_equal_nodes_are_computed_once() -> None:
    net = Net((2, 3))
    first, again = (net.unary(net.unary(net.x), "exp") for _ in range(2))
    other = net.unary(net.x, "tanh")
    total = net.then(BinaryOp("add"), net.then(BinaryOp("sub"), first, other), again)
    graph = net.finish({"y": total, "z": again})
    merged = merge_equal_nodes(graph)
    assert_close(values_of(merged), values_of(graph), "merged")
    assert kinds_of(merged) == ["relu", "exp", "tanh", "sub", "add"]
    assert [result.value for result in merged.results] == [total, first]
    assert merge_equal_nodes(merged) is merged


def test_nodes_on_equal_constants_are_equal() -> None:
    """Zeros of another sign, or of another dtype, are not equal."""
    net = Net((2, 3))
    arrays = (np.zeros(3), np.zeros(3), -np.zeros(3), np.zeros((1, 3)))
    constants = [net.constant(f"c{n}", a.astype(np.float32)) for n, a in enumerate(arrays)]
    sums = [net.then(BinaryOp("add"), net.x, constant) for constant in constants]
    graph = net.finish({f"y{n}": value for n, value in enumerate(sums)})
    merged = merge_equal_nodes(graph)
    assert_close(values_of(merged), values_of(graph), "merged")
    read = [node.inputs[1] for node in merged.nodes]
    assert read == [constants[0], constants[2], constants[3]]
    assert merge_equal_nodes(merged) is merged


def test_what_is_read_does_not_depend_on_which_constants_are_equal() -> None:
    """Else a network of other weights had other tasks."""
    net = Net((2, 3))
    scale, bias = (net.constant(name, np.ones(3, np.float32)) for name in ("scale", "bias"))
    scaled = net.then(BinaryOp("mul"), net.x, scale)
    graph = net.finish({"y": net.then(BinaryOp("add"), scaled, bias)})
    assert merge_equal_nodes(graph) is graph


def test_pads_of_both_zeros_are_not_equal() -> None:
    net = Net((2,))
    lhs, rhs = (net.then(Pad((1,), (0,), zero), net.x) for zero in (0.0, -0.0))
    ratio = net.then(BinaryOp("div"), net.constant("one", np.ones(1, np.float32)), rhs)
    graph = merge_equal_nodes(net.finish({"y": net.then(BinaryOp("add"), lhs, ratio)}))
    assert values_of(graph)["y"][0] == -np.inf
