"""The graph IR: construction, inference, verification, printing."""

import pickle

import numpy as np
import pytest

from autosched.graph.builder import GraphBuilder
from autosched.graph.errors import GraphError
from autosched.graph.ir import Graph, Network, Node, Result, Value
from autosched.graph.ops.base import TensorType
from autosched.graph.ops.elementwise import BinaryOp, UnaryOp
from autosched.graph.ops.shape import Reshape


def _diamond() -> Graph:
    builder = GraphBuilder("diamond")
    x = builder.input(Value("x", (2, 3)))
    scale = builder.constant("scale", np.ones((3,), np.float32))
    left = builder.add(UnaryOp("relu"), [x], "left")
    right = builder.add(BinaryOp("mul"), [x, scale], "right")
    builder.add(BinaryOp("add"), [left, right], "sum")
    return builder.finish({"y": "sum"})


def test_types_producers_and_consumers() -> None:
    graph = _diamond()
    assert graph.types["sum"] == TensorType((2, 3), "float32")
    assert graph.producers["left"].op == UnaryOp("relu")
    assert [node.output for node in graph.consumers["x"]] == ["left", "right"]
    assert graph.outputs == (Value("y", (2, 3)),)


def test_constants_are_read_only_and_graphs_picklable() -> None:
    graph = pickle.loads(pickle.dumps(_diamond()))
    assert str(graph) == str(_diamond())
    with pytest.raises(ValueError, match="read-only"):
        _diamond().constants["scale"][0] = 2


def test_text_names_every_value() -> None:
    assert str(_diamond()).splitlines() == [
        "graph diamond(x: float32[2, 3])",
        "  left: float32[2, 3] = UnaryOp(function='relu')(x)",
        "  right: float32[2, 3] = BinaryOp(function='mul')(x, scale)",
        "  sum: float32[2, 3] = BinaryOp(function='add')(left, right)",
        "  return y = sum",
    ]


def test_network_shows_its_signature() -> None:
    network = Network("diamond", _diamond())
    assert network.inputs[0].name == "x"
    assert network.outputs[0].dtype == "float32"
    assert repr(network) == ("Network(diamond, x: float32[2, 3] -> y: float32[2, 3], 3 nodes)")


X = Value("x", (2, 3))
RELU = UnaryOp("relu")


@pytest.mark.parametrize(
    ("nodes", "results", "message"),
    [
        ([Node("a", RELU, ("y",), "z")], [Result("z", "z")], "'y' is used before .* node a"),
        ([Node("a", RELU, ("x",), "x")], [Result("x", "x")], "'x' is defined twice"),
        ([Node("a", RELU, ("x",), "y")], [Result("z", "z")], "'z' is used before .* output z"),
        (
            [Node("a", RELU, ("x",), "y"), Node("a", RELU, ("y",), "z")],
            [Result("z", "z")],
            "node name 'a' is used twice",
        ),
        ([], [Result("x", "x"), Result("x", "x")], "output name 'x' is used twice"),
        ([Node("a", RELU, ("x", "x"), "y")], [Result("y", "y")], "takes 1 inputs, got 2"),
        (
            [Node("a", Reshape((4, 2)), ("x",), "y")],
            [Result("y", "y")],
            r"cannot reshape float32\[2, 3\] to \(4, 2\) \| node a \(reshape\)",
        ),
    ],
)
def test_malformed_graphs_are_rejected(
    nodes: list[Node], results: list[Result], message: str
) -> None:
    with pytest.raises(GraphError, match=message):
        Graph("bad", (X,), tuple(results), tuple(nodes), {})


@pytest.mark.parametrize("value", [Value("x", (2, 0)), Value("x", (2, 3), "uint16")])
def test_kernels_take_no_unsupported_values(value: Value) -> None:
    node = Node("n", UnaryOp("relu"), ("x",), "y")
    with pytest.raises(GraphError, match="value 'x' has type"):
        Graph("bad", (value,), (Result("y", "y"),), (node,), {})


def test_unsupported_constants_are_rejected() -> None:
    with pytest.raises(GraphError, match="constant c has type"):
        Graph("bad", (X,), (Result("x", "x"),), (), {"c": np.zeros(3, np.uint16)})


def test_builder_makes_names_unique_and_reports_the_node() -> None:
    builder = GraphBuilder.from_graph(_diamond())
    assert builder.unique("sum") == "sum_1"  # reserved by the old graph
    assert builder.add(RELU, ["x"]) == "relu"
    assert builder.add(RELU, ["x"]) == "relu_1"
    builder.add(RELU, ["x"], "value", "node")
    assert builder.unique("node") == "node_1"  # it may become a node's name too
    with pytest.raises(GraphError, match=r"do not broadcast .* node bad"):
        builder.constant("wide", np.ones(7, np.float32))
        builder.add(BinaryOp("add"), ["x", "wide"], "bad")
