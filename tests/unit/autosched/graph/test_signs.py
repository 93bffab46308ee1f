"""Signs that the definitions of values give away."""

from __future__ import annotations

import numpy as np
import pytest

from autosched.graph.builder import GraphBuilder
from autosched.graph.ir import Value
from autosched.graph.ops.elementwise import BinaryOp, Clip, UnaryOp
from autosched.graph.ops.pooling import Pool
from autosched.graph.ops.shape import Concat, Pad, Reshape
from autosched.graph.ops.softmax import Softmax
from autosched.graph.signs import never_negative

POOL, RELU = Pool("avg", (2, 2), (1, 1)), UnaryOp("relu")
LOW, HIGH = (0, 0, 1, 1), (0, 0, 1, 1)


@pytest.mark.parametrize(
    ("ops", "positive"),
    [
        ([], False),
        ([RELU], True),
        ([UnaryOp("tanh")], False),
        ([RELU, UnaryOp("neg")], False),
        ([RELU, POOL, Reshape((1, 2, 9))], True),
        ([POOL], False),
        ([Clip(0.0, 6.0)], True),
        ([Clip(None, 6.0)], False),
        ([Softmax()], True),
        ([Softmax(log=True)], False),
        ([RELU, Pad(LOW, HIGH)], True),
        ([RELU, Pad(LOW, HIGH, -1.0)], False),
    ],
)
def test_chains(ops, positive: bool) -> None:
    builder = GraphBuilder("chain")
    value = builder.input(Value("data", (1, 2, 4, 4)))
    for op in ops:
        value = builder.add(op, (value,))
    assert never_negative(builder.finish({"out": value}), value) is positive


@pytest.mark.parametrize("op", [BinaryOp("add"), BinaryOp("mul"), BinaryOp("max"), Concat(0)])
def test_several_operands(op) -> None:
    builder = GraphBuilder("pair")
    data = builder.input(Value("data", (2, 4)))
    kept = builder.add(RELU, (data,))
    ones = builder.constant("ones", np.ones((2, 4), np.float32))
    both, mixed = builder.add(op, (kept, ones)), builder.add(op, (kept, data))
    graph = builder.finish({"both": both, "mixed": mixed})
    assert never_negative(graph, both) and not never_negative(graph, mixed)
    assert never_negative(graph, ones) and not never_negative(graph, "data")
