"""Taps that lie in the padding for every result are no part of a convolution."""

from __future__ import annotations

import numpy as np
import pytest

from autosched.graph.ir import Graph, Value
from autosched.graph.ops.conv import Conv
from autosched.graph.ops.conv_transpose import ConvTranspose
from autosched.graph.optimize import optimize
from autosched.graph.passes.unread_taps import drop_unread_taps
from tests.support.small_graphs import Net, assert_close, values_of


def convolved(op: Conv, image: tuple[int, ...], *kernel: int, channels: int = 2) -> Graph:
    net = Net((2, channels, *image))
    weight = net.random(3 * op.groups, channels // op.groups, *kernel)
    return net.finish({"y": net.then(op, net.x, weight, net.random(3 * op.groups))})


def only(graph: Graph) -> tuple[Conv, tuple[int, ...]]:
    """The convolution of a graph, and its kernel."""
    (node,) = graph.nodes
    assert isinstance(node.op, Conv)
    return node.op, graph.types[node.inputs[1]].shape[2:]


@pytest.mark.parametrize("dilation", [5, 6, 9])
def test_taps_further_apart_than_the_image_is_wide_leave_the_one_in_the_middle(
    dilation: int,
) -> None:
    op = Conv(padding=(dilation,) * 4, dilation=(dilation,) * 2)
    graph = convolved(op, (5, 5), 3, 3)
    found = drop_unread_taps(graph)
    assert only(found) == (Conv(), (1, 1))
    assert_close(values_of(found), values_of(graph), f"dilation {dilation}")


@pytest.mark.parametrize(
    ("op", "image", "kernel", "left"),
    [
        (Conv(padding=(1, 1, 1, 1)), (1, 1), (3, 3), (1, 1)),
        (Conv(padding=(1, 1, 1, 1)), (1, 4), (3, 3), (1, 3)),
        (Conv(padding=(2, 2, 2, 2), strides=(2, 2)), (2, 2), (5, 5), (2, 2)),
        (Conv(padding=(0, 3, 0, 1)), (3, 2), (2, 4), (2, 3)),
        (Conv(padding=(4, 0, 0, 0)), (2, 2), (5, 1), (2, 1)),
        (Conv(padding=(0, 0, 4, 0)), (2, 2), (5, 1), (2, 1)),
        (Conv((1,), (6, 6), (6,)), (4,), (3,), (1,)),
        (Conv((1, 1, 1), (1,) * 6, (1, 1, 1)), (1, 3, 1), (3, 3, 3), (1, 3, 1)),
        (Conv(padding=(3, 3, 3, 3), dilation=(3, 3), groups=2), (3, 3), (3, 3), (1, 1)),
    ],
)
def test_what_is_left_of_filters(
    op: Conv, image: tuple[int, ...], kernel: tuple[int, ...], left: tuple[int, ...]
) -> None:
    graph = convolved(op, image, *kernel, channels=4)
    found = drop_unread_taps(graph)
    assert only(found)[1] == left
    assert_close(values_of(found), values_of(graph), str(op))


def test_any_line_is_what_it_was() -> None:
    rng = np.random.default_rng(1)
    cut = 0
    for _ in range(60):
        extent, taps, stride, dilation = (int(rng.integers(1, top)) for top in (7, 5, 4, 7))
        low, high = (int(n) for n in rng.integers(0, 8, 2))
        if extent + low + high <= dilation * (taps - 1):
            continue
        graph = convolved(Conv((stride,), (low, high), (dilation,)), (extent,), taps)
        found = drop_unread_taps(graph)
        cut += found is not graph
        assert found.types["conv1d"] == graph.types["conv1d"]
        assert_close(values_of(found), values_of(graph), f"{extent} {taps} {stride} {dilation}")
        assert drop_unread_taps(found) is found
    assert cut > 10


def test_filters_all_of_which_are_read_stay_the_same_object() -> None:
    graph = convolved(Conv(padding=(4, 4, 4, 4), dilation=(4, 4)), (5, 5), 3, 3)
    assert drop_unread_taps(graph) is graph


def test_filters_that_are_computed_stay() -> None:
    net = Net((1, 2, 1, 1))
    weight = net.input(Value("w", (3, 2, 3, 3)))
    graph = net.finish({"y": net.then(Conv(padding=(1, 1, 1, 1)), net.x, weight)})
    assert drop_unread_taps(graph) is graph


def test_transposed_convolutions_stay() -> None:
    net = Net((1, 2, 1, 1))
    op = ConvTranspose(padding=(1, 1, 1, 1))
    graph = net.finish({"y": net.then(op, net.x, net.random(2, 3, 3, 3))})
    assert drop_unread_taps(graph) is graph


def test_infinite_weights_in_the_padding_make_no_nan() -> None:
    net = Net((1, 2, 2, 2))
    filters = np.full((3, 2, 3, 3), np.inf, np.float32)
    filters[:, :, 1, 1] = 0.5
    op = Conv(padding=(2, 2, 2, 2), dilation=(2, 2))
    graph = net.finish({"y": net.then(op, net.x, net.constant("filters", filters))})
    expected = values_of(graph)["y"]
    assert np.isfinite(expected).all()
    np.testing.assert_allclose(values_of(optimize(graph))["y"], expected, rtol=1e-6)


def test_convolutions_that_differ_in_unread_taps_are_one_task() -> None:
    net = Net((1, 4, 4, 4))
    weight = net.random(4, 4, 3, 3)
    maps = [net.then(Conv(padding=(d,) * 4, dilation=(d, d)), net.x, weight) for d in (4, 7)]
    graph = drop_unread_taps(net.finish(dict(zip("ab", maps, strict=True))))
    first, second = graph.nodes
    assert first.op == second.op
    np.testing.assert_array_equal(values_of(graph)["a"], values_of(graph)["b"])
