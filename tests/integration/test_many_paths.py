"""Stages that the next one reads twice: as many paths as two to the power of their number.

Each of them is looked at once, or none of these tests ends.
"""

from __future__ import annotations

import numpy as np
import pytest

import autosched as asd
from autosched.graph.builder import GraphBuilder
from autosched.graph.extract import extract
from autosched.graph.ir import Graph, Network, Value
from autosched.graph.ops.elementwise import BinaryOp, UnaryOp
from autosched.graph.ops.matmul import MatMul
from autosched.graph.ops.shape import Concat, Transpose
from autosched.graph.passes.concat import split_concats
from autosched.graph.passes.turned_weights import turn_weights
from codegen.host import host_target
from sketch.dag.dag import ComputeDAG
from sketch.lang.tensor import Tensor
from sketch.rules.generate import generate
from sketch.variants.element_wise import readers

TARGET = host_target(1)


def silus(builder: GraphBuilder, value: str, count: int) -> str:
    """``x * sigmoid(x)``, again and again."""
    for _ in range(count):
        value = builder.add(BinaryOp("mul"), [value, builder.add(UnaryOp("sigmoid"), [value])])
    return value


def element_wise() -> Graph:
    builder = GraphBuilder("net")
    value = builder.input(Value("x", (8, 64)))
    half = builder.constant("half", np.float32(0.5))
    for _ in range(14):
        bent = builder.add(UnaryOp("tanh"), [value])
        gate = builder.add(UnaryOp("sigmoid"), [bent])
        value = builder.add(BinaryOp("add"), [gate, builder.add(BinaryOp("mul"), [bent, half])])
    return builder.finish({"y": value})


def after_a_product() -> Graph:
    builder = GraphBuilder("net")
    weight = builder.constant("w", np.full((64, 32), 0.1, np.float32))
    product = builder.add(MatMul(), [builder.input(Value("x", (16, 64))), weight])
    return builder.finish({"y": silus(builder, product, 31)})


def before_a_turned_operand() -> Graph:
    builder = GraphBuilder("net")
    left, right = builder.input(Value("a", (8, 16))), builder.input(Value("x", (8, 16)))
    turned = builder.add(Transpose((1, 0)), [silus(builder, right, 40)])
    return builder.finish({"y": builder.add(MatMul(), [left, turned])})


@pytest.mark.parametrize("make", [element_wise, after_a_product, before_a_turned_operand])
def test_networks_of_many_paths_compile(make) -> None:
    graph = make()
    inputs = {
        value.name: np.random.default_rng(0).standard_normal(value.shape, np.float32)
        for value in graph.inputs
    }
    plain = asd.compile(Network("net", graph), target=TARGET, effort="none").run(inputs)["y"]
    assert np.isfinite(plain).all()
    assert turn_weights(graph).nodes == graph.nodes


def test_each_reader_is_listed_once() -> None:
    (call,) = extract(after_a_product()).subgraphs
    stages = call.dag.stages
    assert len(readers(call.dag, stages[0])) == len(stages) - 1


def diamond(x: Tensor, number: int) -> Tensor:
    gate = asd.compute(x.shape, lambda i, j: asd.sigmoid(x[i, j]), name=f"f{number}")
    bent = asd.compute(x.shape, lambda i, j: asd.tanh(x[i, j]), name=f"g{number}")
    return asd.compute(x.shape, lambda i, j: gate[i, j] * bent[i, j], name=f"t{number}")


def test_diamonds_before_a_product() -> None:
    x = asd.placeholder((32, 32), name="a")
    weight = asd.placeholder((32, 32), name="w", constant=True)
    for number in range(24):
        x = diamond(x, number)
    k = asd.reduce_axis(32, "k")
    y = asd.compute((32, 32), lambda i, j: asd.sum(x[i, k] * weight[k, j], axis=k), name="y")
    assert generate(ComputeDAG([y]), TARGET)


def test_concatenations_of_concatenations_are_taken_apart() -> None:
    """As of a loop that appends a row at a time."""
    builder = GraphBuilder("rows")
    joined = row = builder.input(Value("x", (1, 4)))
    for _ in range(1200):
        negative = builder.add(UnaryOp("neg"), [row])
        joined = builder.add(Concat(0), [joined, negative])
    graph = builder.finish({"y": joined})
    (node,) = [n for n in split_concats(graph, frozenset()).nodes if isinstance(n.op, Concat)]
    assert len(node.inputs) == 1201
