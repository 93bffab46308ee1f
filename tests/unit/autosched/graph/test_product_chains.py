"""Attention is one kernel where nobody else reads its scores."""

from __future__ import annotations

import numpy as np
import pytest

from autosched.graph.builder import GraphBuilder
from autosched.graph.evaluate import evaluate
from autosched.graph.extract import extract
from autosched.graph.ir import Graph, Value
from autosched.graph.ops.einsum import Einsum
from autosched.graph.ops.elementwise import BinaryOp, UnaryOp, Where
from autosched.graph.ops.matmul import MatMul
from autosched.graph.ops.movement import Triangle
from autosched.graph.ops.shape import Reshape
from autosched.graph.ops.softmax import Softmax
from sketch.analysis.masks import known_stages, masked_needs
from tests.support.extractions import run_kernels

HEADS, ROWS, KEYS, SIZE = 4, 24, 20, 6


class _Net(GraphBuilder):
    """Queries, transposed keys and values of several heads."""

    def __init__(self, rows: int = ROWS) -> None:
        super().__init__("net")
        self.q = self.input(Value("q", (HEADS, rows, SIZE)))
        self.k = self.input(Value("k", (HEADS, SIZE, KEYS)))
        self.v = self.input(Value("v", (HEADS, KEYS, SIZE)))

    def zero(self) -> str:
        return self.constant("zero", np.zeros((), np.float32))

    def masked(self, scores: str) -> str:
        mask = self.constant("mask", np.tril(np.zeros((ROWS, KEYS), np.float32) - 4.0, -1))
        return self.add(BinaryOp("add"), [scores, mask])

    def attention(self, axis: int = -1) -> Graph:
        weights = self.add(Softmax(axis), [self.masked(self.add(MatMul(), [self.q, self.k]))])
        return self.finish({"y": self.add(MatMul(), [weights, self.v])})


def kernels(graph: Graph, chains: bool = True) -> list[str]:
    """The kernels' names; together they compute what the graph says."""
    rng = np.random.default_rng(5)
    inputs = {v.name: rng.standard_normal(v.shape, dtype=np.float32) for v in graph.inputs}
    extraction = extract(graph, chains)
    values, expected = run_kernels(extraction, inputs), evaluate(graph, inputs)
    for name, array in expected.items():
        assert np.abs(values[name] - array).max() <= 1e-5 * np.abs(array).max()
    return [call.name.rpartition(".")[0] for call in extraction.subgraphs]


def test_attention_is_one_kernel() -> None:
    assert kernels(_Net().attention()) == ["matmul_add_softmax_matmul"]


def test_scores_that_another_chain_makes_are_none_of_this_one() -> None:
    net = _Net()
    keys = net.input(Value("m", (HEADS, KEYS, KEYS)))
    weights = net.add(Softmax(), [net.add(MatMul(), [net.q, net.k])])
    scores = net.add(MatMul(), [weights, keys])
    graph = net.finish({"y": net.add(MatMul(), [net.add(Softmax(), [scores]), net.v])})
    assert kernels(graph) == ["matmul_softmax_matmul", "softmax", "matmul"]


def test_weights_that_weigh_their_own_rows_have_their_own_kernel() -> None:
    """A block of the product's rows needs all of them."""
    net = _Net(KEYS)
    weights = net.add(Softmax(), [net.add(MatMul(), [net.q, net.k])])
    graph = net.finish({"y": net.add(MatMul(), [weights, weights])})
    assert kernels(graph) == ["matmul", "softmax", "matmul"]


