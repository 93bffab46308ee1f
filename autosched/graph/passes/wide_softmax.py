"""Probabilities of 16-bit attention stay in float32 until they have weighted their values.

Rounding them in between loses as much as the whole rest of an attention's arithmetic: what follows
a softmax element by element, and the product that reads it, work on float32, and the product's
result is rounded once.
"""

from __future__ import annotations

from typing import Final

from autosched.graph.ir import Graph, Node
from autosched.graph.ops.einsum import Einsum
from autosched.graph.ops.elementwise import BinaryOp, CastOp, Clip, UnaryOp, Where
from autosched.graph.ops.matmul import MatMul
from autosched.graph.ops.softmax import Softmax
from autosched.graph.passes.rewriter import GraphRewriter

_HALVES: Final = ("float16", "bfloat16")
_WIDE: Final = "float32"


def widen_softmax(graph: Graph) -> Graph:
    """``graph`` with the rewrite above; every value keeps its dtype."""
    return _Widening(graph).run()


class _Widening(GraphRewriter):
    """The new graph, and the float32 form of the 16-bit values that have one."""

    def __init__(self, graph: Graph) -> None:
        super().__init__(graph)
        self._wide: dict[str, str] = {}

    def convert(self, node: Node) -> None:
        """Emit ``node``, in float32 and rounded where that is called for."""
        dtype = self.graph.types[node.output].dtype
        follows = any(name in self._wide for name in node.inputs)
        element_wise = isinstance(node.op, BinaryOp | UnaryOp | Where | Clip) and follows
        product = isinstance(node.op, MatMul | Einsum) and follows
        if dtype not in _HALVES or not (isinstance(node.op, Softmax) or element_wise or product):
            self.builder.copy(node, node.inputs)
            return
        inputs = [self._widened(name) for name in node.inputs]
        name = self.builder.unique(f"{node.output}.wide")
        wide = self.builder.add(node.op, inputs, name, name, node.origins)
        if not product:
            self._wide[node.output] = wide
        self.builder.add(CastOp(dtype), (wide,), node.output, node.name, node.origins)

    def _widened(self, name: str) -> str:
        if name in self._wide:
            return self._wide[name]
        if self.graph.types[name].dtype not in _HALVES:
            return name
        return self.builder.add(CastOp(_WIDE), (name,))
