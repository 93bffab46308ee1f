"""Products with a constant matrix become dense layers, whatever the rank of the data.

A dense layer works on rows, ``[prod(leading dimensions), last dimension]``.  What follows it
element by element or normalises the last dimension works on the rows as well, so that it can share
the layer's kernel; the value itself is a view of its rows, made where another operator reads it.
So is what a model itself has as a view of a dense layer on rows.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

from autosched.graph.ir import Graph, Node
from autosched.graph.ops.base import Op, Pattern, Shape
from autosched.graph.ops.matmul import Dense, MatMul
from autosched.graph.ops.movement import Triangle
from autosched.graph.ops.narrow import NarrowMatMul
from autosched.graph.ops.norm import BatchNorm, Normalize
from autosched.graph.ops.shape import Reshape
from autosched.graph.ops.softmax import Softmax
from autosched.graph.passes.rewriter import GraphRewriter


def matmul_to_dense(graph: Graph) -> Graph:
    """``data [..., m, k] @ constant [k, n]`` as a dense layer on rows."""
    return _DenseRows(graph).run()


class _DenseRows(GraphRewriter):
    """The new graph while it grows, and the values of the old one that are kept as rows."""

    def __init__(self, graph: Graph) -> None:
        super().__init__(graph)
        self._rows: dict[str, str] = {}
        self._same: dict[str, str] = {}  # views of views: rows as they are
        self._layers: set[str] = set()  # results of dense layers

    def convert(self, node: Node) -> None:
        """Emit ``node``, on rows where its operator and its operands allow."""
        shape = self.shape(node.output)
        layer = self._layer(node)
        if layer is not None or isinstance(node.op, Dense):
            self._layers.add(node.output)
        if isinstance(node.op, Reshape) and self._is_known(node.inputs[0], node.output):
            return
        if layer is not None:
            data, *matrix = node.inputs
            if len(shape) == 2:
                self.builder.copy(node, [self.value(name) for name in node.inputs], layer)
            else:
                self._emit_rows(node, layer, [self._as_rows(data), *matrix])
            return
        op = self._on_rows(node)
        if op is None:
            self.builder.copy(node, [self.value(name) for name in node.inputs])
        else:
            self._emit_rows(node, op, [self._operand(name, shape) for name in node.inputs])

    def _is_known(self, before: str, after: str) -> bool:
        """Whether a view leads from a layer's rows to what they stand for, or back; notes it."""
        old, new = self.shape(before), self.shape(after)
        if not old or not new or old[-1] != new[-1] or prod(old) != prod(new):
            return False
        if len(new) == 2 and before in self._rows:
            self._same[after] = self._rows[before]
            return True
        if len(old) == 2 and len(new) > 2 and before in self._layers:
            self._rows[after] = self.value(before)
            return True
        return False

    def _layer(self, node: Node) -> Op | None:
        """What computes the rows of a product with a constant matrix; None for all else."""
        match node.op:
            case MatMul(dtype) if self._has_constant_matrix(node):
                return Dense(dtype)
            case NarrowMatMul():
                return node.op
            case _:
                return None

    def _on_rows(self, node: Node) -> Op | None:
        """What computes the rows of ``node``; None where nothing does, or nobody has begun to."""
        shape = self.shape(node.output)
        if not any(name in self._rows and self.shape(name) == shape for name in node.inputs):
            return None
        match node.op:
            case Normalize(axes) if axes == (len(shape) - 1,):
                return replace(node.op, axes=(1,))
            case Softmax(axis) if axis % len(shape) == len(shape) - 1:
                return replace(node.op, axis=1)
            case BatchNorm() | Triangle():  # what an element is depends on its row
                return None
            case op if op.pattern <= Pattern.BROADCAST:
                fits = all(self._repeats_in_rows(self.shape(name), shape) for name in node.inputs)
                return op if fits else None
            case _:
                return None

    def _repeats_in_rows(self, shape: Shape, whole: Shape) -> bool:
        """Whether an operand is as large as the whole, the same for all rows, or one number."""
        return shape == whole or prod(shape) == 1 or prod(shape) == shape[-1] == whole[-1]

    def _operand(self, name: str, whole: Shape) -> str:
        shape = self.shape(name)
        if shape == whole:
            return self._as_rows(name)
        return self.value(name) if len(shape) < 2 else self._view(name, (shape[-1],))

    def _has_constant_matrix(self, node: Node) -> bool:
        weight = node.inputs[1]
        return weight in self.graph.constants and len(self.shape(weight)) == 2

    def _emit_rows(self, node: Node, op: Op, inputs: list[str]) -> None:
        output = self.builder.unique(f"{node.output}.rows")
        self._rows[node.output] = self.builder.add(op, inputs, output, node.name, node.origins)

    def _as_rows(self, name: str) -> str:
        if name not in self._rows:
            shape = self.shape(name)
            self._rows[name] = self._view(name, (prod(shape[:-1]), shape[-1]))
        return self._rows[name]

    def value(self, name: str) -> str:
        """The value ``name`` itself."""
        if name in self._same:
            return self._same[name]
        if name not in self.builder.types:
            label = self.builder.unique(f"{name}.view")
            self.builder.add(Reshape(self.shape(name)), (self._rows[name],), name, label, ())
        return name

    def _view(self, name: str, shape: Shape) -> str:
        return self.reshaped(self.value(name), shape, f"{name}.rows")
