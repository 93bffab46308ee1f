"""Layers of bytes: data quantised when they are known, products summed in int32.

    dense(x, w) + b   ->   r / 127 * v * (dense(q, p) - 128 * sum p) + b

    r = max|x|            q = uint8(round(x * 127 / r) + 128)      of each row of x
    v = max|w| / 127      p = int8(round(w / v))                   of each column of w, once

Rows are what has an index of its own in the first dimension: rows of a product, images of a
convolution.  Data that are nowhere negative have 255 steps and a zero of 0.  So the zero is known
ahead of time, and what it adds to a sum is part of a constant bias.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from autosched.graph.ir import Array, Graph, Node
from autosched.graph.ops.base import Shape
from autosched.graph.ops.conv import Conv
from autosched.graph.ops.elementwise import BinaryOp, CastOp, UnaryOp
from autosched.graph.ops.matmul import Dense
from autosched.graph.ops.reduce import ReduceOp
from autosched.graph.ops.shape import Pad, Transpose
from autosched.graph.passes.dead_code import remove_dead_code
from autosched.graph.passes.rewriter import GraphRewriter
from autosched.graph.reducible import constant_layers
from autosched.graph.signs import never_negative

_MOST: Final = 2**31 - 1
_TOGETHER: Final = 4  # bytes of a lane of 32 bits
_LARGEST: Final = 127  # of a symmetric int8
_LEAST: Final = 2.0**-100
"""Rows of smaller numbers count as such: what divides by the largest of zeros is a number."""


@dataclass(frozen=True, slots=True)
class _Range:
    """Of bytes: the zero, and the steps from it to the largest number."""

    zero: int
    steps: int


_SIGNED: Final = _Range(128, _LARGEST)
_POSITIVE: Final = _Range(0, 255)


def dynamic_byte_layers(graph: Graph) -> tuple[Node, ...]:
    """The layers of an optimised graph that can be products of bytes: weights are numbers, and no
    sum leaves int32.
    """
    found = []
    for node, array in constant_layers(graph, depthwise=False):
        if array.size == 0 or not np.isfinite(array).all():
            continue
        sums = np.abs(_weight_bytes(array)[0]).sum(axis=_summed(array), dtype=np.int64)
        if _POSITIVE.steps * int(sums.max()) <= _MOST:
            found.append(node)
    return tuple(found)


def in_dynamic_bytes(graph: Graph, layers: Collection[str]) -> Graph:
    """An optimised graph with the layers of these names in bytes."""
    chosen = [node for node in dynamic_byte_layers(graph) if node.name in layers]
    return remove_dead_code(_InBytes(graph, chosen).run()) if chosen else graph


def dequantised_operands(
    graph: Graph, node: Node, operands: Mapping[str, NDArray[Any]]
) -> dict[str, NDArray[Any]]:
    """``operands`` of a layer, both factors as bytes have them, in float64."""
    data, weight = node.inputs[:2]
    of = _range_of(graph, data)
    values = operands[data].astype(np.float64)
    size = np.abs(values).max(axis=tuple(range(1, values.ndim)), keepdims=True)
    scale = np.maximum(size, _LEAST) / of.steps
    with np.errstate(invalid="ignore"):
        found = np.rint(values / scale) * scale
    whole, each = _weight_bytes(operands[weight].astype(np.float32))
    return dict(operands) | {data: found, weight: whole * each.astype(np.float64)}


def _range_of(graph: Graph, data: str) -> _Range:
    return _POSITIVE if never_negative(graph, data) else _SIGNED


def _summed(weight: Array) -> tuple[int, ...]:
    """The dimensions of a weight but its output channels, which are last."""
    return tuple(range(weight.ndim - 1))


def _weight_bytes(weight: Array) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    """Bytes and scales ``[outputs]`` of a weight; a channel of zeros has a scale of 1."""
    size = np.abs(weight).max(axis=_summed(weight)).astype(np.float64)
    scale = (size / _LARGEST).astype(np.float32)
    scale[scale < np.finfo(np.float32).tiny] = 1  # numbers so small count as 0
    whole = np.rint(weight / scale.astype(np.float64)).clip(-_LARGEST, _LARGEST)
    return whole.astype(np.int8), scale


class _InBytes(GraphRewriter):
    """The new graph while it grows, and the bytes that values of the old one have in it."""

    def __init__(self, graph: Graph, layers: Collection[Node]) -> None:
        super().__init__(graph)
        self._layers = {node.output for node in layers}
        self._largest: dict[str, str] = {}
        self._bytes: dict[str, str] = {}
        self._padded: dict[tuple[str, Shape, Shape], str] = {}

    def convert(self, node: Node) -> None:
        """Emit ``node``, a layer in bytes."""
        if node.output in self._layers:
            self._layer(node)
        else:
            self.builder.copy(node, node.inputs)

    def _layer(self, node: Node) -> None:
        op = node.op
        assert isinstance(op, Conv | Dense)
        data, weight, *bias = node.inputs
        of = _range_of(self.graph, data)
        whole, each = _weight_bytes(self.graph.constants[weight])
        scale = (each.astype(np.float64) / of.steps).astype(np.float32)
        moved = (-of.zero * whole.sum(axis=_summed(whole), dtype=np.int64)).astype(np.int32)
        value = self._quantised(data, of)
        if isinstance(op, Conv):
            op, value, whole = self._windows(op, value, whole, of)
        inputs = [value, self._constant(f"{weight}.bytes", whole)]
        if moved.any():
            inputs.append(self._constant(f"{weight}.zeros", moved))
        sums = self._add(replace(op, dtype="int32"), inputs, f"{node.output}.sums", node.origins)
        steps: list[tuple[Any, list[str]]] = [
            (CastOp("float32"), []),
            (BinaryOp("mul"), [self._largest[data]]),
            (BinaryOp("mul"), [self._constant(f"{weight}.scales", scale)]),
            *((BinaryOp("add"), [name]) for name in bias),
        ]
        for step, others in steps[:-1]:
            sums = self._add(step, [sums, *others], f"{node.output}.scaled", node.origins)
        last, others = steps[-1]
        self.builder.copy(node, [sums, *others], last)

    def _quantised(self, data: str, of: _Range) -> str:
        """The bytes of a value; what brings a picture's channels to the end moves bytes."""
        if data in self._bytes:
            return self._bytes[data]
        node = self.graph.producers.get(data)
        if node is not None and isinstance(node.op, Transpose) and node.op.permutation[0] == 0:
            value = self._quantised(node.inputs[0], of)
            self._largest[data] = self._largest[node.inputs[0]]
            self._bytes[data] = self._add(node.op, [value], f"{data}.bytes")
            return self._bytes[data]
        axes = tuple(range(1, len(self.shape(data))))
        sizes = data if of.zero == 0 else self._add(UnaryOp("abs"), [data], f"{data}.size")
        most = self._add(ReduceOp("max", axes, keepdims=True), [sizes], f"{data}.most")
        self._largest[data] = most
        some = self._binary("max", most, _LEAST)
        steps = self._binary(
            "mul", self._add(UnaryOp("reciprocal"), [some], f"{data}.each"), of.steps
        )
        value = self._add(BinaryOp("mul"), [data, steps], f"{data}.scaled")
        value = self._add(UnaryOp("round"), [value], f"{data}.round")
        if of.zero:
            value = self._binary("add", value, of.zero)
        self._bytes[data] = self._add(CastOp("uint8"), [value], f"{data}.bytes")
        return self._bytes[data]

    def _windows(
        self, op: Conv, value: str, whole: NDArray[np.int8], of: _Range
    ) -> tuple[Conv, str, NDArray[np.int8]]:
        """A convolution whose channels are whole lanes, and whose padding is of the zeros that its
        bytes have.
        """
        missing = -whole.shape[-2] % _TOGETHER
        sides = op.padding if of.zero or missing else (0,) * len(op.padding)
        low = (0, *sides[: op.spatial], 0)
        high = (0, *sides[op.spatial :], missing)
        if any(low) or any(high):
            key = value, low, high
            if key not in self._padded:
                pad = Pad(low, high, float(of.zero))
                self._padded[key] = self._add(pad, [value], f"{value}.padded")
            value = self._padded[key]
            op = replace(op, padding=(0,) * len(op.padding))
        grown = [(0, 0)] * (whole.ndim - 2) + [(0, missing), (0, 0)]
        return op, value, np.pad(whole, grown)

    def _binary(self, function: Any, value: str, number: float) -> str:
        other = self._constant(f"{value}.number", np.asarray(number, np.float32))
        return self._add(BinaryOp(function), [value, other], f"{value}.{function}")

    def _constant(self, label: str, array: Array) -> str:
        return self.builder.constant(self.builder.unique(label), array)

    def _add(self, op: Any, inputs: list[str], label: str, origins: tuple[str, ...] = ()) -> str:
        return self.builder.add(op, inputs, self.builder.unique(label), origins=origins)
