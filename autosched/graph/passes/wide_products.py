"""Products of 16-bit floats that wait for arithmetic are computed of float32 numbers, made once.

    y = conv(x, w) + b   ->   y = float16(conv(float32(x), float32(w)) + float32(b))

A product widens its operands wherever it multiplies them: each datum once for each filter.  Where
that is often, they are widened beforehand: constants when the network is compiled, data by what
computes them, so that they take twice the memory.  Every value is rounded where it was, or later.
Whatever else reads a value that is wide anyway reads the wide one, and what only moves elements
moves those.  Products of few rows, and convolutions of each channel by itself, take as long as
their operands take from memory, and keep narrow ones.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from math import prod
from typing import Final

from autosched.graph.ir import Graph, Node
from autosched.graph.ops.base import Op, Pattern
from autosched.graph.ops.conv import Conv
from autosched.graph.ops.einsum import Einsum
from autosched.graph.ops.elementwise import CastOp
from autosched.graph.ops.matmul import Dense, MatMul, matmul_labels
from autosched.graph.ops.movement import Slice
from autosched.graph.ops.pooling import Pool
from autosched.graph.ops.shape import Concat, Reshape, Transpose
from autosched.graph.passes.dead_code import remove_dead_code
from autosched.graph.passes.rewriter import GraphRewriter

_WIDE: Final = "float32"
# Products that each element of both operands and of the result has to be part of: with fewer,
# conversions are hidden behind memory.
_LEAST_REUSE: Final = 12


def widen_products(graph: Graph, narrow: Collection[str]) -> Graph:
    """An optimised graph with the rewrite above; the graph itself where there are no such products.

    Args:
        graph: any.
        narrow: the types of operands that products are widened of.
    """
    found = [node for node in graph.nodes if _is_of(graph, node, narrow) and _is_busy(graph, node)]
    return remove_dead_code(_WideProducts(graph, found).run()) if found else graph


def _is_of(graph: Graph, node: Node, narrow: Collection[str]) -> bool:
    """Whether a node is a product of two operands of one of these types, in no type of its own."""
    if not isinstance(node.op, Conv | Dense | MatMul | Einsum) or node.op.dtype is not None:
        return False
    pair = not isinstance(node.op, Einsum) or len(node.inputs) == 2
    return pair and graph.types[node.output].dtype in narrow


def _is_busy(graph: Graph, node: Node) -> bool:
    """Whether each element of operands and result is part of enough products."""
    sizes = [graph.types[name].size for name in (*node.inputs[:2], node.output)]
    return _products(graph, node) >= _LEAST_REUSE * max(sizes)


def _products(graph: Graph, node: Node) -> int:
    """How many products a node sums; 0: of each channel by itself."""
    op, (lhs, rhs) = node.op, (graph.types[name] for name in node.inputs[:2])
    result = graph.types[node.output]
    if isinstance(op, Conv):
        form = op.weight(rhs.shape)
        if form.is_depthwise:
            return 0
        taps = prod(form.kernel)
        each = form.outputs if op.transposed else form.inputs
        return (lhs.size if op.transposed else result.size) * taps * each
    if isinstance(op, Einsum):
        labels: tuple[str, ...] = op.labels
    else:
        labels, _ = matmul_labels(len(lhs.shape), len(rhs.shape))
    extents: dict[str, int] = {}
    for names, kind in zip(labels, (lhs, rhs), strict=True):
        for label, extent in zip(names, kind.shape, strict=True):
            extents[label] = max(extent, extents.get(label, 1))
    return prod(extents.values())


def _moves(op: Op) -> bool:
    """Whether its elements are some of its operands'."""
    return isinstance(op, Reshape | Transpose | Concat | Slice) or (
        isinstance(op, Pool) and op.mode == "max"
    )


class _WideProducts(GraphRewriter):
    """The new graph while it grows, and the forms that values of the old one have in it."""

    def __init__(self, graph: Graph, products: Collection[Node]) -> None:
        super().__init__(graph)
        self._products = {node.output for node in products}
        self._wanted = self._with_sources(name for node in products for name in node.inputs)
        self._shared = {name for name in self._wanted if self._is_left_wide(name)}
        self._wide: dict[str, str] = {}
        self._instead: dict[str, str] = {}

    def _with_sources(self, values: Iterable[str]) -> set[str]:
        """Values, and what they are moved from."""
        found, pending = set[str](), list(values)
        while pending:
            name = pending.pop()
            if name in found:
                continue
            found.add(name)
            node = self.graph.producers.get(name)
            if node is not None and _moves(node.op):
                pending.extend(node.inputs)
        return found

    def convert(self, node: Node) -> None:
        """Emit ``node``: on wide operands where it is such a product, or moves what those read."""
        if node.output in self._products:
            self._rounded(node, self._add(node.op, node))
        elif node.output in self._wanted and _moves(node.op):
            self._wide[node.output] = self._add(node.op, node)
            self._rounded(node, self._wide[node.output])
        elif node.op == CastOp(_WIDE) and node.inputs[0] in self._wanted:
            self._instead[node.output] = self._widened(node.inputs[0])
        else:
            self.builder.copy(node, [self._read(node, name) for name in node.inputs])

    def value(self, name: str) -> str:
        """The wide form of what was widened anyway."""
        return self._instead.get(name, name)

    def _add(self, op: Op, node: Node) -> str:
        """``node`` with wide operands."""
        name = self.builder.unique(f"{node.output}.wide")
        inputs = [self._widened(name) for name in node.inputs]
        return self.builder.add(op, inputs, name, node.name, node.origins)

    def _rounded(self, node: Node, wide: str) -> None:
        """The old value of ``node``, of its wide form."""
        name = self.builder.unique(f"{node.output}.narrow")
        dtype = self.graph.types[node.output].dtype
        self.builder.add(CastOp(dtype), (wide,), node.output, name, node.origins)

    def _widened(self, name: str) -> str:
        name = self.value(name)
        if self.builder.types[name].dtype == _WIDE:
            return name
        if name not in self._wide:
            label = self.builder.unique(f"{name}.wide")
            array = self.graph.constants.get(name)
            self._wide[name] = (
                self.builder.add(CastOp(_WIDE), (name,), label, origins=())
                if array is None
                else self.builder.constant(label, array.astype(_WIDE))
            )
        return self._wide[name]

    def _read(self, reader: Node, name: str) -> str:
        """What another node reads of a value: the wide one where it is all that a kernel leaves."""
        if name not in self._shared or reader.op.pattern > Pattern.BROADCAST:
            return self.value(name)
        return self.builder.add(
            CastOp(self.graph.types[name].dtype), (self._widened(name),), origins=()
        )

    def _is_left_wide(self, name: str) -> bool:
        """Whether nobody needs the narrow form of what some kernel computes."""
        readers = self.graph.consumers.get(name, ())
        known = name not in self.graph.producers or name in self.graph.result_values
        return not known and all(self._takes_wide(reader) for reader in readers)

    def _takes_wide(self, reader: Node) -> bool:
        moved = reader.output in self._wanted and _moves(reader.op)
        element_wise = reader.op.pattern <= Pattern.BROADCAST
        return moved or element_wise or reader.output in self._products
