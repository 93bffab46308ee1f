"""Products of 16-bit floats with many rows: what is computed of float32, and what stays narrow."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import ml_dtypes
import numpy as np
import pytest

from autosched.graph.builder import GraphBuilder
from autosched.graph.fusion import fuse
from autosched.graph.ir import Graph, Value
from autosched.graph.ops.base import Op, Shape
from autosched.graph.ops.conv import Conv
from autosched.graph.ops.conv_transpose import ConvTranspose
from autosched.graph.ops.einsum import Einsum
from autosched.graph.ops.elementwise import BinaryOp, CastOp, UnaryOp
from autosched.graph.ops.matmul import Dense, MatMul
from autosched.graph.ops.movement import Slice
from autosched.graph.ops.pooling import GlobalPool, Pool
from autosched.graph.ops.shape import Concat, Reshape
from autosched.graph.optimize import optimize
from autosched.graph.wide_products import widen_products

NUMPY = {"float16": np.float16, "bfloat16": ml_dtypes.bfloat16}
HALF = "float16"


def product(op: Op, data: Shape, weight: Shape, constant: bool = True, dtype: str = HALF) -> Graph:
    builder = GraphBuilder("product")
    array = np.random.default_rng(0).standard_normal(weight).astype(NUMPY[dtype])
    first = builder.input(Value("x", data, dtype))
    second = builder.constant("w", array) if constant else builder.input(Value("w", weight, dtype))
    return optimize(builder.finish({"y": builder.add(op, [first, second])}))


def types_of_products(graph: Graph) -> list[str]:
    """What products, in their order, are given."""
    products = Conv | Dense | MatMul | Einsum
    found = [node for node in graph.nodes if isinstance(node.op, products)]
    return [graph.types[node.inputs[0]].dtype for node in found]


ONES = (1, 1, 1, 1)
WIDE = {
    "convolution": product(Conv((1, 1), ONES), (1, 8, 8, 8), (8, 8, 3, 3)),
    "one filter": product(Conv((1, 1), ONES), (1, 8, 8, 8), (1, 8, 3, 3)),
    "strided": product(Conv((2, 2)), (1, 8, 9, 9), (8, 8, 3, 3)),
    "grouped": product(Conv(groups=2), (1, 8, 9, 9), (8, 4, 3, 3)),
    "one dimension": product(Conv((1,), (0, 0), (2,)), (1, 8, 30), (8, 8, 3)),
    "transposed": product(ConvTranspose((2, 2)), (1, 8, 5, 5), (8, 8, 2, 2)),
    "large windows of single channels": product(Conv(groups=8), (1, 8, 20, 20), (8, 1, 7, 7)),
    "four rows": product(MatMul(), (4, 32), (32, 16)),
    "a batch of single rows": product(MatMul(), (4, 1, 32), (32, 16)),
    "rows of both": product(MatMul(), (2, 16, 8), (2, 8, 12), constant=False),
    "labels": product(Einsum(("bik", "bjk"), "bij"), (2, 16, 8), (2, 12, 8), constant=False),
}
NARROW = {
    "one row": product(MatMul(), (1, 32), (32, 16)),
    "one pixel": product(Conv(), (1, 8, 1, 1), (8, 8, 1, 1)),
    "single channels": product(Conv((1, 1), ONES, groups=8), (1, 8, 8, 8), (8, 1, 3, 3)),
    "one query": product(MatMul(), (2, 1, 8), (2, 8, 64), constant=False),
    "few queries": product(MatMul(), (2, 8, 8), (2, 8, 64), constant=False),
    "other types": product(Conv(dtype="float32"), (1, 8, 8, 8), (8, 8, 3, 3)),
}


@pytest.mark.parametrize("case", WIDE)
def test_products_of_many_rows_are_given_float32(case: str) -> None:
    graph = WIDE[case]
    widened = widen_products(graph, ())
    assert types_of_products(widened) == ["float32"]
    assert [widened.types[r.value].dtype for r in widened.results] == [HALF]
    assert types_of_products(graph) == [HALF]


@pytest.mark.parametrize("case", NARROW)
def test_products_that_wait_for_memory_stay_narrow(case: str) -> None:
    assert widen_products(NARROW[case], ()) is NARROW[case]


def test_what_units_multiply_and_other_machines_stay_as_they_are() -> None:
    graph = WIDE["convolution"]
    assert widen_products(graph, None) is graph
    assert widen_products(graph, (HALF,)) is graph
    assert widen_products(graph, ("bfloat16",)) is not graph
    brain = product(Conv(groups=8), (1, 8, 20, 20), (8, 1, 7, 7), dtype="bfloat16")
    assert types_of_products(widen_products(brain, ("bfloat16",))) == ["float32"]


class Net:
    """A graph of images of eight channels that grows."""

    def __init__(self) -> None:
        self.builder = GraphBuilder("net")
        self.image = self.builder.input(Value("image", (1, 16, 16, 8), HALF))

    def conv(self, value: str) -> str:
        channels = self.builder.types[value].shape[-1]
        array = np.zeros((3, 3, channels, 8), np.float16)
        weight = self.builder.constant(self.builder.unique("w"), array)
        bias = self.builder.constant(self.builder.unique("b"), np.zeros(8, np.float16))
        return self.builder.add(Conv((1, 1), ONES, layout="NHWC"), [value, weight, bias])

    def relu(self, value: str) -> str:
        return self.builder.add(UnaryOp("relu"), [value])

    def widened(self, *results: str) -> Graph:
        return widen_products(self.builder.finish(dict(zip("abc", results, strict=False))), ())


def _in_a_row(net: Net) -> list[str]:
    return [net.conv(net.relu(net.conv(net.relu(net.conv(net.image)))))]


def _residual(net: Net) -> list[str]:
    start = net.relu(net.conv(net.image))
    return [net.conv(net.relu(net.builder.add(BinaryOp("add"), [start, net.conv(start)])))]


def _joined(net: Net) -> list[str]:
    first, second = (net.relu(net.conv(net.image)) for _ in range(2))
    return [net.conv(net.builder.add(Concat(-1), [first, second]))]


def _cut(net: Net) -> list[str]:
    start = net.relu(net.conv(net.image))
    cut = net.builder.add(Slice((0, 0, 0, 0), (1, 8, 16, 8), (1, 1, 1, 1)), [start])
    return [net.conv(cut), net.conv(net.builder.add(Reshape((1, 32, 8, 8)), [start]))]


def _pooled(net: Net) -> list[str]:
    start = net.relu(net.conv(net.image))
    return [net.conv(net.builder.add(Pool("max", (2, 2), (2, 2), layout="NHWC"), [start]))]


def _cast_anyway(net: Net) -> list[str]:
    start = net.relu(net.conv(net.image))
    wide = net.builder.add(CastOp("float32"), [start])
    return [net.conv(start), net.builder.add(UnaryOp("sin"), [wide])]


KERNELS: dict[str, tuple[Callable[[Net], list[str]], int, int]] = {
    "in a row": (_in_a_row, 3, 1),
    "residual": (_residual, 3, 1),
    "joined": (_joined, 3, 1),
    "cut": (_cut, 3, 1),
    "pooled": (_pooled, 2, 1),
    "cast anyway": (_cast_anyway, 2, 1),
}


@pytest.mark.parametrize("case", KERNELS)
def test_kernels_leave_what_the_next_ones_read(case: str) -> None:
    """The image alone is widened by a kernel for it."""
    make, convolutions, casts = KERNELS[case]
    net = Net()
    graph = net.widened(*make(net))
    assert types_of_products(graph) == ["float32"] * convolutions
    groups = fuse(graph)
    alone = [g for g in groups if all(isinstance(node.op, CastOp) for node in g.nodes)]
    assert len(alone) == casts
    left = {g.root.output for g in groups} - {result.value for result in graph.results}
    assert {graph.types[name].dtype for name in left} == {"float32"}


def test_values_are_rounded_where_the_model_rounds_them() -> None:
    net = Net()
    graph = net.widened(net.conv(net.relu(net.conv(net.image))))
    kinds = [type(node.op) for node in graph.nodes]
    assert kinds == [CastOp, Conv, CastOp, UnaryOp, CastOp, Conv, CastOp]
    casts = [node.op.dtype for node in graph.nodes if isinstance(node.op, CastOp)]
    assert casts == ["float32", HALF, "float32", HALF]


def test_what_others_read_too_is_widened_once() -> None:
    net = Net()
    start = net.relu(net.conv(net.image))
    mean = net.builder.add(GlobalPool("avg", layout="NHWC"), [start])
    graph = net.widened(net.conv(start), net.conv(start), mean)
    casts = Counter(n.inputs[0] for n in graph.nodes if n.op == CastOp("float32"))
    assert casts["image"] == casts[start] == 1
    reads = [node.inputs for node in graph.nodes if isinstance(node.op, GlobalPool)]
    assert reads == [(start,)]


def test_weights_are_widened_ahead() -> None:
    graph = widen_products(WIDE["convolution"], ())
    (node,) = (node for node in graph.nodes if isinstance(node.op, Conv))
    assert graph.constants[node.inputs[1]].dtype == np.float32
    assert not [name for name in graph.constants if graph.types[name].dtype == HALF and name == "w"]
