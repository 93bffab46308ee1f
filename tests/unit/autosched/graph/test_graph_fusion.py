"""Fusion: which nodes share a kernel."""

from collections.abc import Callable

import numpy as np
import pytest

from autosched.graph.builder import GraphBuilder
from autosched.graph.fusion import MOST_NODES, fuse
from autosched.graph.ir import Graph, Value
from autosched.graph.ops.base import Shape
from autosched.graph.ops.conv import Conv
from autosched.graph.ops.elementwise import BinaryOp, CastOp, UnaryOp
from autosched.graph.ops.movement import Slice
from autosched.graph.ops.pooling import GlobalPool, Pool
from autosched.graph.ops.reduce import ReduceOp
from autosched.graph.ops.shape import Concat, Reshape, Transpose
from autosched.graph.ops.softmax import Softmax

MAP = (1, 6, 6, 4)


class _Net(GraphBuilder):
    """Names of nodes are given; data is NHWC."""

    def __init__(self, shape: Shape = MAP) -> None:
        super().__init__("net")
        self.x = self.input(Value("x", shape))

    def conv(self, name: str, data: str) -> str:
        weight = self.constant(f"{name}.w", np.ones((1, 1, 4, 4), np.float32))
        return self.add(Conv(layout="NHWC"), [data, weight], name)

    def relu(self, name: str, data: str) -> str:
        return self.add(UnaryOp("relu"), [data], name)

    def plus(self, name: str, lhs: str, rhs: str) -> str:
        return self.add(BinaryOp("add"), [lhs, rhs], name)


def _groups(graph: Graph) -> list[str]:
    return ["+".join(node.name for node in group.nodes) for group in fuse(graph)]


def _chain() -> Graph:
    net = _Net()
    shift = net.constant("shift", np.ones(4, np.float32))
    biased = net.plus("bias", net.conv("c1", net.x), shift)
    return net.finish({"y": net.relu("r2", net.conv("c2", net.relu("r1", biased)))})


def _residual() -> Graph:
    net = _Net()
    start = net.relu("start", net.conv("c0", net.x))
    main = net.conv("c2", net.relu("r1", net.conv("c1", start)))
    return net.finish({"y": net.relu("out", net.plus("add", main, start))})


def _two_convolutions_meet() -> Graph:
    """The shortcut's convolution comes last in the list, as exporters write it."""
    net = _Net()
    main = net.conv("c2", net.relu("r1", net.conv("c1", net.x)))
    total = net.plus("add", main, net.conv("shortcut", net.x))
    return net.finish({"y": net.relu("out", total)})


def _diamond() -> Graph:
    net = _Net()
    conv = net.conv("c", net.x)
    gate = net.add(UnaryOp("sigmoid"), [conv], "gate")
    return net.finish({"y": net.relu("r", net.add(BinaryOp("mul"), [conv, gate], "silu"))})


def _value_is_an_output() -> Graph:
    net = _Net()
    conv = net.conv("c", net.x)
    return net.finish({"y": net.relu("r", conv), "conv": conv})


def _squeeze_and_excite() -> Graph:
    """The gate is broadcast to a larger shape: computing it inside would repeat it."""
    net = _Net()
    maps = net.conv("c", net.x)
    pooled = net.add(GlobalPool("avg", "NHWC"), [maps], "pool")
    gate = net.add(UnaryOp("sigmoid"), [net.conv("c_gate", pooled)], "gate")
    return net.finish({"y": net.add(BinaryOp("mul"), [gate, maps], "scale")})


def _branches_that_do_not_meet() -> Graph:
    net = _Net()
    conv = net.conv("c", net.x)
    return net.finish({"a": net.relu("r", conv), "b": net.add(UnaryOp("tanh"), [conv], "t")})


def _injective_chain() -> Graph:
    net = _Net()
    nchw = net.add(Transpose((0, 3, 1, 2)), [net.relu("r", net.x)], "t")
    return net.finish({"y": net.add(UnaryOp("exp"), [nchw], "e")})


def _prologue_of_a_reduction() -> Graph:
    net = _Net()
    total = net.plus("add", net.x, net.x)
    pooled = net.add(ReduceOp("mean", (1, 2)), [net.relu("r", total)], "mean")
    return net.finish({"y": net.add(UnaryOp("tanh"), [pooled], "t")})


