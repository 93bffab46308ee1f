"""Loops in graphs: any body, and where its results lie."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from autosched.compilation.network import compile_network
from autosched.graph.builder import GraphBuilder
from autosched.graph.errors import GraphError
from autosched.graph.evaluate import evaluate
from autosched.graph.extract import extract
from autosched.graph.ir import Graph, Network, Value
from autosched.graph.ops.elementwise import BinaryOp, UnaryOp
from autosched.graph.ops.scan import Scan, ScanFunction
from autosched.graph.ops.shape import Concat, Reshape, Transpose
from codegen.host import cpu_target

ROW = (2, 3)
ADD, MUL = BinaryOp("add"), BinaryOp("mul")


def body() -> Graph:
    """States a, b and c of a shift register with odd results; slices x and y; shared s."""
    net = GraphBuilder("body")
    a, b, c, x, y = (net.input(Value(name, ROW)) for name in "abcxy")
    s = net.input(Value("s", (3,)))
    fresh = net.add(ADD, (net.add(MUL, (a, s)), x))
    again = net.add(Reshape((3, 2)), (fresh,))
    joined = net.add(Concat(0), (fresh, y))
    constant = net.constant("k", np.arange(6, dtype=np.float32).reshape(ROW))
    flipped = net.add(Transpose((1, 0)), (net.add(ADD, (c, y)),))
    results = {
        "a": fresh,  # a state that is stacked as well
        "b": a,  # a state that is another one's last value
        "c": fresh,  # two states of one value
        "stack": fresh,
        "twice": fresh,  # stacked twice
        "view": again,  # and once more, in another shape
        "joined": joined,  # computed in parts
        "input": y,  # no kernel computes it
        "constant": constant,
        "b before": b,
        "flipped": flipped,
    }
    return net.finish(results)


def network(trips: int, backwards: bool, wanted: set[int] | None = None) -> Network:
    """The loop between other kernels; results of ``wanted`` numbers are outputs."""
    net = GraphBuilder("net")
    shapes = {"a": ROW, "b": ROW, "c": ROW, "x": (trips, *ROW), "y": (trips, *ROW), "s": (3,)}
    inputs = {name: net.input(Value(name, shape)) for name, shape in shapes.items()}
    inputs["b"] = net.add(UnaryOp("relu"), (inputs["b"],))
    inputs["c"] = net.constant("zeros", np.zeros(ROW, np.float32))
    inputs["y"] = net.add(UnaryOp("neg"), (inputs["y"],))
    function = ScanFunction(body(), trips, 3, 2, backwards)
    count = len(function.body.results)
    outputs = {}
    for number in sorted(wanted or set(range(count))):
        value = net.add(Scan(function, number), list(inputs.values()))
        outputs[f"r{number}"] = value
        if number in (1, 3):
            outputs[f"after{number}"] = net.add(UnaryOp("abs"), (value,))
    return Network("net", net.finish(outputs))


def numpy_loop(inputs: dict[str, Any], trips: int, backwards: bool) -> list[Any]:
    a, b, c = inputs["a"], np.maximum(inputs["b"], 0), np.zeros(ROW)
    y = -inputs["y"]
    rows: dict[int, list[Any]] = {}
    for t in range(trips)[:: -1 if backwards else 1]:
        fresh = a * inputs["s"] + inputs["x"][t]
        joined = np.concatenate([fresh, y[t]])
        constant = np.arange(6.0).reshape(ROW)
        rows[t] = [fresh, fresh, fresh.reshape(3, 2), joined, y[t], constant, b, (c + y[t]).T]
        a, b, c = fresh, a, fresh
    return [
        a,
        b,
        c,
        *(np.stack(stack) for stack in zip(*(rows[t] for t in range(trips)), strict=True)),
    ]


@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize("trips", [1, 2, 5])
def test_any_body(trips: int, backwards: bool) -> None:
    model = network(trips, backwards)
    rng = np.random.default_rng(trips)
    inputs = {v.name: rng.standard_normal(v.shape, dtype=np.float32) for v in model.inputs}
    expected = numpy_loop(inputs, trips, backwards)
    module = compile_network(model, cpu_target(threads=1))
    for found in (evaluate(model.graph, inputs), module.run(inputs), module.run(inputs)):
        for number, values in enumerate(expected):
            np.testing.assert_allclose(found[f"r{number}"], values, rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(found["after1"], np.abs(expected[1]), rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(found["after3"], np.abs(expected[3]), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("wanted", [{0}, {1}, {2}, {4}, {1, 9}, {10}])
def test_some_results(wanted: set[int]) -> None:
    model = network(3, False, wanted)
    rng = np.random.default_rng(0)
    inputs = {v.name: rng.standard_normal(v.shape, dtype=np.float32) for v in model.inputs}
    expected = numpy_loop(inputs, 3, False)
    found = compile_network(model, cpu_target(threads=1)).run(inputs)
    for number in wanted:
        np.testing.assert_allclose(found[f"r{number}"], expected[number], rtol=1e-5, atol=1e-5)


def test_a_value_that_is_called_like_one_of_the_body() -> None:
    net = GraphBuilder("net")
    inner = GraphBuilder("body")
    state, x = (inner.input(Value(name, ROW)) for name in ("state", "x"))
    function = ScanFunction(inner.finish({"r": inner.add(ADD, (state, x), "sum")}), 4, 1, 1)
    start, data = net.input(Value("scan.1/sum", ROW)), net.input(Value("scan.1/x", (4, *ROW)))
    last = net.add(Scan(function, 0), (net.add(UnaryOp("neg"), (start,), "scan.1/state"), data))
    model = Network("net", net.finish({"y": net.add(ADD, (last, start))}))
    inputs = {name: np.ones(v.shape, np.float32) for name, v in ((v.name, v) for v in model.inputs)}
    found = compile_network(model, cpu_target(threads=1)).run(inputs)["y"]
    np.testing.assert_array_equal(found, np.full(ROW, 4))


def test_equal_programs_of_body_and_network_are_one_task() -> None:
    net, inner = GraphBuilder("net"), GraphBuilder("body")
    state, x = (inner.input(Value(name, ROW)) for name in ("state", "x"))
    function = ScanFunction(inner.finish({"r": inner.add(ADD, (state, x))}), 7, 1, 1)
    start, data = net.input(Value("start", ROW)), net.input(Value("data", (7, *ROW)))
    last = net.add(Scan(function, 0), (start, data))
    extraction = extract(net.finish({"y": net.add(ADD, (last, start))}))
    assert [task.weight for task in extraction.tasks] == [8]


@pytest.mark.parametrize(
    ("trips", "states", "slices", "problem"),
    [(0, 1, 1, "in 0 iterations"), (2, 3, 1, "for 3 states"), (2, 2, 0, "becomes")],
)
def test_what_does_not_fit(trips: int, states: int, slices: int, problem: str) -> None:
    inner = GraphBuilder("body")
    a, b = inner.input(Value("a", ROW)), inner.input(Value("b", (1, 3)))
    graph = inner.finish({"a": inner.add(ADD, (a, b)), "b": a})
    with pytest.raises(GraphError, match=problem):
        ScanFunction(graph, trips, states, slices)


def test_sequences_must_have_the_length() -> None:
    net, inner = GraphBuilder("net"), GraphBuilder("body")
    x = inner.input(Value("x", ROW))
    function = ScanFunction(inner.finish({"r": inner.add(UnaryOp("neg"), (x,))}), 3, 0, 1)
    with pytest.raises(GraphError, match=r"input 0 of the loop must be float32\[3, 2, 3\]"):
        net.add(Scan(function, 0), (net.input(Value("x", (4, *ROW))),))


@pytest.mark.parametrize("trips", [1, 2, 3])
def test_a_loop_begins_with_what_another_leaves(trips: int) -> None:
    """Its state where nothing is stacked, and its stack."""
    net, inner = GraphBuilder("net"), GraphBuilder("body")
    state, x = (inner.input(Value(name, ROW)) for name in ("state", "x"))
    after = inner.add(ADD, (inner.add(MUL, (state, x)), x))
    graph = inner.finish({"state": after, "stack": after})
    start, data = net.input(Value("start", ROW)), net.input(Value("data", (trips, *ROW)))
    there, back = (ScanFunction(graph, trips, 1, 1, backwards) for backwards in (False, True))
    last = net.add(Scan(there, 0), (start, data))
    second = net.add(Scan(there, 1), (last, data))
    third = net.add(Scan(back, 0), (last, second))
    model = Network("net", net.finish({"y": third, "z": net.add(UnaryOp("neg"), (last,))}))
    rng = np.random.default_rng(1)
    inputs = {v.name: rng.standard_normal(v.shape, dtype=np.float32) for v in model.inputs}
    found = compile_network(model, cpu_target(threads=1)).run(inputs)
    for name, expected in evaluate(model.graph, inputs).items():
        np.testing.assert_allclose(found[name], expected, rtol=1e-4, atol=1e-4)
