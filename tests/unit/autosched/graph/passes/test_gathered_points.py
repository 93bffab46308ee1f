"""Constant index tuples become places along one dimension."""

from __future__ import annotations

import numpy as np
import pytest

from autosched.graph.ir import Graph, Value
from autosched.graph.ops.gather import Gather, GatherPoints
from autosched.graph.ops.shape import Transpose
from autosched.graph.passes.clean_up import clean_up
from autosched.graph.passes.dead_code import remove_dead_code
from autosched.graph.passes.gathered_points import gather_along_one
from autosched.graph.passes.layout import to_channels_last
from tests.support.small_graphs import Net, assert_close, values_of

TUPLES = np.array([[0, 3], [-1, 0], [1, -2]])


def _indexed(order: tuple[int, ...] | None, tuples: np.ndarray, back: bool = True) -> Graph:
    """``x[:, i, j]`` of ``x`` [4, 3, 4], as it is exported; ``order`` None: ``x[i, j]``."""
    net = Net((4, 3, 4) if order else (3, 4, 5))
    data = net.then(Transpose(order), net.x) if order else net.x
    found = net.then(GatherPoints(), data, net.constant("tuples", tuples))
    return net.finish({"y": net.then(Transpose((1, 0)), found) if order and back else found})


@pytest.mark.parametrize(
    ("graph", "axis"),
    [
        (_indexed((1, 2, 0), TUPLES), 1),
        (_indexed((1, 2, 0), TUPLES, back=False), 1),
        (_indexed(None, TUPLES), 0),
        (_indexed(None, TUPLES.reshape(3, 1, 2).astype(np.int32)), 0),
        (_indexed((1, 0, 2), TUPLES), 0),
    ],
    ids=["in the middle", "in front", "the first", "of any shape", "not neighbours"],
)
def test_constant_tuples(graph: Graph, axis: int) -> None:
    found = remove_dead_code(gather_along_one(graph))
    assert [node.op for node in found.nodes if isinstance(node.op, Gather)] == [Gather(axis)]
    assert not any(isinstance(node.op, GatherPoints) for node in found.nodes)
    assert_close(values_of(found), values_of(graph), "gathered")


def test_no_transpose_is_left() -> None:
    graph = remove_dead_code(gather_along_one(_indexed((1, 2, 0), TUPLES)))
    kinds = {node.op.kind for node in clean_up(to_channels_last(clean_up(graph))).nodes}
    assert "transpose" not in kinds


def test_other_tuples_stay() -> None:
    beyond = _indexed(None, np.array([[0, 4], [3, 0]]))
    assert gather_along_one(beyond).nodes == beyond.nodes
    net = Net((3, 4, 5))
    index = net.input(Value("i", (2, 2), "int64"))
    given = net.finish({"y": net.then(GatherPoints(), net.x, index)})
    assert gather_along_one(given).nodes == given.nodes
