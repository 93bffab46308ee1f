"""Products of few rows read the parts of a joined operand where these lie.

    x @ Concat(a, b), along columns          ->  Concat(x @ a, x @ b)
    x @ Concat(a, b), along what is summed   ->  x[:, :m] @ a + x[:, m:] @ b

A decoder's keys and values are those that it is given and those of one token more.  With few rows
a product takes as long as its operands take from memory, and to join them first is to read them
twice.  What is joined on the right hand side needs no copy: products leave it in place, scaled by
numbers if the model does so next.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from math import prod
from typing import Final

from autosched.graph.ir import Graph, Node
from autosched.graph.ops.einsum import Einsum
from autosched.graph.ops.elementwise import BinaryOp, Elementwise
from autosched.graph.ops.matmul import MatMul, matmul_labels
from autosched.graph.ops.movement import Slice
from autosched.graph.ops.shape import Concat, Reshape
from autosched.graph.passes.dead_code import remove_dead_code
from autosched.graph.passes.rewriter import GraphRewriter

_MANY_ROWS: Final = 12  # see ``narrow_weights``
_TYPES: Final = ("float32", "float64", "int32", "int64")  # sums of others would be rounded twice


def read_joined_operands(graph: Graph) -> Graph:
    """``graph`` with the rewrites above; the graph itself where there are none."""
    rewriter = _JoinedOperands(graph)
    found = rewriter.run()
    return remove_dead_code(found) if rewriter.changed else graph


@dataclass(frozen=True, slots=True)
class _Joined:
    """An operand of a product that is joined.

    Attributes:
        place: which of the two.
        parts: what is joined.
        column: the dimension of the result that it is joined along; None: it is summed over.
        summed: the dimension of the other operand that is summed over with it, else 0.
    """

    place: int
    parts: tuple[str, ...]
    column: int | None
    summed: int = 0


class _JoinedOperands(GraphRewriter):
    """The new graph while it grows."""

    def __init__(self, graph: Graph) -> None:
        super().__init__(graph)
        self.changed = False
        self._parts: dict[str, tuple[Concat, list[str]]] = {}  # of joined results of products

    def convert(self, node: Node) -> None:
        """Emit ``node``, a product for each part of an operand where one is joined."""
        found = self._joined(node)
        if found is None:
            if not self._scaled(node):
                self.builder.copy(node, node.inputs)
            return
        self.changed = True
        products = self._products(node, found)
        if found.column is not None:
            self._parts[node.output] = Concat(found.column), products
            self.builder.copy(node, products, Concat(found.column))
            return
        *others, last = products
        total = reduce(lambda lhs, rhs: self._sum(node, lhs, rhs), others)
        self.builder.copy(node, (total, last), BinaryOp("add"))

    def _scaled(self, node: Node) -> bool:
        """Whether ``node``, which combines a joined result with numbers, does so to its parts."""
        known = [name for name in node.inputs if name in self._parts]
        if len(known) != 1 or not isinstance(node.op, Elementwise):
            return False
        (name,) = known
        alone = self.graph.consumers[name] == (node,) and name not in self.graph.result_values
        numbers = all(prod(self.shape(other)) == 1 for other in node.inputs if other != name)
        if not alone or not numbers or self.shape(node.output) != self.shape(name):
            return False
        joining, parts = self._parts[name]
        scaled = []
        for part in parts:
            inputs = [part if other == name else other for other in node.inputs]
            scaled.append(self.builder.add(node.op, inputs, origins=node.origins))
        self._parts[node.output] = joining, scaled
        self.builder.copy(node, scaled, joining)
        return True

    def _sum(self, node: Node, lhs: str, rhs: str) -> str:
        return self.builder.add(BinaryOp("add"), (lhs, rhs), origins=node.origins)

    def _products(self, node: Node, found: _Joined) -> list[str]:
        other, start, products = node.inputs[1 - found.place], 0, []
        for part in found.parts:
            factor = other
            if found.column is None:
                shape = self.shape(other)
                extent = self._extent(node, found, part)
                first, stop = [0] * len(shape), list(shape)
                first[found.summed], stop[found.summed] = start, start + extent
                op = Slice(tuple(first), tuple(stop), (1,) * len(shape))
                factor = self.builder.add(op, (other,), origins=())
                start += extent
            inputs = (part, factor) if found.place == 0 else (factor, part)
            products.append(self.builder.add(node.op, inputs, origins=node.origins))
        return products

    def _extent(self, node: Node, found: _Joined, part: str) -> int:
        """Of a part along the dimension that it is joined along."""
        source = self.graph.producers[node.inputs[found.place]]
        assert isinstance(source.op, Concat)
        return self.shape(part)[source.op.axis]

    def _joined(self, node: Node) -> _Joined | None:
        """The operand that is joined for products of few rows alone, some parts of it given."""
        if self.graph.types[node.output].dtype not in _TYPES:
            return None
        for name in node.inputs:
            source = self.graph.producers.get(name)
            if source is None or not isinstance(source.op, Concat):
                continue
            readers = self.graph.consumers[name]
            if name in self.graph.result_values or not any(map(self._is_given, source.inputs)):
                continue
            if all(_along(self.graph, reader, name) is not None for reader in readers):
                return _along(self.graph, node, name)
        return None

    def _is_given(self, name: str) -> bool:
        """Whether a value, or what it is a view of, is an input: it would be copied."""
        node = self.graph.producers.get(name)
        while node is not None and isinstance(node.op, Reshape):
            name = node.inputs[0]
            node = self.graph.producers.get(name)
        return node is None and name not in self.graph.constants


def _along(graph: Graph, node: Node, name: str) -> _Joined | None:
    """How a product of few rows reads a joined value, once; None: it does not."""
    if not isinstance(node.op, Einsum | MatMul) or len(node.inputs) != 2:
        return None
    if node.inputs.count(name) != 1:
        return None
    place = node.inputs.index(name)
    shapes = [graph.types[value].shape for value in node.inputs]
    labels, output = (
        (node.op.labels, node.op.output)
        if isinstance(node.op, Einsum)
        else matmul_labels(*map(len, shapes))
    )
    mine, others = labels[place], labels[1 - place]
    source = graph.producers[name]
    assert isinstance(source.op, Concat)
    rows = prod(
        extent for label, extent in zip(others, shapes[1 - place], strict=True) if label not in mine
    )
    label = mine[source.op.axis]
    if rows >= _MANY_ROWS or mine.count(label) != 1:
        return None
    if label in output:
        return None if label in others else _Joined(place, source.inputs, output.index(label))
    if others.count(label) != 1:
        return None
    summed = others.index(label)
    whole = shapes[1 - place][summed] == shapes[place][source.op.axis]
    return _Joined(place, source.inputs, None, summed) if whole else None
