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

from collections.abc import Collection
from math import prod
from typing import Final

from autosched.graph.ir import Graph, Node
from autosched.graph.moved_values import with_sources
from autosched.graph.ops.base import Op, Pattern, Shape
from autosched.graph.ops.conv import Conv
from autosched.graph.ops.einsum import Einsum
from autosched.graph.ops.elementwise import BinaryOp, CastOp, Clip, UnaryOp, Where
from autosched.graph.ops.matmul import Dense, MatMul, matmul_labels
from autosched.graph.ops.movement import Slice
from autosched.graph.ops.pooling import Pool
from autosched.graph.ops.shape import Concat, Reshape, Transpose
from autosched.graph.passes.dead_code import remove_dead_code
from autosched.graph.passes.rewriter import GraphRewriter
from sketch.lang.dtypes import is_storage_float

_WIDE: Final = "float32"
_ELEMENT_WISE: Final = (BinaryOp, UnaryOp, Clip, Where)
# Products that elements have to be part of, each; with fewer, conversions hide behind memory: those
# of constants, and of data that are no operand of a constant or are alone in their channel.
_LEAST_OF_CONSTANTS: Final = 4
_LEAST_OF_DATA: Final = 12


def widen_products(graph: Graph, units: Collection[str] | None) -> Graph:
    """An optimised graph with the rewrite above; the graph itself where there are no such products.

    Args:
        graph: any.
        units: 16-bit floats that units multiply as they are; None: all are left as they are.
    """
    if units is None:
        return graph
    found = [node for node in graph.nodes if _is_emulated(graph, node, units)]
    busy = [node for node in found if _is_busy(graph, node)]
    return remove_dead_code(_WideProducts(graph, busy).run()) if busy else graph


def _is_emulated(graph: Graph, node: Node, units: Collection[str]) -> bool:
    """Whether a node is a product of two operands that no unit multiplies, in no type of its own.

    No unit is for channels by themselves.
    """
    if not isinstance(node.op, Conv | Dense | MatMul | Einsum) or node.op.dtype is not None:
        return False
    if isinstance(node.op, Einsum) and len(node.inputs) != 2:
        return False
    dtype = graph.types[node.output].dtype
    return is_storage_float(dtype) and (dtype not in units or _is_depthwise(graph, node))


def _is_depthwise(graph: Graph, node: Node) -> bool:
    return isinstance(node.op, Conv) and node.op.weight(_shape(graph, node, 1)).is_depthwise


def _shape(graph: Graph, node: Node, operand: int) -> Shape:
    return graph.types[node.inputs[operand]].shape


def _is_busy(graph: Graph, node: Node) -> bool:
    """Whether elements of a constant, or of all data, are part of enough products."""
    lhs, rhs = node.inputs[:2]
    constants = [name for name in (lhs, rhs) if name in graph.constants]
    if _is_depthwise(graph, node):
        least, names = _LEAST_OF_DATA, [lhs]
    elif constants:
        least, names = _LEAST_OF_CONSTANTS, constants
    else:
        least, names = _LEAST_OF_DATA, [lhs, rhs]
    return _products(graph, node) >= least * max(graph.types[name].size for name in names)


def _products(graph: Graph, node: Node) -> int:
    """How many products a node sums."""
    op, (lhs, rhs) = node.op, (graph.types[name] for name in node.inputs[:2])
    result = graph.types[node.output]
    if isinstance(op, Conv):
        form = op.weight(rhs.shape)
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
        self._wanted = with_sources(
            graph, (name for node in products for name in node.inputs), _moves
        )
        self._shared = {name for name in self._wanted if self._is_left_wide(name)}
        self._wide: dict[str, str] = {}
        self._instead: dict[str, str] = {}

    def convert(self, node: Node) -> None:
        """Emit ``node``: on wide operands where it is such a product, or moves what those read."""
        if node.output in self._products:
            self._rounded(node, self._add(node.op, node))
        elif node.output in self._wanted and _moves(node.op):
            self._wide[node.output] = self._add(node.op, node)
            self._rounded(node, self._wide[node.output])
        elif node.op == CastOp(_WIDE) and node.inputs[0] in self._wanted:
            self._instead[node.output] = self._widened(node.inputs[0])
        elif isinstance(node.op, _ELEMENT_WISE) and self._shared.intersection(node.inputs):
            self._element_wise(node)
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

    def _element_wise(self, node: Node) -> None:
        """``node`` on wide operands, as arithmetic on narrow ones is done."""
        inputs = [self._as_operand(name) for name in node.inputs]
        if not is_storage_float(self.graph.types[node.output].dtype):
            self.builder.copy(node, inputs)
            return
        label = self.builder.unique(f"{node.output}.wide")
        wide = self.builder.add(node.op, inputs, label, node.name, node.origins)
        self._rounded(node, wide)

    def _as_operand(self, name: str) -> str:
        """A value, widened for one reader unless the wide form is there anyway."""
        if not is_storage_float(self.graph.types[name].dtype):
            return self.value(name)
        if name in self._shared or name in self.graph.constants:
            return self._widened(name)
        return self.builder.add(CastOp(_WIDE), (name,), origins=())

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
