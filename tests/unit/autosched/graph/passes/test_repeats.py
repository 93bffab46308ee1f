"""Products of operands that are repeated before they are read."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from autosched.graph.extract import extract
from autosched.graph.ir import Graph, Value
from autosched.graph.ops.einsum import Einsum
from autosched.graph.ops.elementwise import BinaryOp
from autosched.graph.ops.matmul import MatMul
from autosched.graph.ops.movement import Expand
from autosched.graph.ops.shape import Reshape, Transpose
from autosched.graph.optimize import optimize
from autosched.graph.passes.dead_code import remove_dead_code
from autosched.graph.passes.repeats import fold_repeats
from tests.support.small_graphs import Net, assert_close, values_of

HEADS, GROUPS, TOKENS, CACHED, SIZE = 6, 2, 3, 5, 4
REPEATS = HEADS // GROUPS


def _repeated(net: Net, data: str) -> str:
    """``[b, groups, cached, size]`` to ``[b, heads, cached, size]``, neighbours alike."""
    batch, groups, cached, size = net.types[data].shape
    column = net.then(Reshape((batch, groups, 1, cached, size)), data)
    whole = net.then(Expand((batch, groups, REPEATS, cached, size)), column)
    return net.then(Reshape((batch, HEADS, cached, size)), whole)


def _tiled(net: Net, data: str) -> str:
    """The heads of the groups one after the other, several times."""
    batch, groups, cached, size = net.types[data].shape
    column = net.then(Reshape((batch, 1, groups, cached, size)), data)
    whole = net.then(Expand((batch, REPEATS, groups, cached, size)), column)
    return net.then(Reshape((batch, HEADS, cached, size)), whole)


def _through_fewer_dimensions(net: Net, data: str) -> str:
    batch, _, cached, size = net.types[data].shape
    flat = net.then(Reshape((batch * HEADS, cached, size)), _repeated(net, data))
    return net.then(Reshape((batch, HEADS, cached, size)), flat)


def _attention(repeat: Callable[[Net, str], str], batch: int = 2, tokens: int = TOKENS) -> Graph:
    net = Net((batch, tokens, HEADS * SIZE))
    split = net.then(Reshape((batch, tokens, HEADS, SIZE)), net.x)
    query = net.then(Transpose((0, 2, 1, 3)), split)
    shape = (batch, GROUPS, CACHED, SIZE)
    key, value = (repeat(net, net.input(Value(name, shape))) for name in ("keys", "values"))
    scores = net.then(MatMul(), query, net.then(Transpose((0, 1, 3, 2)), key))
    masked = net.then(BinaryOp("add"), scores, net.random(tokens, CACHED))
    mixed = net.then(Transpose((0, 2, 1, 3)), net.then(MatMul(), masked, value))
    return net.finish({"y": net.then(Reshape((batch, tokens, HEADS * SIZE)), mixed)})


@pytest.mark.parametrize("repeat", [_repeated, _tiled, _through_fewer_dimensions])
@pytest.mark.parametrize(("batch", "tokens"), [(2, TOKENS), (1, TOKENS), (1, 1)])
def test_nothing_is_repeated(repeat: Callable[[Net, str], str], batch: int, tokens: int) -> None:
    graph = _attention(repeat, batch, tokens)
    found = remove_dead_code(fold_repeats(graph))
    assert not [n for n in found.nodes if isinstance(n.op, Expand | Transpose)]
    assert sum(isinstance(n.op, Einsum) for n in found.nodes) == 2
    assert_close(values_of(found), values_of(graph), "repeats")


def test_products_of_repeated_operands_keep_their_epilogues() -> None:
    graph = _attention(_repeated)
    names = [call.name for call in extract(graph).subgraphs]
    assert names == ["einsum_add.1", "einsum.1"]
    assert_close(values_of(optimize(graph)), values_of(graph), "optimised")


def test_a_repeated_sum_is_a_smaller_sum() -> None:
    net = Net((3, 8))
    column = net.input(Value("column", (1, 5)))
    product = net.then(MatMul(), net.x, net.then(Expand((8, 5)), column))
    graph = net.finish({"y": product})
    assert_close(values_of(fold_repeats(graph)), values_of(graph), "sum")


def _repeated_result(net: Net) -> str:
    """Both operands are repeated along the same dimension, and so is the result."""
    left = net.then(Expand((4, 3, 8)), net.then(Reshape((1, 3, 8)), net.x))
    right = net.then(Expand((4, 8, 5)), net.input(Value("right", (1, 8, 5))))
    return net.then(MatMul(), left, right)


def _halves_of_groups(net: Net) -> str:
    """Dimensions that no common factors make up: 6 as 2 * 3 and as 3 * 2."""
    left = net.then(Reshape((6, 4)), net.then(Expand((3, 2, 4)), net.input(Value("l", (3, 1, 4)))))
    right = net.then(Reshape((6, 5)), net.then(Expand((2, 3, 5)), net.input(Value("r", (2, 1, 5)))))
    return net.then(Einsum(("ik", "ij"), "ikj"), left, right)


@pytest.mark.parametrize("make", [_repeated_result, _halves_of_groups])
def test_what_is_left_alone(make: Callable[[Net], str]) -> None:
    net = Net((3, 8))
    graph = net.finish({"y": make(net)})
    assert str(fold_repeats(graph)) == str(graph)


def test_products_without_repeats_are_left_alone() -> None:
    net = Net((2, 3, 8))
    other = net.then(Transpose((0, 2, 1)), net.input(Value("other", (2, 5, 8))))
    graph = net.finish({"y": net.then(MatMul(), net.x, other)})
    assert str(fold_repeats(graph)) == str(graph)


def test_a_product_of_a_product_that_is_transposed() -> None:
    """The transpose is part of the first product then: the second one reads what that gives."""
    net = Net((1, HEADS, TOKENS, SIZE))
    keys = _repeated(net, net.input(Value("keys", (1, GROUPS, SIZE, CACHED))))
    turned = net.then(Transpose((0, 1, 3, 2)), net.then(MatMul(), net.x, keys))
    values = _repeated(net, net.input(Value("values", (1, GROUPS, TOKENS, SIZE))))
    graph = net.finish({"y": net.then(MatMul(), turned, values)})
    found = remove_dead_code(fold_repeats(graph))
    assert not any(isinstance(node.op, Expand) for node in found.nodes)
    assert_close(values_of(found), values_of(graph), "product of a product")
