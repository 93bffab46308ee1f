"""Extraction: kernel calls that reproduce the network, and the tasks they share."""

import numpy as np
import pytest

import autosched
from autosched import zoo
from autosched.graph.builder import GraphBuilder
from autosched.graph.evaluate import evaluate
from autosched.graph.extract import Extraction, extract
from autosched.graph.ir import Graph, Network, Value
from autosched.graph.ops.conv import Conv
from autosched.graph.ops.einsum import Einsum
from autosched.graph.ops.elementwise import BinaryOp, UnaryOp
from autosched.graph.ops.matmul import Dense
from autosched.graph.ops.shape import Reshape, Transpose
from sketch.lang.tensor import Placeholder
from tests.support.extractions import run_kernels


def _assert_same(model: Graph) -> Extraction:
    rng = np.random.default_rng(3)
    inputs = {v.name: rng.standard_normal(v.shape, dtype=np.float32) for v in model.inputs}
    extraction = extract(model)
    values, expected = run_kernels(extraction, inputs), evaluate(model, inputs)
    assert values.keys() == expected.keys()
    for name, array in expected.items():
        assert values[name].shape == array.shape
        assert np.abs(values[name] - array).max() <= 1e-5 * np.abs(array).max()
    return extraction


@pytest.fixture(scope="module")
def resnet() -> Network:
    return zoo.build("resnet-18", batch=2, image=32)


@pytest.mark.slow
def test_resnet_kernels_compute_the_network(resnet: Network) -> None:
    _assert_same(resnet.graph)


def test_resnet_18_has_eighteen_tasks() -> None:
    extraction = extract(zoo.build("resnet-18"))
    assert len(extraction.subgraphs) == 23
    assert [weight for _, weight in extraction.tasks] == [
        1, 1, 2, 2, 1, 1, 2, 1, 1, 1, 2, 1, 1, 1, 2, 1, 1, 1,
    ]  # fmt: skip
    total = sum(dag.flops * weight for dag, weight in extraction.tasks)
    assert total == pytest.approx(3.6355e9, rel=1e-4)


def test_subgraphs_of_one_task_share_the_program(resnet: Network) -> None:
    extraction = extract(resnet)
    programs = {id(dag) for dag, _ in extraction.tasks}
    assert {id(call.dag) for call in extraction.subgraphs} == programs
    assert sum(weight for _, weight in extraction.tasks) == len(extraction.subgraphs)
    assert len({dag.key for dag, _ in extraction.tasks}) == len(extraction.tasks)
    assert len({call.name for call in extraction.subgraphs}) == len(extraction.subgraphs)


def test_placeholders_are_bound_and_weights_are_constants(resnet: Network) -> None:
    for call in extract(resnet).subgraphs:
        marked = {t.name: t.op.constant for t in call.dag.inputs if isinstance(t.op, Placeholder)}
        assert set(call.constants) == {name for name, constant in marked.items() if constant}
        assert set(call.inputs) == {name for name, constant in marked.items() if not constant}


def test_every_layer_of_the_model_is_computed_once(resnet: Network) -> None:
    layers = [layer for call in extract(resnet).subgraphs for layer in call.layers]
    assert len(layers) == len(set(layers))
    named = {node.name for node in resnet.graph.nodes if not isinstance(node.op, Reshape)}
    assert set(layers) == named


def test_weights_of_any_seed_give_the_same_tasks() -> None:
    tasks = [extract(zoo.build("squeezenet-1.1", image=34, seed=seed)).tasks for seed in (0, 1)]
    assert [dag.key for dag, _ in tasks[0]] == [dag.key for dag, _ in tasks[1]]


def test_views_are_no_kernels_even_as_outputs() -> None:
    builder = GraphBuilder("views")
    x = builder.input(Value("x", (2, 6)))
    seen = builder.add(Reshape((3, 4)), [x], "seen")
    doubled = builder.add(BinaryOp("add"), [seen, seen], "doubled")
    flat = builder.add(Reshape((12,)), [doubled], "flat")
    extraction = _assert_same(builder.finish({"flat": flat, "view": seen, "input": x}))
    assert len(extraction.subgraphs) == 1
    assert extraction.results == {"flat": "doubled", "view": "x", "input": "x"}
    assert extraction.subgraphs[0].inputs == {"lhs": "x"}


