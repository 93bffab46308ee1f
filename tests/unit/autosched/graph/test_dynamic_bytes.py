"""Layers of bytes: which they are, how far off their results are, and what is shared."""

from __future__ import annotations

import numpy as np
import pytest

from autosched.graph.builder import GraphBuilder
from autosched.graph.dynamic_bytes import (
    dequantised_operands,
    dynamic_byte_layers,
    in_dynamic_bytes,
)
from autosched.graph.evaluate import evaluate, evaluate_node
from autosched.graph.fusion import fuse
from autosched.graph.ir import Graph, Value
from autosched.graph.ops.conv import Conv
from autosched.graph.ops.elementwise import BinaryOp, UnaryOp
from autosched.graph.ops.matmul import MatMul
from autosched.graph.optimize import optimize

RNG = np.random.default_rng(0)


def numbers(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def product(rows: int, positive: bool = False, weight: np.ndarray | None = None) -> Graph:
    builder = GraphBuilder("product")
    data = builder.input(Value("data", (rows, 12)))
    if positive:
        data = builder.add(UnaryOp("relu"), (data,))
    factor = builder.constant("weight", numbers(12, 7) if weight is None else weight)
    bias = builder.constant("bias", numbers(7))
    total = builder.add(MatMul(), (data, factor), name="layer")
    return optimize(builder.finish({"out": builder.add(BinaryOp("add"), (total, bias))}))


def window(channels: int, padding: int, positive: bool) -> Graph:
    builder = GraphBuilder("window")
    data = builder.input(Value("data", (2, channels, 6, 6)))
    if positive:
        data = builder.add(UnaryOp("relu"), (data,))
    factor = builder.constant("weight", numbers(8, channels, 3, 3))
    conv = Conv(padding=(padding,) * 4)
    inputs = (data, factor, builder.constant("bias", numbers(8)))
    return optimize(builder.finish({"out": builder.add(conv, inputs, name="layer")}))


def in_bytes(graph: Graph) -> Graph:
    return in_dynamic_bytes(graph, {node.name for node in dynamic_byte_layers(graph)})


def check(graph: Graph, data: np.ndarray, bound: float = 0.02) -> None:
    """Results are those of both factors rounded, and near those of the graph."""
    found = evaluate(in_bytes(graph), {"data": data})["out"]
    exact = evaluate(graph, {"data": data})["out"]
    assert 0 < np.abs(found - exact).max() < bound * np.abs(exact).max()
    (layer,) = dynamic_byte_layers(graph)
    rounded = []

    def see(node, operands, _):
        if node.name == layer.name:
            operands = dequantised_operands(graph, node, operands)
            rounded.append(evaluate_node(node, operands))

    evaluate(graph, {"data": data}, see)
    np.testing.assert_allclose(found.ravel().sum(), rounded[0].sum(), rtol=1e-5)


@pytest.mark.parametrize("positive", [False, True])
@pytest.mark.parametrize("rows", [1, 5])
def test_products(rows: int, positive: bool) -> None:
    check(product(rows, positive), numbers(rows, 12))


@pytest.mark.parametrize("positive", [False, True])
@pytest.mark.parametrize("padding", [0, 1])
@pytest.mark.parametrize("channels", [3, 8])
def test_convolutions(channels: int, padding: int, positive: bool) -> None:
    """What is padded is a zero of the bytes, whole lanes of channels or not."""
    check(window(channels, padding, positive), numbers(2, channels, 6, 6))


def test_each_row_has_its_own_steps() -> None:
    """One a million times another loses nothing."""
    graph, data = product(2), numbers(2, 12)
    data[1] *= 1e6
    found, exact = (evaluate(g, {"data": data})["out"] for g in (in_bytes(graph), graph))
    for row, wanted in zip(found, exact, strict=True):
        assert np.abs(row - wanted).max() < 0.02 * np.abs(wanted).max()


def test_zeros_and_small_numbers() -> None:
    """Rows of zeros give the bias; channels of zeros, zeros; nothing is divided by 0."""
    weight = numbers(12, 7)
    weight[:, 2], weight[:, 3] = 0, 1e-40
    graph = product(3, weight=weight)
    data = numbers(3, 12)
    data[0], data[1] = 0, 1e-35
    found, exact = (evaluate(g, {"data": data})["out"] for g in (in_bytes(graph), graph))
    np.testing.assert_allclose(found[:2], exact[:2], rtol=1e-6)
    np.testing.assert_allclose(found[:, 2:4], exact[:, 2:4], rtol=1e-6)


@pytest.mark.parametrize("number", [np.inf, np.nan])
def test_what_is_no_number_is_none_afterwards(number: float) -> None:
    graph, data = product(2), numbers(2, 12)
    data[0, 4] = number
    found = evaluate(in_bytes(graph), {"data": data})["out"]
    assert not np.isfinite(found[0]).any() and np.isfinite(found[1]).all()


def test_layers_of_the_same_data_quantise_them_once() -> None:
    builder = GraphBuilder("shared")
    data = builder.input(Value("data", (2, 4, 6, 6)))
    outputs = {}
    for name in ("a", "b"):
        factor = builder.constant(f"{name}.weight", numbers(8, 4, 3, 3))
        outputs[name] = builder.add(Conv(padding=(1, 1, 1, 1)), (data, factor), name=name)
    graph = in_bytes(optimize(builder.finish(outputs)))
    kinds = [node.op.kind for node in graph.nodes]
    assert kinds.count("reduce_max") == kinds.count("pad") == 1 and kinds.count("conv2d") == 2


def test_kernels_are_the_largest_numbers_the_bytes_and_the_product() -> None:
    found = [[node.op.kind for node in group.nodes] for group in fuse(in_bytes(product(4)))]
    assert [kinds[0] for kinds in found] == ["abs", "max", "dense"]
    assert found[2] == ["dense", "cast", "mul", "mul", "add"]


def test_a_picture_is_quantised_where_it_lies() -> None:
    """And turned as bytes: no float is moved."""
    graph = in_bytes(window(3, 1, positive=False))
    turned = [node for node in graph.nodes if node.op.kind == "transpose"]
    assert graph.types[turned[0].inputs[0]].dtype == "uint8"
    assert len(turned) == 2  # and the result


def test_which_layers() -> None:
    """Weights are numbers; sums fit int32."""
    assert len(dynamic_byte_layers(product(2))) == 1
    for weight in (np.full((12, 7), np.inf, np.float32), np.full((12, 7), np.nan, np.float32)):
        assert dynamic_byte_layers(product(2, weight=weight)) == ()
    builder = GraphBuilder("long")
    data = builder.input(Value("data", (1, 70_000)))
    factor = builder.constant("weight", np.ones((70_000, 1), np.float32))
    graph = optimize(builder.finish({"out": builder.add(MatMul(), (data, factor))}))
    assert dynamic_byte_layers(graph) == () and in_dynamic_bytes(graph, {"layer"}) is graph
