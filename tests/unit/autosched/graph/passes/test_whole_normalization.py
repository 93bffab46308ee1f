"""Normalisation over all of a sample needs no view of it."""

from __future__ import annotations

import pytest

from autosched.graph.extract import extract
from autosched.graph.ir import Graph
from autosched.graph.ops.base import Shape
from autosched.graph.ops.conv import Conv
from autosched.graph.ops.norm import Normalize
from autosched.graph.ops.shape import Reshape
from autosched.graph.passes.dead_code import remove_dead_code
from autosched.graph.passes.whole_normalization import normalize_in_place
from tests.support.small_graphs import Net, assert_close, values_of

SHAPE = (2, 6, 4, 5)


def _grouped(
    view: Shape, axes: tuple[int, ...], result: Shape = SHAPE, centered: bool = True
) -> Graph:
    net = Net(SHAPE)
    flat = net.then(Reshape(view), net.x)
    normal = net.then(Normalize(axes, 1e-3, centered), flat)
    return net.finish({"y": net.then(Reshape(result), normal)})


@pytest.mark.parametrize("centered", [False, True])
@pytest.mark.parametrize(
    ("view", "axes"), [((2, 1, 120), (2,)), ((2, 120), (1,)), ((2, 3, 1, 40), (1, 3))]
)
def test_whole_samples(view: Shape, axes: tuple[int, ...], centered: bool) -> None:
    graph = _grouped(view, axes, centered=centered)
    found = remove_dead_code(normalize_in_place(graph))
    assert [node.op for node in found.nodes] == [Normalize((1, 2, 3), 1e-3, centered)]
    assert_close(values_of(found), values_of(graph), "whole")


@pytest.mark.parametrize(
    ("view", "axes", "result"),
    [
        ((2, 3, 40), (2,), SHAPE),
        ((1, 240), (1,), SHAPE),
        ((2, 1, 120), (0, 2), SHAPE),
        ((2, 1, 120), (2,), (2, 120)),
    ],
    ids=["groups", "all samples", "over samples", "another shape"],
)
def test_other_normalisations_stay(view: Shape, axes: tuple[int, ...], result: Shape) -> None:
    graph = _grouped(view, axes, result)
    assert normalize_in_place(graph).nodes == graph.nodes


def test_between_convolutions_nothing_is_transposed() -> None:
    net = Net((1, 16, 40))
    conv = Conv(strides=(1,), padding=(0, 0), dilation=(1,))
    first = net.then(conv, net.x, net.random(16, 16, 1))
    normal = net.then(Normalize((2,)), net.then(Reshape((1, 1, 640)), first))
    back = net.then(Reshape((1, 16, 40)), normal)
    graph = net.finish({"y": net.then(conv, back, net.random(16, 16, 1))})
    names = [call.name.rpartition(".")[0] for call in extract(graph).subgraphs]
    assert names == ["transpose", "conv1d", "normalize", "conv1d", "transpose"]
