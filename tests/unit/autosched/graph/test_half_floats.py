"""Layers in 16-bit floats: which they are, what is rounded, and what is stored."""

from __future__ import annotations

import numpy as np
import pytest

from autosched.graph.builder import GraphBuilder
from autosched.graph.evaluate import evaluate
from autosched.graph.extract import extract
from autosched.graph.fusion import fuse
from autosched.graph.half_floats import half_float_layers, in_half_floats
from autosched.graph.ir import Graph, Network, Value
from autosched.graph.ops.conv import Conv
from autosched.graph.ops.einsum import Einsum
from autosched.graph.ops.elementwise import BinaryOp, UnaryOp
from autosched.graph.ops.matmul import MatMul
from autosched.graph.ops.pooling import Pool
from autosched.graph.ops.softmax import Softmax
from autosched.graph.optimize import optimize
from autosched.graph.precision import ReducedLayers
from sketch.lang.dtypes import STORAGE_FLOATS
from sketch.lang.storage_floats import storage_floats

RNG = np.random.default_rng(0)


def weight(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def all_layers(graph: Graph, narrow: str = "bfloat16") -> Graph:
    names = {node.name for node in half_float_layers(graph, narrow)}
    return in_half_floats(graph, names, narrow)


def conv(builder: GraphBuilder, data: str, filters: int, name: str, groups: int = 1) -> str:
    inputs = builder.types[data].shape[1] // groups
    factor = builder.constant(f"{name}.weight", weight(filters, inputs, 3, 3))
    return builder.add(Conv(padding=(1, 1, 1, 1), groups=groups), (data, factor), name=name)


def residual(projected: bool = False) -> Graph:
    """A picture, a pool, and a block with a shortcut, which may have a layer."""
    builder = GraphBuilder("residual")
    image = builder.input(Value("image", (1, 3, 8, 8)))
    first = builder.add(UnaryOp("relu"), (conv(builder, image, 8, "first"),))
    pooled = builder.add(Pool("max", (2, 2), (2, 2)), (first,))
    second = builder.add(UnaryOp("relu"), (conv(builder, pooled, 8, "second"),))
    shortcut = conv(builder, pooled, 8, "shortcut") if projected else pooled
    total = builder.add(BinaryOp("add"), (conv(builder, second, 8, "third"), shortcut))
    last = conv(builder, builder.add(UnaryOp("relu"), (total,)), 8, "last")
    return optimize(builder.finish({"out": last}))


def kernels(graph: Graph) -> list[tuple[list[str], str]]:
    return [([n.op.kind for n in g.nodes], graph.types[g.root.output].dtype) for g in fuse(graph)]


def test_what_is_rounded_is_what_is_stored() -> None:
    plain, rounded = residual(), all_layers(residual())
    assert len(fuse(rounded)) == len(fuse(plain)) + 1  # the picture gets an even channel
    assert kernels(rounded) == [
        (["cast", "transpose", "pad"], "bfloat16"),
        (["conv2d", "relu", "cast"], "bfloat16"),
        (["max_pool2d"], "bfloat16"),
        (["conv2d", "relu", "cast"], "bfloat16"),
        (["conv2d", "cast", "add", "relu", "cast"], "bfloat16"),
        (["conv2d"], "float32"),
        (["transpose"], "float32"),
    ]


def test_float16_needs_no_lanes_of_two() -> None:
    """And is not summed by units: the picture keeps its three channels."""
    found = kernels(all_layers(residual(), "float16"))
    assert found[0] == (["cast", "transpose"], "float16")
    assert found[1] == (["conv2d", "relu", "cast"], "float16")
    assert (["conv2d", "cast", "add", "relu", "cast"], "float16") in found


def test_weights_that_float16_cannot_hold_stay() -> None:
    builder = GraphBuilder("large")
    data = builder.input(Value("data", (2, 4)))
    for name, size in (("small", 1.0), ("large", 7e4)):
        factor = builder.constant(f"{name}.weight", np.full((4, 4), size, np.float32))
        data = builder.add(MatMul(), (data, factor), name=name)
    graph = optimize(builder.finish({"out": data}))
    assert [node.name for node in half_float_layers(graph, "float16")] == ["small"]


def test_a_layer_in_a_shortcut_leaves_bfloat16() -> None:
    found = kernels(all_layers(residual(projected=True)))
    assert (["conv2d", "cast"], "bfloat16") in found
    assert (["conv2d", "cast", "add", "relu", "cast"], "bfloat16") in found


def test_an_average_widens_what_it_reads() -> None:
    builder = GraphBuilder("pooled")
    image = builder.input(Value("image", (1, 4, 8, 8)))
    first = conv(builder, image, 4, "first")
    pooled = builder.add(Pool("avg", (2, 2), (1, 1)), (first,))
    outputs = {"a": conv(builder, first, 4, "second"), "b": conv(builder, pooled, 4, "third")}
    found = kernels(all_layers(optimize(builder.finish(outputs))))
    assert (["cast", "avg_pool2d", "cast"], "bfloat16") in found
    assert (["cast"], "float32") not in found


@pytest.mark.parametrize("narrow", STORAGE_FLOATS)
def test_results_are_those_of_rounded_operands(narrow: str) -> None:
    """A layer is exact on what it is given, and data are rounded once."""
    builder = GraphBuilder("product")
    data = builder.input(Value("data", (5, 6)))
    factor = builder.constant("factor", weight(6, 4))
    graph = optimize(builder.finish({"out": builder.add(MatMul(), (data, factor))}))
    rounded = all_layers(graph, narrow)
    array = weight(5, 6)
    found = evaluate(rounded, {"data": array})["out"]
    given = array, builder.constants[factor]
    exact = [storage_floats(a, narrow).astype(float) for a in given]
    np.testing.assert_allclose(found, exact[0] @ exact[1], rtol=1e-12)
    assert np.abs(found - evaluate(graph, {"data": array})["out"]).max() > 1e-5


def test_which_layers() -> None:
    builder = GraphBuilder("layers")
    image = builder.input(Value("image", (1, 4, 6, 6)))
    grouped = conv(builder, conv(builder, image, 4, "plain"), 4, "grouped", groups=2)
    factor = builder.constant("large.weight", np.full((4, 4, 1, 1), 3.4e38, np.float32))
    large = builder.add(Conv(), (grouped, factor), name="large")  # bfloat16 has no such number
    flat = builder.add(MatMul(), (large, large), name="no constant")  # of a matrix by itself
    graph = optimize(builder.finish({"out": flat}))
    assert [node.name for node in half_float_layers(graph, "bfloat16")] == ["plain"]
    assert in_half_floats(graph, (), "bfloat16") is graph
    assert in_half_floats(graph, {"grouped", "unknown"}, "bfloat16") is graph


def attention() -> Graph:
    """Of rows of a layer each; what reads it is a layer, too."""
    builder = GraphBuilder("attention")
    data = builder.input(Value("data", (80, 6)))
    q, k, v = (
        builder.add(MatMul(), (data, builder.constant(f"{n}.weight", weight(6, 8) / 4)), name=n)
        for n in "qkv"
    )
    scores = builder.add(Einsum(("ik", "jk"), "ij"), (q, k), name="scores")
    mixed = builder.add(MatMul(), (builder.add(Softmax(-1), (scores,)), v), name="mixed")
    last = builder.constant("last.weight", weight(8, 4))
    return optimize(builder.finish({"out": builder.add(MatMul(), (mixed, last), name="last")}))


def test_both_products_of_attention_are_layers_in_one_kernel() -> None:
    """Units are for bfloat16 alone: other types stay as they are."""
    graph = attention()
    names = [node.name for node in half_float_layers(graph, "bfloat16")]
    assert {"scores", "mixed"} <= set(names) and len(names) == 4
    assert not {"scores", "mixed"} & {n.name for n in half_float_layers(graph, "float16")}
    network = Network("attention", graph, ReducedLayers("bf16", frozenset(names)))
    tasks = [call.dag for call in extract(network, chains=True).subgraphs]
    (dag,) = [dag for dag in tasks if len([op for op in dag.stages if op.reduce is not None]) > 1]
    assert {t.dtype for t in (*dag.inputs, *dag.outputs)} == {"bfloat16"}
    sums = [op for op in dag.stages if op.reduce is not None]
    assert {op.output_dtypes for op in sums} == {("float32",)}


def test_rounded_attention_is_within_its_roundings() -> None:
    graph, data = attention(), {"data": weight(80, 6)}
    exact, found = (evaluate(g, data)["out"] for g in (graph, all_layers(graph)))
    assert 0 < np.abs(found - exact).max() <= 2.0**-6 * np.abs(exact).max()


def test_products_that_reuse_nothing_stay() -> None:
    """Of one row, of a matrix by itself, and those that sum nothing."""
    builder = GraphBuilder("products")
    one, many = (builder.input(Value(f"x{n}", (n, 8))) for n in (1, 4))
    other = builder.input(Value("y", (8, 4)))
    outputs = {
        "row": builder.add(MatMul(), (one, other)),
        "square": builder.add(Einsum(("ik", "jk"), "ij"), (many, many)),
        "outer": builder.add(Einsum(("ik", "lj"), "iklj"), (many, other)),
    }
    assert half_float_layers(optimize(builder.finish(outputs)), "bfloat16") == ()


@pytest.mark.parametrize("narrow", STORAGE_FLOATS)
def test_depthwise_convolutions_read_and_leave_narrow_ones(narrow: str) -> None:
    """Of any number of channels: they are no lanes of two."""
    builder = GraphBuilder("depthwise")
    image = builder.input(Value("image", (1, 4, 6, 6)))
    first = builder.add(UnaryOp("relu"), (conv(builder, image, 5, "first"),))
    each = builder.add(UnaryOp("relu"), (conv(builder, first, 5, "each", groups=5),))
    graph = optimize(builder.finish({"out": conv(builder, each, 4, "last")}))
    rounded = all_layers(graph, narrow)
    found = [(kinds[0], dtype) for kinds, dtype in kernels(rounded) if kinds[0] == "conv2d"]
    assert found == [("conv2d", narrow), ("conv2d", narrow), ("conv2d", "float32")]
    data = {"image": weight(1, 4, 6, 6)}
    values, exact = (evaluate(g, data)["out"] for g in (rounded, graph))
    assert 0 < np.abs(values - exact).max() < 0.03 * np.abs(exact).max()


def test_an_output_that_a_layer_reads_is_not_rounded() -> None:
    builder = GraphBuilder("outputs")
    image = builder.input(Value("image", (1, 4, 6, 6)))
    first = conv(builder, image, 4, "first")
    second = conv(builder, first, 4, "second")
    total = builder.add(BinaryOp("add"), (first, second))
    graph = optimize(builder.finish({"first": first, "total": total}))
    rounded = in_half_floats(graph, {"second"}, "bfloat16")
    inputs = {"image": weight(1, 4, 6, 6)}
    found, exact = evaluate(rounded, inputs), evaluate(graph, inputs)
    np.testing.assert_array_equal(found["first"], exact["first"])
    assert 0 < np.abs(found["total"] - exact["total"]).max() < 0.5


def test_a_network_says_which_of_its_layers() -> None:
    reduced = ReducedLayers("bf16", frozenset({"second", "third"}))
    network = Network("residual", residual(), reduced)
    plain = extract(Network("residual", residual()))
    rounded = extract(network)
    keys = [{task.dag.key for task in found.tasks} for found in (plain, rounded)]
    assert len(keys[0] - keys[1]) >= 2


def test_layers_of_one_weight_have_each_its_padding() -> None:
    """One channel grows to a lane of two where all are summed, not where each is by itself."""
    builder = GraphBuilder("shared")
    data = builder.input(Value("data", (1, 1, 8, 8)))
    factor = builder.constant("factor", weight(4, 1, 3, 3))
    for groups in (1, 4):
        data = builder.add(Conv(groups=groups), (data, factor))
    graph = optimize(builder.finish({"out": data}))
    image = {"data": np.random.default_rng(1).standard_normal((1, 1, 8, 8)).astype(np.float32)}
    exact = evaluate(graph, image)["out"]
    found = evaluate(all_layers(graph), image)["out"]
    assert 0 < np.abs(found - exact).max() < 0.02 * np.abs(exact).max()
