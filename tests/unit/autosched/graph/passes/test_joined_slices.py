"""Slices that are joined again are one."""

from __future__ import annotations

import pytest

from autosched.graph.extract import extract
from autosched.graph.ir import Graph
from autosched.graph.ops.conv import Conv
from autosched.graph.ops.elementwise import UnaryOp
from autosched.graph.ops.movement import Slice
from autosched.graph.ops.shape import Concat
from autosched.graph.passes.dead_code import remove_dead_code
from autosched.graph.passes.joined_slices import join_slices
from tests.support.small_graphs import Net, assert_close, values_of

SHAPE = (1, 12, 4, 4)


def _cut(net: Net, data: str, start: int, stop: int, rows: int = 4, step: int = 1) -> str:
    return net.then(Slice((0, start, 0, 0), (1, stop, rows, 4), (1, step, 1, 1)), data)


def _joined(*cuts: tuple[int, ...], axis: int = 1, other: bool = False) -> Graph:
    net = Net(SHAPE)
    parts = [_cut(net, net.x, *cut) for cut in cuts]
    if other:
        parts[1] = net.then(UnaryOp("exp"), parts[1])
    return net.finish({"y": net.then(Concat(axis), *parts)})


@pytest.mark.parametrize(
    ("graph", "kinds"),
    [
        (_joined((0, 6), (6, 12)), ["concat"]),
        (_joined((0, 3), (3, 5), (5, 12)), ["concat"]),
        (_joined((2, 6), (6, 8)), ["slice", "concat"]),
        (_joined((2, 6), (6, 8), (0, 2)), ["slice", "slice", "concat"]),
        (_joined((6, 12), (0, 6)), ["slice", "slice", "concat"]),
        (_joined((0, 6), (6, 12, 4, 2)), ["slice", "slice", "concat"]),
        (_joined((0, 6), (6, 12), axis=2), ["slice", "slice", "concat"]),
        (_joined((0, 6), (6, 12), other=True), ["slice", "slice", "exp", "concat"]),
    ],
    ids=["whole", "three", "a part", "two runs", "turned", "steps", "other axis", "others"],
)
def test_neighbours(graph: Graph, kinds: list[str]) -> None:
    found = remove_dead_code(join_slices(graph))
    assert sorted(node.op.kind for node in found.nodes) == sorted(kinds)
    assert_close(values_of(found), values_of(graph), "joined")


def test_slices_of_other_extents_stay() -> None:
    net = Net((1, 12, 8, 4))
    parts = [_cut(net, net.x, 0, 6), net.then(Slice((0, 6, 4, 0), (1, 12, 8, 4), (1,) * 4), net.x)]
    graph = net.finish({"y": net.then(Concat(1), *parts)})
    assert join_slices(graph).nodes == graph.nodes


def test_halves_that_are_joined_are_not_copied() -> None:
    """As in the blocks of detectors."""
    net = Net((1, 16, 6, 6))
    whole = net.then(UnaryOp("relu"), net.then(Conv(), net.x, net.random(32, 16, 1, 1)))
    halves = [net.then(Slice((0, s, 0, 0), (1, s + 16, 6, 6), (1,) * 4), whole) for s in (0, 16)]
    made = net.then(UnaryOp("relu"), net.then(Conv(), halves[1], net.random(16, 16, 1, 1)))
    joined = net.then(Concat(1), *halves, made)
    graph = net.finish({"y": net.then(Conv(), joined, net.random(8, 48, 1, 1))})
    names = [call.name.rpartition(".")[0] for call in extract(graph).subgraphs]
    assert [name for name in names if name != "transpose"] == [
        "conv2d_relu", "conv2d_relu", "conv2d",
    ]  # fmt: skip
