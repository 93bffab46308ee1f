"""Products read what a view adds dimensions of one element to."""

from __future__ import annotations

import pytest

from autosched.graph.ir import Graph, Value
from autosched.graph.ops.base import Shape
from autosched.graph.ops.einsum import Einsum
from autosched.graph.ops.shape import Reshape
from autosched.graph.passes.dead_code import remove_dead_code
from autosched.graph.passes.unit_dimensions import drop_unit_dimensions
from tests.support.small_graphs import Net, assert_close, values_of


def _product(shape: Shape, view: Shape, labels: tuple[str, str], output: str) -> Graph:
    net = Net(shape)
    other = net.input(Value("v", (1, 4, 3, 2)[-len(labels[1]) :]))
    return net.finish(
        {"y": net.then(Einsum(labels, output), net.then(Reshape(view), net.x), other)}
    )


@pytest.mark.parametrize(
    ("shape", "view", "labels", "output", "left"),
    [
        ((3, 5, 4), (1, 3, 5, 4), ("ABik", "AkBj"), "AiBj", "Bik"),
        ((3, 5, 4), (3, 5, 1, 4), ("BiAk", "AkBj"), "AiBj", "Bik"),
        ((3, 5, 4), (3, 1, 5, 4), ("BCik", "AkBj"), "AiBj", "Bik"),
        ((1, 3, 5, 4), (1, 1, 3, 5, 4), ("CABik", "AkBj"), "AiBj", "CBik"),
        ((3, 5, 4), (1, 3, 5, 4), ("CBik", "AkBj"), "CiBj", None),
        ((15, 4), (3, 5, 4), ("Bik", "AkBj"), "AiBj", None),
        ((3, 5, 1, 4), (3, 5, 4), ("Bik", "AkBj"), "AiBj", None),
    ],
)
def test_dimensions_that_a_view_adds(
    shape: Shape, view: Shape, labels: tuple[str, str], output: str, left: str | None
) -> None:
    graph = _product(shape, view, labels, output)
    found = remove_dead_code(drop_unit_dimensions(graph))
    expected = ["einsum"] if left else ["reshape", "einsum"]
    assert [node.op.kind for node in found.nodes] == expected
    assert found.nodes[-1].op == Einsum((left or labels[0], labels[1]), output)
    assert_close(values_of(found), values_of(graph), "unit dimensions")
