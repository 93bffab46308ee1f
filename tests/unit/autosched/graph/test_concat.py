"""Concatenations: every operand is computed in place, whatever it is."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import autosched
from autosched.compilation.network import extract_checked
from autosched.graph.builder import GraphBuilder
from autosched.graph.evaluate import evaluate
from autosched.graph.extract import extract
from autosched.graph.ir import Graph, Network, Value
from autosched.graph.ops.conv import Conv
from autosched.graph.ops.conv_transpose import ConvTranspose
from autosched.graph.ops.elementwise import BinaryOp, UnaryOp
from autosched.graph.ops.pooling import Pool
from autosched.graph.ops.shape import Concat, Reshape
from autosched.tasks.spec import TaskSpec
from sketch.analysis.store_places import keeps_to_dimensions
from tests.support.extractions import run_kernels


class _Net(GraphBuilder):
    """A builder with a 2x6x7x7 input ``x``."""

    def __init__(self) -> None:
        super().__init__("net")
        self.rng = np.random.default_rng(5)
        self.x = self.input(Value("x", (2, 6, 7, 7)))

    def conv(self, data: str, channels: int, kernel: int = 1) -> str:
        name = self.unique("w")
        shape = (channels, self.types[data].shape[1], kernel, kernel)
        weight = self.constant(name, self.rng.standard_normal(shape, dtype=np.float32))
        return self.add(Conv(padding=(kernel // 2,) * 4), [data, weight])

    def relu(self, data: str) -> str:
        return self.add(UnaryOp("relu"), [data])


def _fire() -> Graph:
    net = _Net()
    squeezed = net.relu(net.conv(net.x, 5))
    ones, threes = net.relu(net.conv(squeezed, 19)), net.relu(net.conv(squeezed, 16, 3))
    joined = net.add(Concat(1), [ones, threes])
    return net.finish({"y": net.conv(joined, 3)})


def _every_kind_of_operand() -> Graph:
    net = _Net()
    constant = net.constant("c", net.rng.standard_normal((2, 2, 7, 7), dtype=np.float32))
    shared = net.relu(net.x)
    pooled = net.add(Pool("max", (3, 3), (1, 1), (1,) * 4), [shared])
    view = net.add(Reshape((2, 6, 7, 7)), [net.relu(net.add(Reshape((2, 294)), [net.x]))])
    operands = [net.x, constant, shared, pooled, view, pooled]
    joined = net.add(Concat(1), operands)
    return net.finish({"y": joined, "z": net.add(BinaryOp("add"), [joined, joined])})


def _dense_block() -> Graph:
    net = _Net()
    features = net.x
    for _ in range(3):
        features = net.add(Concat(1), [features, net.conv(net.relu(features), 4, 3)])
    return net.finish({"y": net.relu(features)})


def _nested_along_two_axes() -> Graph:
    net = _Net()
    left = net.add(Concat(1), [net.relu(net.x), net.conv(net.x, 3)])
    inner = net.add(Concat(1), [left, net.conv(net.x, 2)])
    return net.finish({"y": net.add(Concat(2), [inner, net.conv(net.x, 11)])})


def _views_of_what_is_computed() -> Graph:
    """One view of ``shared`` is computed in place; the other, whose place is elsewhere, is not."""
    net = _Net()
    shared = net.relu(net.x)
    views = [
        net.add(Reshape((2, 2, 3, 49)), [v]) for v in (shared, net.add(UnaryOp("tanh"), [net.x]))
    ]
    flat = net.add(Reshape((2, 6, 49)), [net.add(Reshape((2, 294)), [shared])])
    joined = net.add(Concat(1), [*views, views[1]])
    across = net.add(
        Concat(1), [flat, net.add(Reshape((2, 18, 49)), [net.add(UnaryOp("tanh"), [joined])])]
    )
    return net.finish({"y": net.relu(joined), "z": across, "s": net.relu(shared)})


def _upsampled() -> Graph:
    """Stages of a transposed convolution write its result together, wherever that lies."""
    net = _Net()
    weights = (net.rng.standard_normal((6, n, 3, 3), dtype=np.float32) for n in (3, 5))
    first, second = (
        net.add(ConvTranspose((2, 2), (1,) * 4), [net.x, net.constant(net.unique("up"), weight)])
        for weight in weights
    )
    joined = net.add(Concat(1), [first, net.relu(second)])
    return net.finish({"y": net.conv(joined, 3)})


def _upsampled_in_pairs() -> Graph:
    """Few channels: a variant writes two columns of them at a time, which have to lie together."""
    net = _Net()
    weights = (net.rng.standard_normal((6, 4, 4, 4), dtype=np.float32) for _ in range(2))
    ups = [
        net.add(ConvTranspose((2, 2)), [net.x, net.constant(net.unique("up"), weight)])
        for weight in weights
    ]
    return net.finish({"y": net.add(Concat(1), ups)})


def _few_filters() -> Graph:
    """As it is written, such a convolution writes its array in order; a variant of it does not."""
    net = _Net()
    weights = (net.rng.standard_normal((3, 6, 5, 5), dtype=np.float32) for _ in range(2))
    few = [
        net.add(Conv((1, 1), (2, 2, 3, 3)), [net.x, net.constant(net.unique("few"), weight)])
        for weight in weights
    ]
    return net.finish({"y": net.add(Concat(1), few)})


CASES: tuple[tuple[Callable[[], Graph], int], ...] = (
    (_fire, 0),
    (_every_kind_of_operand, 3),
    (_views_of_what_is_computed, 3),
    (_upsampled, 0),
    (_upsampled_in_pairs, 2),
    (_few_filters, 2),
    (_dense_block, 1),
    (_nested_along_two_axes, 0),
)


@pytest.mark.parametrize(
    ("make", "copies"),
    [*CASES[:6], *(pytest.param(*case, marks=pytest.mark.slow) for case in CASES[6:])],
)
def test_operands_are_computed_in_place(make: Callable[[], Graph], copies: int) -> None:
    graph = make()
    extraction = extract(graph)
    inputs = {"x": np.random.default_rng(1).standard_normal((2, 6, 7, 7), dtype=np.float32)}
    expected = evaluate(graph, inputs)
    module = autosched.compile(Network("net", graph))
    for values in (run_kernels(extraction, inputs), module.run(inputs)):
        for name, value in expected.items():
            assert np.abs(values[name] - value).max() <= 1e-5 * np.abs(value).max()
    names = [call.name for call in extraction.subgraphs]
    assert sum(name.startswith("copy") for name in names) == copies
    assert not any("concat" in name for name in names)


@pytest.mark.parametrize("target", ["cpu-avx2", "cuda:h200"])
def test_variants_of_the_target_may_write_where_operands_lie(target: str) -> None:
    """Whichever of them is chosen for a convolution of 7x7, it has code."""
    net, rng = GraphBuilder("inception"), np.random.default_rng(0)
    value = net.input(Value("x", (1, 64, 7, 7)))
    parts = []
    for n, filters in enumerate((64, 128)):
        weight = rng.standard_normal((filters, 64, 3, 3), np.float32) / 24
        parts.append(net.add(Conv((1, 1), (1,) * 4), [value, net.constant(f"w{n}", weight)]))
    graph = net.finish({"y": net.add(Concat(1), parts)})
    machine = autosched.Target(target, threads=1) if "cpu" in target else autosched.Target(target)
    extraction = extract_checked(Network("inception", graph), machine)
    moved = 0
    for subgraph in extraction.subgraphs:
        inside = extraction.parts.get(subgraph.output)
        if inside is not None:
            for variant in TaskSpec(subgraph.dag, machine, subgraph.name).variants:
                moved += not all(map(keeps_to_dimensions, variant.dag.stages))
    assert not moved
