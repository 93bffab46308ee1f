"""Normalisations of groups of channels between convolutions move nothing."""

from __future__ import annotations

import pytest

from autosched.graph.ir import Graph
from autosched.graph.ops.base import Shape
from autosched.graph.ops.norm import GroupNormalize, Normalize
from autosched.graph.ops.shape import Reshape
from autosched.graph.passes.dead_code import remove_dead_code
from autosched.graph.passes.layout import to_channels_last
from tests.support.small_graphs import Net, assert_close, kinds_of, values_of

SHAPE = (2, 6, 4, 5)
VIEWS = [
    ((2, 3, 40), (2,), 3),
    ((2, 2, 60), (2,), 2),
    ((6, 40), (1,), 3),
    ((2, 3, 2, 4, 5), (2, 3, 4), 3),
    ((2, 3, 1, 40), (3,), 3),
    ((2, 6, 20), (2,), 6),
]


def _grouped(
    net: Net, data: str, view: Shape, axes: tuple[int, ...], centered: bool = True
) -> tuple[str, str]:
    normal = net.then(Normalize(axes, 1e-3, centered), net.then(Reshape(view), data))
    return normal, net.then(Reshape(SHAPE), normal)


def _between_convolutions(view: Shape, axes: tuple[int, ...]) -> Graph:
    net = Net(SHAPE)
    _, grouped = _grouped(net, net.conv(net.x, 6), view, axes)
    return net.finish({"y": net.conv(grouped, 4)})


@pytest.mark.parametrize(("view", "axes", "groups"), VIEWS)
def test_groups_between_convolutions(view: Shape, axes: tuple[int, ...], groups: int) -> None:
    graph = _between_convolutions(view, axes)
    moved = to_channels_last(graph)
    assert kinds_of(moved) == [
        "transpose", "conv2d", "group_normalize", "conv2d", "transpose"
    ]  # fmt: skip
    assert [node.op for node in moved.nodes][2] == GroupNormalize(groups, 1e-3)
    assert_close(values_of(moved), values_of(graph), "channels last")


@pytest.mark.parametrize("axes", [(2, 3), (0, 2, 3)])
def test_each_channel_between_convolutions(axes: tuple[int, ...]) -> None:
    net = Net((1, 6, 4, 5))
    normal = net.then(Normalize(axes, 1e-3), net.conv(net.x, 6))
    graph = net.finish({"y": net.conv(normal, 4)})
    moved = to_channels_last(graph)
    assert GroupNormalize(6, 1e-3) in [node.op for node in moved.nodes]
    assert_close(values_of(moved), values_of(graph), "channels last")


def test_views_of_what_is_not_channels_last_stay() -> None:
    net = Net(SHAPE)
    _, grouped = _grouped(net, net.x, (2, 3, 40), (2,))
    graph = net.finish({"y": grouped})
    assert to_channels_last(graph).nodes == graph.nodes


@pytest.mark.parametrize(
    ("view", "axes", "centered"),
    [
        ((2, 3, 40), (1,), True),
        ((2, 3, 40), (1, 2), True),
        ((2, 3, 40), (2,), False),
        ((2, 24, 5), (2,), True),
        ((4, 60), (0,), True),
        ((240,), (0,), True),
    ],
    ids=["columns", "samples", "not centered", "rows of maps", "over samples", "everything"],
)
def test_other_normalisations(view: Shape, axes: tuple[int, ...], centered: bool) -> None:
    net = Net(SHAPE)
    _, grouped = _grouped(net, net.conv(net.x, 6), view, axes, centered)
    graph = net.finish({"y": net.conv(grouped, 4)})
    moved = to_channels_last(graph)
    assert "group_normalize" not in kinds_of(moved)
    assert_close(values_of(moved), values_of(graph), "as written")


def test_rows_that_are_read_elsewhere() -> None:
    net = Net(SHAPE)
    rows, grouped = _grouped(net, net.conv(net.x, 6), (2, 3, 40), (2,))
    graph = net.finish({"y": net.conv(grouped, 4), "rows": net.unary(rows)})
    moved = remove_dead_code(to_channels_last(graph))
    assert "group_normalize" not in kinds_of(moved)
    assert_close(values_of(moved), values_of(graph), "as written")
