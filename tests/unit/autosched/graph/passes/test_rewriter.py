"""A pass that gives a result another type is an error, not another shape for the caller."""

from __future__ import annotations

import pytest

from autosched.graph.builder import GraphBuilder
from autosched.graph.errors import GraphError
from autosched.graph.ir import Node, Value
from autosched.graph.ops.elementwise import UnaryOp
from autosched.graph.ops.shape import Reshape
from autosched.graph.passes.rewriter import GraphRewriter


class _WithOneDimensionMore(GraphRewriter):
    def convert(self, node: Node) -> None:
        value = self.reshaped(node.inputs[0], (1, 2, 3), "deeper")
        self.builder.add(node.op, (value,), node.output, node.name, node.origins)


def test_results_keep_their_types() -> None:
    net = GraphBuilder("net")
    x = net.input(Value("x", (2, 3)))
    graph = net.finish({"y": net.add(UnaryOp("relu"), [x])})
    with pytest.raises(GraphError, match=r"float32\[1, 2, 3\] of the result 'y', float32\[2, 3\]"):
        _WithOneDimensionMore(graph).run()
    flat = GraphBuilder("flat")
    x = flat.input(Value("x", (2, 3)))
    graph = flat.finish({"y": flat.add(Reshape((6,)), [x])})
    assert _WithOneDimensionMore(graph).run().types[graph.results[0].value].shape == (6,)