def _no_prologue_where_it_repeats() -> Graph:
    net = _Net()
    pooled = net.add(Pool("max", (3, 3), (1, 1), layout="NHWC"), [net.relu("r", net.x)], "pool")
    return net.finish({"y": net.add(Softmax(-1), [net.relu("r2", pooled)], "softmax")})


def _views_and_opaque_nodes() -> Graph:
    net = _Net()
    conv = net.conv("c", net.x)
    flat = net.add(Reshape((36, 4)), [conv], "view")
    joined = net.add(Concat(0), [net.relu("r", flat), flat], "concat")
    return net.finish({"y": net.relu("r2", joined)})


@pytest.mark.parametrize(
    ("make", "groups"),
    [
        (_chain, ["c1+bias+r1", "c2+r2"]),
        (_residual, ["c0+start", "c1+r1", "c2+add+out"]),
        (_two_convolutions_meet, ["c1+r1", "shortcut", "c2+add+out"]),
        (_diamond, ["c+gate+silu+r"]),
        (_value_is_an_output, ["c", "r"]),
        (_squeeze_and_excite, ["c", "pool", "c_gate+gate", "scale"]),
        (_branches_that_do_not_meet, ["c", "r", "t"]),
        (_injective_chain, ["r+t+e"]),
        (_prologue_of_a_reduction, ["add+r+mean+t"]),
        (_no_prologue_where_it_repeats, ["r", "pool+r2", "softmax"]),
        (_views_and_opaque_nodes, ["c", "r", "r2"]),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_groups(make: Callable[[], Graph], groups: list[str]) -> None:
    assert _groups(make()) == groups


def test_groups_run_after_what_they_read() -> None:
    for make in (_residual, _two_convolutions_meet, _squeeze_and_excite, _diamond):
        graph = make()
        known = {value.name for value in graph.inputs} | set(graph.constants)
        for group in fuse(graph):
            inside = {node.output for node in group.nodes}
            assert {name for node in group.nodes for name in node.inputs} <= known | inside
            known.add(group.root.output)


def test_nothing_to_fuse() -> None:
    net = _Net()
    assert fuse(net.finish({"y": net.x})) == ()


def test_chains_join_the_chain_that_alone_reads_them() -> None:
    """A value made of two slices is one kernel; what a chain repeats is computed once before."""
    net = _Net((4, 6))
    left = net.add(Slice((0, 0), (4, 3), (1, 1)), [net.x], "left")
    right = net.add(Slice((0, 3), (4, 6), (1, 1)), [net.x], "right")
    total = net.plus("sum", net.relu("relu", left), net.add(UnaryOp("exp"), [right], "exp"))
    column = net.add(Slice((0, 0), (4, 1), (1, 1)), [net.x], "column")
    repeated = net.add(UnaryOp("tanh"), [column], "tanh")
    scaled = net.plus("scaled", total, repeated)
    assert _groups(net.finish({"y": scaled})) == [
        "column+tanh",
        "left+right+relu+exp+sum+scaled",
    ]


def test_a_chain_that_two_kernels_read_stays_alone() -> None:
    net = _Net((4, 6))
    shared = net.relu("shared", net.x)
    first = net.plus("first", shared, net.x)
    second = net.add(ReduceOp("max", (1,), True), [shared], "second")
    assert _groups(net.finish({"a": first, "b": second})) == ["shared", "first", "second"]


@pytest.mark.parametrize("count", [MOST_NODES - 2, MOST_NODES - 1, MOST_NODES])
def test_a_turned_image_that_finds_no_room_has_a_kernel(count: int) -> None:
    builder = GraphBuilder("net")
    image = builder.input(Value("x", (1, 3, 8, 8)))
    whole = builder.add(CastOp("uint8"), [builder.add(UnaryOp("round"), [image])])
    turned = builder.add(Transpose((0, 2, 3, 1)), [whole])
    weight = builder.constant("w", np.ones((3, 3, 3, 16), np.int8))
    value = builder.add(Conv(layout="NHWC", dtype="int32"), [turned, weight])
    for _ in range(count):
        value = builder.add(UnaryOp("neg"), [value])
    graph = builder.finish({"y": value})
    placed = {node.output for group in fuse(graph) for node in group.nodes}
    assert placed == {node.output for node in graph.nodes}
