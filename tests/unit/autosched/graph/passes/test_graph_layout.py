"""Layouts: what moves in memory, and what only looks as if it did."""

from collections.abc import Callable

import numpy as np
import pytest

from autosched.graph.fusion import fuse
from autosched.graph.ir import Graph
from autosched.graph.ops.base import Shape
from autosched.graph.ops.elementwise import BinaryOp
from autosched.graph.ops.matmul import MatMul
from autosched.graph.ops.movement import Expand, Slice
from autosched.graph.ops.pooling import GlobalPool
from autosched.graph.ops.shape import Concat, Reshape, Transpose
from autosched.graph.optimize import optimize
from autosched.graph.passes.layout import to_channels_last
from autosched.graph.passes.regroup import regroup
from autosched.graph.passes.sink_views import sink_views
from tests.support.small_graphs import Net, assert_close, kinds_of, values_of

NCHW_TO_NHWC, NHWC_TO_NCHW = (0, 2, 3, 1), (0, 3, 1, 2)


def test_layout_shares_a_transpose_between_readers() -> None:
    net = Net((2, 4, 6, 5))
    graph = net.finish({"a": net.conv(net.x, 4), "b": net.conv(net.x, 3)})
    assert kinds_of(to_channels_last(graph)).count("transpose") == 3  # x once, both outputs


def _layer_after(net: Net, value: str) -> Graph:
    """A convolution on ``value``, so that leaving channels-last would show."""
    return net.finish({"y": net.conv(value, 3)})


def _channel_shuffle(net: Net) -> str:
    split = net.add(Reshape((2, 2, 3, 6, 5)), [net.conv(net.x, 6)])
    return net.add(Reshape((2, 6, 6, 5)), [net.add(Transpose((0, 2, 1, 3, 4)), [split])])


def _depth_to_space(net: Net) -> str:
    split = net.add(Reshape((2, 2, 2, 3, 6, 5)), [net.conv(net.x, 12)])
    return net.add(Reshape((2, 3, 12, 10)), [net.add(Transpose((0, 3, 4, 1, 5, 2)), [split])])


def _split_and_join(net: Net) -> str:
    data = net.conv(net.x, 6)
    halves = [
        net.add(Slice((0, first, 0, 0), (2, first + 3, 6, 5), (1, 1, 1, 1)), [data])
        for first in (0, 3)
    ]
    return net.add(Concat(1), [net.unary(halves[1]), halves[0]])


def _flip_columns(net: Net) -> str:
    return net.add(Slice((0, 5, 0, 4), (2, -1, 6, -1), (1, -2, 1, -1)), [net.conv(net.x, 6)])


def _expand_maps(net: Net) -> str:
    pooled = net.add(GlobalPool("avg"), [net.conv(net.x, 6)])
    return net.add(Expand((2, 6, 4, 5)), [pooled])


@pytest.mark.parametrize(
    ("build", "moves"),
    [
        (_channel_shuffle, 1),
        (_depth_to_space, 1),
        (_split_and_join, 0),
        (_flip_columns, 0),
        (_expand_maps, 0),
    ],
)
def test_moved_elements_stay_channels_last(build: Callable[[Net], str], moves: int) -> None:
    """Between two convolutions no more is transposed than the operator itself asks for."""
    net = Net((2, 4, 6, 5))
    graph = _layer_after(net, build(net))
    edges = 2  # the model's own input and output are NCHW
    assert kinds_of(optimize(graph)).count("transpose") == edges + moves
    assert_close(values_of(optimize(graph)), values_of(graph), "optimized")


def test_spatial_positions_become_a_sequence_without_moving() -> None:
    net = Net((2, 4, 6, 5))
    flat = net.add(Reshape((2, 6, 30)), [net.conv(net.x, 6)])
    tokens = net.add(Transpose((0, 2, 1)), [flat])
    graph = net.finish({"y": net.add(MatMul(), [tokens, net.random(6, 3)])})
    assert kinds_of(optimize(graph)).count("transpose") == 1  # of the input
    assert_close(values_of(optimize(graph)), values_of(graph), "optimized")


