"""Layers in bfloat16 or float16: products of 16-bit floats, summed in float32.

    conv(x, w) + b   ->   conv(bfloat16(x), bfloat16(w)) in float32 + b

Weights are rounded ahead of time.  Data are rounded by what computes them, as is all that layers
leave to other kernels, and nothing else of them is kept: whatever else reads them widens the
rounded ones.  What only moves elements, or picks some, works on the rounded ones.  Outputs are not
rounded.  Of attention both products are such layers: queries, keys, values and the weights that
softmax makes are rounded, its scores and sums are not.  Depthwise convolutions gain the bytes that
their data take in memory; no unit is for them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import Final

import numpy as np

from autosched.graph.fusion import fuse
from autosched.graph.ir import Graph, Node
from autosched.graph.moved_values import with_sources
from autosched.graph.ops.base import Op, Pattern
from autosched.graph.ops.conv import Conv
from autosched.graph.ops.einsum import Einsum
from autosched.graph.ops.elementwise import CastOp
from autosched.graph.ops.matmul import Dense, MatMul
from autosched.graph.ops.pooling import Pool
from autosched.graph.ops.shape import Concat, Pad, Reshape, Transpose
from autosched.graph.passes.dead_code import remove_dead_code
from autosched.graph.passes.rewriter import GraphRewriter
from autosched.graph.reducible import constant_layers, variable_products
from sketch.lang.storage_floats import storage_floats

WIDE: Final = "float32"
_TOGETHER: Final = 2  # elements of a lane of 32 bits
_IN_LANES: Final = "bfloat16"  # the one that units multiply in such lanes


def half_float_layers(graph: Graph, narrow: str) -> tuple[Node, ...]:
    """The layers of an optimised graph whose weights the type ``narrow`` can hold, and the products
    without weights that units compute in it.
    """
    found = set()
    for node, array in constant_layers(graph, depthwise=True):
        rounded = storage_floats(array, narrow).astype(np.float32)
        if np.isfinite(rounded).all():
            found.add(node.output)
    if narrow == _IN_LANES:
        found |= {node.output for node in variable_products(graph)}
    return tuple(node for node in graph.nodes if node.output in found)


def in_half_floats(graph: Graph, layers: Collection[str], narrow: str) -> Graph:
    """An optimised graph with the layers of these names in 16-bit floats of type ``narrow``."""
    chosen = [node for node in half_float_layers(graph, narrow) if node.name in layers]
    return remove_dead_code(_InHalfFloats(graph, chosen, narrow).run()) if chosen else graph


def _moves(op: Op) -> bool:
    """Whether its elements are some of its operands'."""
    return isinstance(op, Reshape | Transpose | Concat) or (
        isinstance(op, Pool) and op.mode == "max"
    )


def _left_by_kernels(graph: Graph, layers: Collection[str]) -> Iterator[str]:
    """What kernels of layers, which are given by their outputs, leave to element-wise operators of
    others, such as the shortcut of a residual block.
    """
    for group in fuse(graph):
        name = group.root.output
        readers = graph.consumers.get(name, ())
        plain = all(reader.op.pattern <= Pattern.BROADCAST for reader in readers)
        mine = any(node.output in layers for node in group.nodes)
        if mine and plain and readers and graph.types[name].dtype == WIDE:
            yield name


class _InHalfFloats(GraphRewriter):
    """The new graph while it grows, and the forms that values of the old one have in it."""

    def __init__(self, graph: Graph, layers: Collection[Node], narrow: str) -> None:
        super().__init__(graph)
        self._dtype = narrow
        self._layers = {node.output for node in layers}
        data = (name for node in layers for name in node.inputs[: self._count(node)])
        self._rounded = with_sources(graph, (*data, *_left_by_kernels(graph, self._layers)), _moves)
        self._exact = with_sources(graph, graph.result_values, _moves)
        self._narrow: dict[str, str] = {}
        self._wide: dict[str, str] = {}
        self._weights: dict[tuple[str, int], str] = {}

    @staticmethod
    def _count(node: Node) -> int:
        """How many of its first operands are data."""
        return 2 if isinstance(node.op, Einsum | MatMul) else 1

    def convert(self, node: Node) -> None:
        """Emit ``node``: on rounded values where it is a layer, or moves some."""
        if node.output in self._layers:
            self._layer(node)
        elif node.output in self._rounded - self._exact and _moves(node.op):
            operands = [self._as_narrow(name) for name in node.inputs]
            name = self.builder.unique(f"{node.output}.{self._dtype}")
            self._narrow[node.output] = self.builder.add(
                node.op, operands, name, node.name, node.origins
            )
        else:
            self.builder.copy(node, [self._read(name) for name in node.inputs])

    def _layer(self, node: Node) -> None:
        op = node.op
        if isinstance(op, Einsum | MatMul):
            factors = [self._as_narrow(name) for name in node.inputs]
            self.builder.copy(node, factors, replace(op, dtype=WIDE))
            return
        assert isinstance(op, Conv | Dense)
        data, weight, *bias = node.inputs
        in_lanes = isinstance(op, Conv) and op.groups == 1 and self._dtype == _IN_LANES
        missing = self.shape(data)[-1] % _TOGETHER if in_lanes else 0
        rounded, factor = self._as_narrow(data), self._weight(weight, missing)
        if missing:
            rank = len(self.shape(data))
            high = (*(0 for _ in range(rank - 1)), missing)
            pad = Pad((0,) * rank, high)
            rounded = self.builder.add(
                pad, (rounded,), self.builder.unique(f"{node.output}.padded"), origins=()
            )
        self.builder.copy(node, (rounded, factor, *bias), replace(op, dtype=WIDE))

    def _weight(self, name: str, missing: int) -> str:
        if (name, missing) not in self._weights:
            array = storage_floats(self.graph.constants[name], self._dtype)
            if missing:
                channels = array.ndim - 2
                array = np.pad(array, [(0, missing * (d == channels)) for d in range(array.ndim)])
            label = self.builder.unique(f"{name}.{self._dtype}")
            self._weights[name, missing] = self.builder.constant(label, array)
        return self._weights[name, missing]

    def _as_narrow(self, name: str) -> str:
        if name not in self._narrow:
            label = self.builder.unique(f"{name}.{self._dtype}")
            if name in self.graph.constants:
                array = storage_floats(self.graph.constants[name], self._dtype)
                self._narrow[name] = self.builder.constant(label, array)
            else:
                self._narrow[name] = self.builder.add(
                    CastOp(self._dtype), (name,), label, origins=()
                )
        return self._narrow[name]

    def _read(self, name: str) -> str:
        """What other nodes read of a value: the rounded one, unless there is the other anyway."""
        if name not in self.graph.producers or name not in self._rounded - self._exact:
            return name
        if name not in self._wide:
            label = self.builder.unique(f"{name}.wide")
            self._wide[name] = self.builder.add(
                CastOp(WIDE), (self._as_narrow(name),), label, origins=()
            )
        return self._wide[name]
