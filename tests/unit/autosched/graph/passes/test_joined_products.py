"""Products of one value with several constants are one product."""

from __future__ import annotations

import numpy as np
import pytest

import autosched as asd
from autosched.graph.builder import GraphBuilder
from autosched.graph.evaluate import evaluate
from autosched.graph.ir import Graph, Network, Value
from autosched.graph.ops.einsum import Einsum
from autosched.graph.ops.elementwise import BinaryOp, UnaryOp
from autosched.graph.ops.matmul import Dense
from autosched.graph.ops.movement import Slice
from autosched.graph.ops.shape import Concat, Reshape
from autosched.graph.ops.softmax import Softmax
from autosched.graph.passes.joined_products import join_products

RNG = np.random.default_rng(0)
HEADS, WIDTH = 2, 4


def attention(
    rows: int = 6,
    bias: tuple[bool, bool, bool] = (True, True, True),
    activation: bool = False,
    result: bool = False,
    others: bool = False,
) -> Graph:
    """Queries, keys and values of ``x``; ``activation``: of the queries; ``result``: keys are one;
    ``others``: values are of another value.
    """
    builder = GraphBuilder("g")
    x = builder.input(Value("x", (rows, 8)))
    z = builder.input(Value("z", (rows, 8)))
    made = []
    for name, biased in zip("qkv", bias, strict=True):
        weight = RNG.standard_normal((8, HEADS * WIDTH)).astype(np.float32)
        operands = [z if others and name == "v" else x, builder.constant(f"{name}.w", weight)]
        if biased:
            ones = RNG.standard_normal(HEADS * WIDTH).astype(np.float32)
            operands.append(builder.constant(f"{name}.b", ones))
        made.append(builder.add(Dense(), operands, name, name, (f"layer {name}",)))
    if activation:
        made[0] = builder.add(UnaryOp("tanh"), (made[0],))
    q, k, v = (builder.add(Reshape((rows, HEADS, WIDTH)), (value,)) for value in made)
    scores = builder.add(Einsum(("iAk", "jAk"), "Aij"), (q, k))
    weights = builder.add(Softmax(2), (scores,))
    results = {"y": builder.add(Einsum(("Aik", "kAj"), "iAj"), (weights, v))}
    if result:
        results["keys"] = made[1]
    return builder.finish(results)


def joined(graph: Graph) -> list[int]:
    """How many results each product of the rewritten graph has, in order."""
    found = join_products(graph)
    products = [node for node in found.nodes if isinstance(node.op, Dense)]
    parts = [
        sum(isinstance(reader.op, Slice) for reader in found.consumers[node.output])
        for node in products
    ]
    data = {v.name: RNG.standard_normal(v.shape).astype(np.float32) for v in graph.inputs}
    expected, result = evaluate(graph, data), evaluate(found, data)
    assert expected.keys() == result.keys()
    for name, array in expected.items():
        np.testing.assert_allclose(result[name], array, rtol=1e-12, atol=1e-12)
    return parts


def test_three_products_are_one() -> None:
    assert joined(attention()) == [3]
    assert joined(attention(bias=(False, False, False))) == [3]
    (product,) = [n for n in join_products(attention()).nodes if isinstance(n.op, Dense)]
    assert product.origins == ("layer q", "layer k", "layer v")


def test_products_whose_columns_are_rotated_are_joined() -> None:
    """Nothing is computed where they are stored, since parts of them are read."""
    builder = GraphBuilder("g")
    x = builder.input(Value("x", (6, 8)))
    turned = []
    for name, width in (("q", 12), ("k", 4)):
        weight = builder.constant(name, RNG.standard_normal((8, width)).astype(np.float32))
        whole = builder.add(Dense(), (x, weight))
        heads = builder.add(Reshape((6, width // 4, 4)), (whole,))
        halves = [
            builder.add(Slice((0, 0, s), (6, width // 4, s + 2), (1, 1, 1)), (heads,))
            for s in (2, 0)
        ]
        rotated = builder.add(Concat(2), (builder.add(UnaryOp("neg"), halves[:1]), halves[1]))
        turned.append(builder.add(BinaryOp("add"), (heads, rotated)))
    graph = builder.finish({"y": builder.add(Einsum(("iAk", "jBk"), "ABij"), turned)})
    assert joined(graph) == [2]


@pytest.mark.parametrize(
    ("graph", "parts"),
    [
        (attention(activation=True), [0, 2]),
        (attention(result=True), [0, 0, 0]),
        (attention(others=True), [2, 0]),
        (attention(bias=(True, True, False)), [2, 0]),
        (attention(rows=1), [0, 0, 0]),
    ],
    ids=["read element by element", "a result", "of another value", "no bias", "one row"],
)
def test_others_stay(graph: Graph, parts: list[int]) -> None:
    assert joined(graph) == parts


def test_products_around_another_stay() -> None:
    """The results of the first would be kept while the other is computed."""
    builder = GraphBuilder("g")
    x = builder.input(Value("x", (4, 8)))
    weights = [
        builder.constant(f"w{i}", RNG.standard_normal((8, 8)).astype(np.float32)) for i in range(3)
    ]
    first = builder.add(Dense(), (x, weights[0]))
    between = builder.add(Dense(), (builder.add(UnaryOp("exp"), (x,)), weights[1]))
    last = builder.add(Dense(), (x, weights[2]))
    pairs = [builder.add(Einsum(("ik", "jk"), "ij"), (other, first)) for other in (between, last)]
    graph = builder.finish({"y": builder.add(BinaryOp("add"), pairs)})
    assert join_products(graph) is graph


def test_parts_are_read_where_they_lie() -> None:
    graph = attention()
    module = asd.compile(Network("g", graph), asd.Target("cpu", threads=1))
    data = {v.name: RNG.standard_normal(v.shape).astype(np.float32) for v in graph.inputs}
    found = module.run({name: data[name] for name in (v.name for v in module.inputs)})
    np.testing.assert_allclose(found["y"], evaluate(graph, data)["y"], rtol=1e-4, atol=1e-5)
    kernels = [step.info.op for step in module.program.kernel_steps]
    assert kernels == ["dense_bias", "einsum", "softmax", "einsum"]  # and no copy
