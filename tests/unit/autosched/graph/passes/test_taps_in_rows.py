"""Convolutions of few channels whose taps lie together in a row."""

from __future__ import annotations

import numpy as np
import pytest

from autosched.graph.builder import GraphBuilder
from autosched.graph.evaluate import evaluate
from autosched.graph.extract import extract
from autosched.graph.ir import Graph, Network, Value
from autosched.graph.ops.conv import Conv
from autosched.graph.optimize import optimize
from autosched.graph.passes.taps_in_rows import taps_in_rows
from autosched.graph.precision import Precision, ReducedLayers
from autosched.graph.reduced import reducible_layers, with_reduced
from sketch.schedule.steps import Split
from tests.support.units import TILES, on_units

NARROW: tuple[Precision, ...] = ("bf16", "int8-dynamic")
WINDOWS = {
    "picture": ((3, 9, 10), (7, 7), Conv(strides=(2, 2), padding=(3, 3, 3, 3))),
    "uneven": ((4, 7, 9), (2, 3), Conv(strides=(1, 3), padding=(0, 1, 2, 0), dilation=(2, 1))),
    "no padding": ((3, 6, 8), (1, 4), Conv()),
    "sound": ((2, 25), (6,), Conv(strides=(3,), padding=(2, 1), dilation=(1,))),
    "solid": (
        (1, 4, 5, 6), (2, 2, 3),
        Conv(strides=(1, 2, 1), padding=(1, 0, 1, 0, 1, 1), dilation=(1, 1, 1)),
    ),
}  # fmt: skip


def window(image: tuple[int, ...], kernel: tuple[int, ...], op: Conv) -> Graph:
    """Whole numbers, which every precision holds and sums exactly."""
    rng = np.random.default_rng(0)
    builder = GraphBuilder("window")
    data = builder.input(Value("data", (2, *image)))
    shape = (16, image[0] // op.groups, *kernel)
    weight = rng.integers(-3, 4, shape).astype(np.float32)
    weight[:, 0, ..., 0] = 127
    inputs = (data, builder.constant("weight", weight))
    return optimize(builder.finish({"out": builder.add(op, inputs, name="layer")}))


def narrowed(graph: Graph, precision: Precision) -> Network:
    names = frozenset(node.name for node in reducible_layers(graph, precision))
    return Network(graph.name, graph, reduced=ReducedLayers(precision, names))


def convolutions(graph: Graph) -> list[int]:
    """Channels of the images of all convolutions."""
    layers = [node for node in graph.nodes if isinstance(node.op, Conv)]
    return [graph.types[node.inputs[0]].shape[-1] for node in layers]


@pytest.mark.parametrize("precision", NARROW)
@pytest.mark.parametrize("name", WINDOWS)
def test_results_are_what_they_were(name: str, precision: Precision) -> None:
    graph = window(*WINDOWS[name])
    before = with_reduced(graph, narrowed(graph, precision).reduced)
    after = taps_in_rows(before)
    assert convolutions(after) == [1]
    rng = np.random.default_rng(1)
    data = rng.integers(-9, 10, (2, *WINDOWS[name][0])).astype(np.float32)
    data[:, 0, ..., 0] = 127
    (expected,) = evaluate(before, {"data": data}).values()
    (found,) = evaluate(after, {"data": data}).values()
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(("precision", "groups"), [("bf16", (14, 2)), ("int8-dynamic", (7, 4))])
def test_units_add_all_taps_of_a_row(precision: Precision, groups: tuple[int, int]) -> None:
    found = extract(narrowed(window(*WINDOWS["picture"]), precision))
    sketches = [s for dag, _ in found.tasks for s in on_units(dag, TILES)]
    splits = [step for s in sketches for step in s.steps if isinstance(step, Split)]
    assert any(step.factors[-2:] == groups for step in splits)


@pytest.mark.parametrize(
    ("image", "kernel", "op"),
    [
        ((3, 9, 10), (1, 1), Conv()),
        ((3, 9, 10), (3, 3), Conv(dilation=(1, 2))),
        ((16, 9, 10), (3, 3), Conv()),
        ((16, 9, 10), (3, 3), Conv(groups=4)),
    ],
    ids=["one tap", "taps apart", "many channels", "groups"],
)
def test_others_stay(image: tuple[int, ...], kernel: tuple[int, ...], op: Conv) -> None:
    graph = window(image, kernel, op)
    before = with_reduced(graph, narrowed(graph, "bf16").reduced)
    assert taps_in_rows(before) is before
    assert taps_in_rows(graph) is graph  # of float32
