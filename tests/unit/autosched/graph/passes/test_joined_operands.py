"""Products of few rows read the parts of joined operands where these lie."""

from __future__ import annotations

import numpy as np
import pytest

import autosched as asd
from autosched.graph.builder import GraphBuilder
from autosched.graph.evaluate import evaluate
from autosched.graph.extract import extract
from autosched.graph.ir import Graph, Network, Value
from autosched.graph.ops.einsum import Einsum
from autosched.graph.ops.elementwise import BinaryOp, UnaryOp
from autosched.graph.ops.matmul import MatMul
from autosched.graph.ops.shape import Concat, Copy, Transpose
from autosched.graph.ops.softmax import Softmax
from autosched.graph.optimize import optimize
from autosched.graph.passes.joined_operands import read_joined_operands

RNG = np.random.default_rng(0)


def product(
    shapes: tuple[tuple[int, ...], tuple[int, ...]],
    axis: int,
    other: tuple[int, ...],
    first: bool,
    labels: tuple[str, str, str] | None = None,
) -> Graph:
    """``Concat(a, relu(b)) @ x``, or ``x @ Concat(a, relu(b))``; as an einsum where labels are."""
    builder = GraphBuilder("g")
    a, b = (builder.input(Value(n, s)) for n, s in zip("ab", shapes, strict=True))
    x = builder.input(Value("x", other))
    whole = builder.add(Concat(axis), (a, builder.add(UnaryOp("relu"), (b,))))
    op = MatMul() if labels is None else Einsum(labels[:2], labels[2])
    return builder.finish({"y": builder.add(op, (whole, x) if first else (x, whole))})


def given(graph: Graph) -> dict[str, np.ndarray]:
    return {v.name: RNG.standard_normal(v.shape).astype(np.float32) for v in graph.inputs}


CASES = {
    "columns": product(((2, 5, 6), (2, 5, 3)), 2, (2, 1, 5), first=False),
    "what is summed": product(((2, 6, 5), (2, 3, 5)), 1, (2, 4, 9), first=False),
    "rows": product(((6, 5), (1, 5)), 0, (5, 3), first=True),
    "what the first sums": product(((2, 4, 6), (2, 4, 1)), 2, (2, 7, 3), first=True),
    "an einsum": product(
        ((2, 6, 3, 5), (2, 1, 3, 5)), 1, (2, 3, 2, 5), False, ("Bhik", "Bjhk", "Bhij")
    ),
    "shared heads": product(((3, 6, 5), (3, 2, 5)), 1, (3, 4, 8), False, ("Aij", "Ajk", "Aik")),
}


@pytest.mark.parametrize("name", CASES)
def test_no_part_is_joined(name: str) -> None:
    graph = CASES[name]
    found = read_joined_operands(graph)
    assert found is not graph
    data = given(graph)
    np.testing.assert_allclose(evaluate(found, data)["y"], evaluate(graph, data)["y"], rtol=1e-12)
    kernels = extract(found)
    assert not any(isinstance(node.op, Copy) for node in kernels.graph.nodes)


def test_others_stay() -> None:
    many = product(((2, 5, 6), (2, 5, 3)), 2, (2, 12, 5), first=False)
    batch = product(((2, 5, 6), (1, 5, 6)), 0, (3, 1, 5), first=False)
    for graph in (many, batch):
        assert read_joined_operands(graph) is graph


def decoder(result: bool = False, twice: bool = False) -> Graph:
    """Attention of one token; ``result``: keys are a result, ``twice``: somebody else reads them"""
    builder = GraphBuilder("g")
    shapes = {"q": (1, 2, 1, 8), "k": (1, 2, 6, 8), "v": (1, 2, 6, 8), "n": (1, 2, 1, 8)}
    q, k, v, new = (builder.input(Value(name, shape)) for name, shape in shapes.items())
    new = builder.add(UnaryOp("tanh"), (new,))
    keys, values = (builder.add(Concat(2), (past, new)) for past in (k, v))
    turned = builder.add(Transpose((0, 1, 3, 2)), (keys,))
    scores = builder.add(MatMul(), (q, turned))
    half = builder.constant("half", np.asarray(0.5, np.float32))
    scores = builder.add(BinaryOp("mul"), (scores, half))
    weights = builder.add(Softmax(3), (scores,))
    results = {"y": builder.add(MatMul(), (weights, values))}
    if result:
        results["keys"] = keys
    if twice:
        results["more"] = builder.add(UnaryOp("exp"), (keys,))
    return builder.finish(results)


@pytest.mark.parametrize(
    ("changed", "joined"), [({}, 0), ({"result": True}, 1), ({"twice": True}, 1)]
)
def test_caches_of_a_decoder_are_not_copied(changed: dict[str, bool], joined: int) -> None:
    """But for those that a result or another reader wants in one piece."""
    graph = decoder(**changed)
    found = extract(graph).graph
    pasts = [n for n in found.nodes if isinstance(n.op, Copy) and n.inputs[0] in ("k", "v")]
    assert len(pasts) == joined
    if not joined:
        scaled = [n for n in found.nodes if n.op == BinaryOp("mul")]
        assert {found.producers[n.inputs[0]].op.kind for n in scaled} == {"einsum"}
    data = given(graph)
    exact = evaluate(graph, data)
    for name, array in evaluate(optimize(graph), data).items():
        np.testing.assert_allclose(array, exact[name], rtol=1e-12)
    run = asd.compile(Network("g", graph), effort="none").run(data)
    for name, array in run.items():
        np.testing.assert_allclose(array, exact[name], rtol=1e-5, atol=1e-5)