def test_views_between_scores_and_their_softmax_are_none_of_its_kernel() -> None:
    """As where several heads of queries share a head of keys."""
    net = _Net()
    scores = net.masked(net.add(MatMul(), [net.q, net.k]))
    split = net.add(Softmax(), [net.add(Reshape((2, HEADS // 2, ROWS, KEYS)), [scores])])
    found = net.add(Where(), [net.add(UnaryOp("is_nan"), [split]), net.zero(), split])
    weights = net.add(Reshape((HEADS, ROWS, KEYS)), [found])
    graph = net.finish({"y": net.add(MatMul(), [weights, net.v])})
    assert kernels(graph) == ["matmul_add_softmax_is_nan_where_matmul"]


def test_triangles_of_views_are_in_the_kernel_of_their_scores() -> None:
    net = _Net()
    scores = net.add(MatMul(), [net.q, net.k])
    split = net.add(Reshape((2, HEADS // 2, ROWS, KEYS)), [scores])
    seen = net.add(Softmax(), [net.add(Triangle(upper=False, hidden=True), [split])])
    weights = net.add(Reshape((HEADS, ROWS, KEYS)), [seen])
    graph = net.finish({"y": net.add(MatMul(), [weights, net.v])})
    assert kernels(graph) == ["matmul_triangle_softmax_matmul"]


@pytest.mark.parametrize("shape", [(HEADS, ROWS * KEYS), (HEADS, ROWS, KEYS // 2, 2)], ids=str)
def test_softmax_stays_along_what_a_view_splits_or_merges(shape: tuple[int, ...]) -> None:
    net = _Net()
    view = net.add(Reshape(shape), [net.masked(net.add(MatMul(), [net.q, net.k]))])
    assert kernels(net.finish({"y": net.add(Softmax(), [view])})) == ["matmul_add", "softmax"]


def test_keys_after_the_query_are_left_out_of_it() -> None:
    """Minus infinity stands where a row of the mask does, so loops may end there."""
    net = _Net()
    seen = net.add(Triangle(upper=False, hidden=True), [net.add(MatMul(), [net.q, net.k])])
    graph = net.finish({"y": net.add(MatMul(), [net.add(Softmax(), [seen]), net.v])})
    assert kernels(graph) == ["matmul_triangle_softmax_matmul"]
    (call,) = extract(graph, True).subgraphs
    stages = call.dag.stages
    known = dict(zip(stages, known_stages(stages), strict=True))
    found = masked_needs(stages, {tensor.op for tensor in call.dag.outputs}, known.get)
    assert all(stage in found for stage in stages)


def test_triangles_are_of_matrices() -> None:
    """A product with constant weights is one of rows, but what is hidden of them differs."""
    net = GraphBuilder("net")
    x = net.input(Value("x", (3, 5, 6)))
    weight = net.constant("weight", np.linspace(-1, 1, 24, dtype=np.float32).reshape(6, 4))
    kept = net.add(Triangle(upper=False), [net.add(MatMul(), [x, weight])])
    kernels(net.finish({"y": net.add(UnaryOp("tanh"), [kept])}))


def test_without_chains_products_have_their_own_kernels() -> None:
    assert kernels(_Net().attention(), chains=False) == ["matmul_add", "softmax", "matmul"]


def test_what_follows_attention_is_in_its_kernel() -> None:
    net = _Net()
    weights = net.add(Softmax(), [net.add(MatMul(), [net.q, net.k])])
    mixed = net.add(UnaryOp("tanh"), [net.add(MatMul(), [weights, net.v])])
    assert kernels(net.finish({"y": mixed})) == ["matmul_softmax_matmul_tanh"]


@pytest.mark.parametrize("turned", [False, True])
def test_weights_may_be_either_operand_of_an_einsum(turned: bool) -> None:
    net = _Net()
    weights = net.add(Softmax(), [net.add(Einsum(("hqd", "hdk"), "hqk"), [net.q, net.k])])
    labels, operands = ("hqk", "hkd"), [weights, net.v]
    if turned:
        labels, operands = labels[::-1], operands[::-1]
    graph = net.finish({"y": net.add(Einsum(labels, "qhd"), operands)})
    assert kernels(graph) == ["einsum_softmax_einsum"]


def _scores_are_an_output() -> Graph:
    net = _Net()
    scores = net.add(MatMul(), [net.q, net.k])
    mixed = net.add(MatMul(), [net.add(Softmax(), [scores]), net.v])
    return net.finish({"y": mixed, "scores": scores})


def _weights_are_read_twice() -> Graph:
    net = _Net()
    weights = net.add(Softmax(), [net.add(MatMul(), [net.q, net.k])])
    halves = net.add(UnaryOp("tanh"), [weights])
    return net.finish({"y": net.add(MatMul(), [weights, net.v]), "z": halves})


def _values_are_constant() -> Graph:
    net = _Net()
    weights = net.add(Softmax(), [net.add(MatMul(), [net.q, net.k])])
    values = net.constant("values", np.ones((HEADS, KEYS, SIZE), np.float32))
    return net.finish({"y": net.add(MatMul(), [weights, values])})


def _columns_are_normalised() -> Graph:
    return _Net().attention(axis=1)


def _few_rows() -> Graph:
    net = _Net(rows=1)
    weights = net.add(Softmax(), [net.add(MatMul(), [net.q, net.k])])
    return net.finish({"y": net.add(MatMul(), [weights, net.v])})


@pytest.mark.parametrize(
    "graph",
    [
        _scores_are_an_output(), _weights_are_read_twice(), _values_are_constant(),
        _columns_are_normalised(), _few_rows(),
    ],
    ids=["scores", "weights", "constant", "columns", "few"],
)  # fmt: skip
def test_other_products_keep_their_kernels(graph: Graph) -> None:
    assert sum("matmul" in name for name in kernels(graph)) == 2
