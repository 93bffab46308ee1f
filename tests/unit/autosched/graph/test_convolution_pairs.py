"""Pointwise and depthwise convolutions are one kernel where much lies between them."""

from __future__ import annotations

import numpy as np
import pytest

from autosched.graph.builder import GraphBuilder
from autosched.graph.evaluate import evaluate
from autosched.graph.extract import extract
from autosched.graph.ir import Graph, Value
from autosched.graph.ops.conv import Conv
from autosched.graph.ops.elementwise import BinaryOp, UnaryOp
from tests.support.extractions import run_kernels

SIZE, NARROW, WIDE = 12, 8, 24
BETWEEN = SIZE * SIZE * WIDE * 4
PLAIN, PAIR = "conv2d_relu", "conv2d_relu_conv2d_relu"


class _Net(GraphBuilder):
    """An image of few channels."""

    def __init__(self) -> None:
        super().__init__("net")
        self.image = self.input(Value("image", (1, NARROW, SIZE, SIZE)))

    def pointwise(self, value: str, inputs: int, outputs: int, kernel: int = 1) -> str:
        pad = (kernel // 2,) * 4
        return self._filtered(Conv((1, 1), pad), value, (outputs, inputs, kernel, kernel))

    def depthwise(self, value: str, channels: int = WIDE, stride: int = 1) -> str:
        op = Conv((stride, stride), (1,) * 4, groups=channels)
        return self._filtered(op, value, (channels, 1, 3, 3))

    def _filtered(self, op: Conv, value: str, shape: tuple[int, ...]) -> str:
        rng = np.random.default_rng(sum(shape))
        weight = self.constant(f"{value}.weight", rng.standard_normal(shape, dtype=np.float32))
        return self.add(UnaryOp("relu"), [self.add(op, [value, weight])])

    def block(self, stride: int = 1) -> str:
        wide = self.pointwise(self.image, NARROW, WIDE)
        return self.pointwise(self.depthwise(wide, stride=stride), WIDE, NARROW)


def kernels(graph: Graph, cache_bytes: int | None = BETWEEN) -> list[str]:
    """The kernels' names; together they compute what the graph says."""
    rng = np.random.default_rng(5)
    inputs = {v.name: rng.standard_normal(v.shape, dtype=np.float32) for v in graph.inputs}
    extraction = extract(graph, chains=True, cache_bytes=cache_bytes)
    values, expected = run_kernels(extraction, inputs), evaluate(graph, inputs)
    for name, array in expected.items():
        assert np.abs(values[name] - array).max() <= 1e-5 * np.abs(array).max()
    names = [call.name.rpartition(".")[0] for call in extraction.subgraphs]
    return [name.removeprefix("transpose_") for name in names if name != "transpose"]


def test_the_later_one_of_two_pairs_with_as_much_between_them() -> None:
    net = _Net()
    assert kernels(net.finish({"y": net.block()})) == [PLAIN, PAIR]


def test_the_pair_with_more_between_it() -> None:
    net = _Net()
    assert kernels(net.finish({"y": net.block(stride=2)})) == [PAIR, PLAIN]


@pytest.mark.parametrize("cache_bytes", [None, 2 * BETWEEN + 1])
def test_what_caches_keep_is_left_where_it_is(cache_bytes: int | None) -> None:
    net = _Net()
    assert kernels(net.finish({"y": net.block()}), cache_bytes) == [PLAIN] * 3


def test_a_value_that_somebody_else_reads_is_between_no_pair() -> None:
    net = _Net()
    wide = net.pointwise(net.image, NARROW, WIDE)
    deep = net.depthwise(wide)
    graph = net.finish({"y": net.add(BinaryOp("add"), [deep, wide])})
    assert PAIR not in "".join(kernels(graph))


def test_an_output_of_the_network_is_between_no_pair() -> None:
    net = _Net()
    wide = net.pointwise(net.image, NARROW, WIDE)
    assert PAIR not in kernels(net.finish({"wide": wide, "y": net.depthwise(wide)}))


def test_windows_over_all_channels_are_in_no_pair() -> None:
    """There are faster ways to compute those."""
    net = _Net()
    wide = net.pointwise(net.image, NARROW, WIDE, kernel=3)
    assert kernels(net.finish({"y": net.depthwise(wide)})) == [PLAIN] * 2
