"""Element-wise operators move before a reshape of their operand, so that they can share the kernel
of what is reshaped; softmax and triangles do where the reshape leaves their dimensions as they are.

``add(reshape(dense(x)), bias)`` becomes ``reshape(add(dense(x), bias))``: a view between a layer
and what follows it would keep them apart, or the weights of attention from their scores.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from autosched.graph.ir import Graph, Node
from autosched.graph.ops.base import Op, Pattern, Shape
from autosched.graph.ops.elementwise import Elementwise
from autosched.graph.ops.movement import Triangle
from autosched.graph.ops.shape import Reshape
from autosched.graph.ops.softmax import Softmax
from autosched.graph.passes.regroup import matching_groups
from autosched.graph.passes.rewriter import GraphRewriter

_ANCHOR: Final = 2  # what a kernel of more than element-wise operators gains from a reader


def sink_views(graph: Graph) -> Graph:
    """``graph`` with views after element-wise operators where they were before them."""
    return _Sinking(graph).run()


class _Sinking(GraphRewriter):
    """The new graph, and for each reshaped value of the old one the value that it is a view of."""

    def __init__(self, graph: Graph) -> None:
        super().__init__(graph)
        self._source: dict[str, str] = {}
        self._weight: dict[str, int] = {}  # what a kernel before each value gains from a reader

    def convert(self, node: Node) -> None:
        """Emit ``node``, in the shape that one of its operands had before a reshape if it can."""
        if isinstance(node.op, Softmax | Triangle) and self._sink_rows(node, node.op):
            return
        source = self._chosen(node) if isinstance(node.op, Elementwise) else None
        operands = None if source is None else self._operands(node, source)
        if operands is not None and source is not None:
            self._weight[node.output] = self._weight[source]
            self._emit(node, operands)
            return
        self.builder.copy(node, node.inputs)
        if isinstance(node.op, Reshape):
            before = node.inputs[0]
            if self._weight.get(before, 0) > 0:
                self._source[node.output] = before
                self._weight[node.output] = self._weight[before]
        elif node.op.pattern <= Pattern.COMPLEX:
            inherited = [self._weight.get(name, 0) for name in node.inputs]
            anchor = node.op.pattern >= Pattern.REDUCTION
            self._weight[node.output] = _ANCHOR if anchor else max((1, *inherited))

    def _sink_rows(self, node: Node, op: Softmax | Triangle) -> bool:
        """Whether ``node`` was emitted along the same dimensions before a reshape."""
        source = self._source.get(node.inputs[0])
        if source is None:
            return False
        before, after = self.builder.types[source].shape, self.shape(node.output)
        rank = len(after)
        if isinstance(op, Triangle):
            kept = [_axis_before(d, before, after) for d in (rank - 2, rank - 1)]
            if kept != [len(before) - 2, len(before) - 1]:
                return False
            self._weight[node.output] = self._weight[source]
            self._emit(node, [source])
            return True
        axis = _axis_before(op.axis % rank, before, after)
        if axis is None:
            return False
        self._weight[node.output] = _ANCHOR
        self._emit(node, [source], replace(op, axis=axis))
        return True

    def _chosen(self, node: Node) -> str | None:
        """The reshaped operand's source whose kernel gains most from computing ``node``."""
        shape = self.shape(node.output)
        full = [name for name in node.inputs if self.shape(name) == shape]
        views = [name for name in full if name in self._source]
        if not views:
            return None
        best = max(views, key=lambda name: self._weight[name])
        others = [
            self._weight.get(name, 0)
            for name in full
            if name not in self._source and len(self.graph.consumers[name]) == 1
        ]
        gains = self._weight[best] > max(others, default=0)
        return self._source[best] if gains else None

    def _operands(self, node: Node, source: str) -> list[str] | None:
        """All operands in the shape before the reshape; None if one has no such form."""
        after, before = (
            types[name].shape
            for types, name in ((self.graph.types, node.output), (self.builder.types, source))
        )
        shapes = [_moved(self.shape(name), after, before) for name in node.inputs]
        if any(shape is None for shape in shapes):
            return None
        return [
            self._in_shape(name, shape)
            for name, shape in zip(node.inputs, shapes, strict=True)
            if shape is not None
        ]

    def _in_shape(self, name: str, shape: Shape) -> str:
        origin = self._source.get(name, name)
        if self.builder.types[origin].shape == shape:
            return origin
        return self.reshaped(name, shape, f"{name}.view")

    def _emit(self, node: Node, operands: list[str], op: Op | None = None) -> None:
        inner = self.builder.unique(f"{node.output}.before")
        self.builder.add(op or node.op, operands, inner, node.name, node.origins)
        shape = self.shape(node.output)
        label = self.builder.unique(f"{node.name}.view")
        self.builder.add(Reshape(shape), (inner,), node.output, label, ())
        self._source[node.output] = inner
        self._weight[inner] = self._weight[node.output]


def _axis_before(axis: int, before: Shape, after: Shape) -> int | None:
    """The dimension that a reshape leaves as dimension ``axis``; None if it splits or merges it."""
    for group in matching_groups(before, after):
        wide = [d for d in group.before if before[d] > 1]
        if axis in group.after:
            whole = len(wide) == 1 and before[wide[0]] == after[axis]
            return wide[0] if whole else None
    return None


def _moved(shape: Shape, after: Shape, before: Shape) -> Shape | None:
    """The shape that an operand of ``shape``, broadcasting to ``after``, has before the reshape.

    Each group of dimensions is either there as a whole, or repeated as a whole.
    """
    full = (1,) * (len(after) - len(shape)) + shape
    result = [1] * len(before)
    for group in matching_groups(before, after):
        extents = [full[d] for d in group.after]
        if extents == [after[d] for d in group.after]:
            for d in group.before:
                result[d] = before[d]
        elif any(extent != 1 for extent in extents):
            return None
    return tuple(result)