def test_constant_outputs_need_no_kernel() -> None:
    builder = GraphBuilder("constant")
    builder.input(Value("x", (2,)))
    one = builder.constant("one", np.ones(2, np.float32))
    total = builder.add(BinaryOp("add"), [one, one], "two")
    extraction = _assert_same(builder.finish({"y": total}))
    assert extraction.subgraphs == ()
    assert extraction.results == {"y": "two"}


def test_vgg_head_needs_no_transpose_of_maps() -> None:
    rng = np.random.default_rng(0)
    builder = GraphBuilder("vgg")
    x = builder.input(Value("data", (1, 3, 8, 8)))
    weight = builder.constant("w", rng.standard_normal((4, 3, 3, 3), dtype=np.float32))
    maps = builder.add(Conv(padding=(1,) * 4), [x, weight])
    flat = builder.add(Reshape((1, 256)), [builder.add(UnaryOp("relu"), [maps])])
    head = builder.constant("fc", rng.standard_normal((256, 10), dtype=np.float32))
    extraction = _assert_same(builder.finish({"y": builder.add(Dense(), [flat, head])}))
    names = [call.name for call in extraction.subgraphs]
    assert names == ["transpose_conv2d_relu.1", "dense.1"]


def test_operands_in_either_order_share_a_task() -> None:
    rng = np.random.default_rng(0)
    builder = GraphBuilder("order")
    x = builder.input(Value("x", (8, 8)))
    row = builder.input(Value("row", (8,)))
    for step in range(4):
        weight = builder.constant(f"w{step}", rng.standard_normal((8, 8), dtype=np.float32))
        product = builder.add(Dense(), [x, weight])
        operands = [product, row] if step % 2 else [row, product]
        x = builder.add(UnaryOp("tanh"), [builder.add(BinaryOp("mul"), operands)])
    extraction = _assert_same(builder.finish({"y": x}))
    assert [weight for _, weight in extraction.tasks] == [4]


def test_programs_of_one_key_bind_their_own_operands() -> None:
    builder = GraphBuilder("commuted")
    a, b, c = (builder.input(Value(name, (4, 4))) for name in "abc")
    for number, (first, second) in enumerate([(a, b), (b, a)]):
        squared = builder.add(BinaryOp("mul"), [first, first])
        total = builder.add(BinaryOp("add"), [squared, second], f"total{number}")
    swapped = builder.add(BinaryOp("add"), [a, builder.add(BinaryOp("mul"), [c, c])], "total2")
    results = {"y0": "total0", "y1": total, "y2": swapped}
    extraction = _assert_same(builder.finish(results))
    assert [weight for _, weight in extraction.tasks] == [3]


def test_input_transposed_into_an_elementwise_consumer() -> None:
    builder = GraphBuilder("fused")
    x = builder.input(Value("x", (1, 3, 4, 5)))
    moved = builder.add(Transpose((0, 2, 3, 1)), [x])
    extraction = _assert_same(builder.finish({"y": builder.add(UnaryOp("relu"), [moved])}))
    assert len(extraction.subgraphs) == 1


def test_every_layer_is_in_a_kernel(resnet: Network) -> None:
    extraction = extract(resnet)
    assert (len(extraction.subgraphs), len(extraction.tasks)) == (23, 18)
    layers = {layer for subgraph in extraction.subgraphs for layer in subgraph.layers}
    views = {node.name for node in resnet.graph.nodes if isinstance(node.op, Reshape)}
    assert {node.name for node in resnet.graph.nodes} - layers == views


@pytest.mark.parametrize("labels", [("bik", "bjk"), ("bki", "bkj")])
def test_both_factors_of_a_square_can_be_packed(labels: tuple[str, str]) -> None:
    """Of a product of a value with itself, as between all pairs of some features."""
    builder = GraphBuilder("square")
    x = builder.input(Value("x", (6, 20, 20)))
    graph = builder.finish({"y": builder.add(Einsum(labels, "bij"), (x, x))})
    (call,) = extract(graph).subgraphs
    assert list(call.inputs.values()) == ["x", "x"]
    data = {"x": np.random.default_rng(0).standard_normal((6, 20, 20), dtype=np.float32)}
    expected = evaluate(graph, data)["y"]
    found = autosched.compile(Network("square", graph), threads=2).run(data)["y"]
    assert np.abs(found - expected).max() <= 1e-5 * np.abs(expected).max()