@pytest.mark.parametrize("seed", range(20))
def test_regrouping_reshapes_any_stored_order(seed: int) -> None:
    rng = np.random.default_rng(seed)
    after = tuple(int(n) for n in rng.choice([1, 1, 2, 3, 4], rng.integers(1, 6)))
    before = _merged(after, rng)
    value = rng.standard_normal(before)
    for source, target in ((value, after), (value.reshape(after), before)):
        order = tuple(int(d) for d in rng.permutation(source.ndim))
        kept = source.transpose(np.argsort(order)) if source.ndim else source
        plan = regroup(order, source.shape, target)
        result = kept.transpose(plan.order).reshape(plan.shape).transpose(plan.due)
        np.testing.assert_array_equal(result, source.reshape(target))


def _merged(shape: tuple[int, ...], rng: np.random.Generator) -> tuple[int, ...]:
    """``shape`` with some neighbours merged."""
    result = [1]
    for extent in shape:
        if rng.random() < 0.5:
            result[-1] *= extent
        else:
            result.append(extent)
    return tuple(result)


def _dense_of_rows(net: Net, data: str, columns: int) -> str:
    return net.add(MatMul(), [data, net.random(net.types[data].shape[-1], columns)])


def test_views_sink_below_what_follows_a_layer() -> None:
    """The bias is the layer's own; activation and residual share its kernel."""
    net = Net((2, 5, 8))
    hidden = net.add(BinaryOp("add"), [_dense_of_rows(net, net.x, 6), net.random(6)])
    back = _dense_of_rows(net, net.unary(hidden, "tanh"), 8)
    graph = net.finish({"y": net.add(BinaryOp("add"), [back, net.x])})
    optimized = optimize(graph)
    assert [n.op.kind for n in optimized.nodes if n.op.kind != "reshape"] == [
        "dense", "tanh", "dense", "add",
    ]  # fmt: skip
    assert [len(group.nodes) for group in fuse(optimized)] == [2, 2]
    assert_close(values_of(optimized), values_of(graph), "optimized")


@pytest.mark.parametrize(
    ("shape", "sinks"),
    [
        ((6,), True),
        ((1,), True),
        ((2, 5, 6), True),
        ((2, 5, 1), True),
        ((5, 1), False),
        ((2, 1, 6), False),
    ],
)
def test_views_sink_where_operands_have_a_form_before_them(shape: Shape, sinks: bool) -> None:
    net = Net((10, 8))
    rows = net.add(Reshape((2, 5, 6)), [_dense_of_rows(net, net.x, 6)])
    graph = net.finish({"y": net.add(BinaryOp("mul"), [rows, net.random(*shape)])})
    changed = sink_views(graph)
    assert (kinds_of(changed)[-1] == "reshape") == sinks
    assert_close(values_of(changed), values_of(graph), "sunk")


def test_a_value_that_sank_takes_the_shape_of_another_layer() -> None:
    net = Net((20, 8))
    rows = net.add(Reshape((2, 10, 6)), [_dense_of_rows(net, net.x, 6)])
    sunk = net.unary(rows, "tanh")
    batches = _dense_of_rows(net, net.add(Reshape((4, 5, 8)), [net.x]), 6)
    whole = net.add(Reshape((2, 10, 6)), [batches])
    graph = net.finish({"y": net.add(BinaryOp("mul"), [whole, sunk]), "sunk": sunk})
    assert_close(values_of(sink_views(graph)), values_of(graph), "sunk")


def test_views_stay_before_what_belongs_to_another_layer() -> None:
    net = Net((2, 5, 8))
    layer = _dense_of_rows(net, net.x, 8)
    flat = net.add(Reshape((10, 8)), [net.unary(net.x)])
    other = net.add(Reshape((2, 5, 8)), [flat])
    graph = net.finish({"y": net.add(BinaryOp("add"), [layer, other])})
    assert kinds_of(sink_views(graph))[-1] == "add"
