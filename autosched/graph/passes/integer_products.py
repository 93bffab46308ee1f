"""Products of dequantised values become products of the bytes, scaled once.

A dequantised value is ``(q - z) * s``.  Of convolutions and products with constant matrices the
sums are taken over integers, exactly, in int32; the scales of both operands multiply the sum, and
a division by the scale that it is quantised with is part of the same factor.  What follows is
element by element: it is fused, so that bytes are what one kernel leaves to the next.  Values of
int8 are kept as uint8, 128 higher, which is the form that products of bytes take.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from autosched.graph.evaluate import evaluate_node
from autosched.graph.ir import Array, Graph, Node
from autosched.graph.ops.base import Op
from autosched.graph.ops.elementwise import BinaryOp, CastOp, Elementwise
from autosched.graph.ops.gather import Gather
from autosched.graph.ops.matmul import MatMul
from autosched.graph.ops.movement import Expand, Slice
from autosched.graph.ops.pooling import GlobalPool, Pool
from autosched.graph.ops.reduce import ReduceOp
from autosched.graph.ops.scan import Scan
from autosched.graph.ops.shape import Pad, Reshape, Transpose
from autosched.graph.passes.byte_filters import window_sums
from autosched.graph.passes.dead_code import remove_dead_code
from autosched.graph.passes.even_phases import in_even_phases
from autosched.graph.passes.integer_layers import IntegerLayer, integer_layer, same_scale
from autosched.graph.passes.integer_pairs import product_of_bytes
from autosched.graph.passes.rewriter import GraphRewriter
from autosched.graph.passes.scaled_integers import (
    Constants,
    Quantisation,
    ScaledIntegers,
    quantisation_of,
    whole_numbers,
)
from sketch.lang.dtypes import BYTES, integer_limits

_FLOAT: Final = "float32"
_SUMS: Final = "int32"
_SHIFT: Final = 128  # from int8 to uint8
_MOST: Final = 2**31 - 1


def integer_products(graph: Graph) -> Graph:
    """``graph`` with the rewrites above; the graph itself where there are none."""
    rewriter = _IntegerProducts(graph)
    found = rewriter.run()
    return remove_dead_code(found) if rewriter.changed else graph


class _IntegerProducts(GraphRewriter):
    """The new graph while it grows, and what is known of values of the old one."""

    def __init__(self, graph: Graph) -> None:
        super().__init__(graph)
        self.changed = False
        self._scaled: dict[str, ScaledIntegers] = {}
        self._unsigned: dict[str, str] = {}  # int8 values -> the same as uint8, 128 higher
        self._made: set[str] = set()  # new bytes: the floats of old values are computed from them
        self._equal: dict[str, str] = {}
        self._constants = Constants(graph)

    def convert(self, node: Node) -> None:
        """Emit ``node``, on integers where its operands are known through such."""
        if node.op.on_host or isinstance(node.op, Scan):
            self._copy(node)
            return
        written = quantisation_of(self.graph, node, self._constants)
        if written is not None:
            self._quantise(node, written)
            return
        found = self._summed(node)
        if found is not None:
            self.changed = True
            self._scaled[node.output] = found
            self._emit(found, node)
            return
        known = self._step(node) or self._moved(node)
        if known is not None:
            self._scaled[node.output] = known
        if known is not None and self._is_own(known):
            self._emit(known, node)
        else:
            self._copy(node)

    def value(self, name: str) -> str:
        """The new value that equals the old value ``name``."""
        name = self._equal.get(name, name)
        if name not in self.builder.types and name in self._unsigned:
            wide = self._convert(self._unsigned[name], _SUMS)
            low = self._binary("sub", wide, np.asarray(_SHIFT, np.int32))
            self.builder.add(CastOp("int8"), (low,), name, self.builder.unique(name), ())
        return name

    def _is_own(self, known: ScaledIntegers) -> bool:
        """Whether this pass has made the integers: floats are then computed from them."""
        return known.most > 0 or known.value in self._made

    def _quantise(self, node: Node, written: Quantisation) -> None:
        kept = self._unrounded(written)
        if kept is not None and self.builder.types[kept].shape == self.shape(node.output):
            self.changed = True
            if written.dtype == "int8" and self.builder.types[kept].dtype == "uint8":
                self._unsigned[node.output] = kept
            else:
                self._equal[node.output] = kept
        elif written.dtype == "int8" and self._is_only_converted(node):
            point = np.asarray(written.zero + _SHIFT, np.float32)
            moved = self._binary("add", self.value(written.rounded), point)
            self._unsigned[node.output] = self._convert(moved, "uint8")
            self._made.add(self._unsigned[node.output])
        else:
            self._copy(node)

    def _unrounded(self, written: Quantisation) -> str | None:
        """The bytes that are quantised again as they were."""
        division = self.graph.producers.get(written.scaled)
        if division is None or division.op != BinaryOp("div"):
            return None
        known = self._scaled.get(division.inputs[0])
        scale = self._constants.get(division.inputs[1])
        if known is None or known.most or scale is None or not known.is_uniform:
            return None
        dtype = self.builder.types[known.value].dtype
        shift = _SHIFT if (dtype, written.dtype) == ("uint8", "int8") else 0
        same = dtype == written.dtype or shift
        if not same or scale.size != 1 or scale.reshape(()) != known.scale.reshape(()):
            return None
        return known.value if int(known.zero.reshape(())) == written.zero + shift else None

    def _is_only_converted(self, node: Node) -> bool:
        """Whether nobody reads bytes: to floats or, in products of integers, to wide ones."""
        readers = self.graph.consumers.get(node.output, ())
        casts = all(reader.op in (CastOp(_FLOAT), CastOp(_SUMS)) for reader in readers)
        return casts and node.output not in self.graph.result_values

    def _step(self, node: Node) -> ScaledIntegers | None:
        """Conversion, zero point and scale, one after the other."""
        match node.op:
            case CastOp(dtype) if dtype == _FLOAT:
                return self._converted(node.inputs[0])
            case BinaryOp("sub"):
                known, points = self._scaled.get(node.inputs[0]), self._constant(node.inputs[1])
                whole = None if points is None else whole_numbers(points)
                plain = known is not None and known.scale.size == 1 and known.scale == 1
                if known is None or not plain or whole is None or known.most:
                    return None
                return self._checked(replace(known, zero=known.zero + whole), node)
            case BinaryOp("mul" | "div" as function):
                orders = (node.inputs, node.inputs[::-1]) if function == "mul" else (node.inputs,)
                for data, other in orders:
                    known = self._scaled.get(data)
                    if known is not None and (factor := self._constant(other)) is not None:
                        return self._times(known, factor, node)
        return None

    def _times(self, known: ScaledIntegers, factor: Array, node: Node) -> ScaledIntegers | None:
        division = node.op == BinaryOp("div")
        if not known.most and (division or known.scale.size != 1 or known.scale != 1):
            return None
        scaled = known.times(factor, division)
        return None if scaled is None else self._checked(scaled, node)

    def _checked(self, known: ScaledIntegers, node: Node) -> ScaledIntegers | None:
        """``known``, unless its parameters repeat the value."""
        same = self.builder.types[known.value].shape == self.shape(node.output)
        return known if same else None

    def _converted(self, name: str) -> ScaledIntegers | None:
        value = self._unsigned.get(name)
        zero = 0 if value is None else _SHIFT
        value = self.value(name) if value is None else value
        dtype = self.builder.types[value].dtype
        whole = dtype in BYTES or (dtype == _SUMS and name in self.graph.constants)
        return ScaledIntegers(value, np.asarray(zero), np.ones((), np.float32)) if whole else None

    def _moved(self, node: Node) -> ScaledIntegers | None:
        """Operators that pick, repeat and reorder elements do so to integers as well."""
        known = self._scaled.get(node.inputs[0]) if node.inputs else None
        if known is None or known.most:
            return None
        op = node.op
        match op:
            case Pad(value=0.0) if known.is_uniform and self._holds(known):
                op = replace(op, value=float(known.zero.reshape(())))
            case Pool(mode="max") | GlobalPool(mode="max"):
                if not (known.is_uniform and known.scale > 0):
                    return None
            case Reshape() | Transpose() | Slice() | Expand() | Gather():
                pass
            case _:
                return None
        there = known.moved(op)
        return None if there is None else replace(there, value=self._apply(op, node, known))

    def _holds(self, known: ScaledIntegers) -> bool:
        """Whether the zero point is a number of the type of the integers."""
        low, high = integer_limits(self.builder.types[known.value].dtype)
        return low <= int(known.zero.reshape(())) <= high

    def _apply(self, op: Op, node: Node, known: ScaledIntegers) -> str:
        inputs = (known.value, *(self.value(name) for name in node.inputs[1:]))
        name = self._add(op, inputs, f"{node.output}.whole", node.origins)
        if known.value in self._made:
            self._made.add(name)
        return name

    def _summed(self, node: Node) -> ScaledIntegers | None:
        """Sums of integers that make a product, an average, or one with a bias."""
        match node.op:
            case GlobalPool("avg", layout):
                first = 2 if layout == "NCHW" else 1
                axes = tuple(range(first, first + len(self.shape(node.inputs[0])) - 2))
                return self._average(node, ReduceOp("sum", axes, keepdims=True))
            case ReduceOp("mean", axes, keepdims):
                return self._average(node, ReduceOp("sum", axes, keepdims))
            case BinaryOp("add"):
                return self._with_bias(*node.inputs) or self._with_bias(*node.inputs[::-1])
        operands = [self._scaled.get(name) for name in node.inputs]
        known = [operand for operand in operands if operand is not None]
        if len(known) < len(operands):
            return None
        if isinstance(node.op, MatMul):
            found = product_of_bytes(node.op, known[0], known[1], self.builder, node.origins)
            if found is not None:
                return found
        layer = integer_layer(node.op, known, self.builder, self._is_picture(node.inputs[0]))
        if layer is not None:
            layer = in_even_phases(layer, self.builder.types[layer.data].shape)
        return None if layer is None else self._layer(node, layer)

    def _is_picture(self, name: str) -> bool:
        """Whether a value is an input of the network, whose numbers are where they were given."""
        node = self.graph.producers.get(name)
        while node is not None and isinstance(node.op, Elementwise | Pad):
            name = node.inputs[0]
            node = self.graph.producers.get(name)
        return name in {value.name for value in self.graph.inputs}

    def _layer(self, node: Node, layer: IntegerLayer) -> ScaledIntegers:
        data = layer.data
        factor = layer.factor
        if factor.dtype != self.builder.types[data].dtype:
            shift = np.asarray(factor.shift, np.int32)
            data = self._convert(
                self._binary("add", self._convert(data, _SUMS), shift), factor.dtype
            )
        if layer.pad is not None:
            data = self._add(layer.pad, (data,), f"{node.output}.padded")
        weight = self._constant_value(f"{node.output}.weight", layer.filters.weight)
        bias = []
        if layer.bias is not None and layer.takes_bias:
            bias = [self._constant_value(f"{node.output}.bias", layer.bias)]
        total = self._add(layer.op, (data, weight, *bias), f"{node.output}.sums", node.origins)
        if layer.bias is not None and not layer.takes_bias:
            total = self._binary("add", total, layer.bias)
        if layer.filters.taken is not None:
            total = self._with_taken(node, layer, total)
        return ScaledIntegers(total, np.zeros((), np.int64), layer.scale, layer.most)

    def _with_taken(self, node: Node, layer: IntegerLayer, total: str) -> str:
        """``total`` and what the weights have more than their bytes."""
        data = self._convert(layer.data, _SUMS)
        if layer.zero:
            data = self._binary("sub", data, np.asarray(layer.zero, np.int32))
        kernel = self.shape(node.inputs[1])[2:]
        sums = window_sums(self.builder, layer.written, data, kernel)
        more = layer.filters.moved(sums, self.builder)
        return self._add(_BINARY["add"], (total, more), f"{node.output}.moved")

    def _average(self, node: Node, op: ReduceOp) -> ScaledIntegers | None:
        known = self._scaled.get(node.inputs[0])
        if known is None or known.most or not known.is_uniform:
            return None
        if self.builder.types[known.value].dtype not in BYTES:
            return None
        count = int(np.prod([self.shape(node.inputs[0])[axis] for axis in op.axes]))
        scaled = known.times(np.asarray(count, np.float32), divide=True)
        most = count * known.reach
        if scaled is None or most > _MOST:
            return None
        wide = self._convert(known.value, _SUMS)
        total = self._add(op, (wide,), f"{node.output}.sums", node.origins)
        return replace(scaled, value=total, zero=known.zero * count, most=most)

    def _with_bias(self, data: str, other: str) -> ScaledIntegers | None:
        """A sum plus a constant of its scale: what a bias is quantised to."""
        total, bias = self._scaled.get(data), self._scaled.get(other)
        if total is None or bias is None or not total.most or total.zero.any():
            return None
        integers = self.builder.constants.get(bias.value)
        shape = self.builder.types[total.value].shape
        if integers is None or integers.ndim > len(shape) or bias.zero.any():
            return None
        if not same_scale(total.scale, bias.scale, len(shape)):
            return None
        most = total.most + int(np.abs(integers.astype(np.int64)).max())
        if most > _MOST or np.broadcast_shapes(shape, integers.shape) != shape:
            return None
        value = self._binary("add", total.value, integers.astype(np.int32))
        return replace(total, value=value, most=most)

    def _constant(self, name: str) -> NDArray[np.generic] | None:
        return self._constants.get(name)

    def _emit(self, known: ScaledIntegers, node: Node) -> None:
        """Compute the float value of ``node`` from its integers."""
        value, zero = known.value, known.zero
        if known.most and zero.any():
            value, zero = self._binary("sub", value, zero.astype(np.int32)), np.zeros((), np.int64)
        value = self._convert(value, _FLOAT)
        if zero.any():
            value = self._binary("sub", value, zero.astype(np.float32))
        factor = self._constant_value(f"{node.output}.scale", known.scale)
        self.builder.add(BinaryOp("mul"), (value, factor), node.output, node.name, node.origins)

    def _copy(self, node: Node) -> None:
        self.builder.copy(node, [self.value(name) for name in node.inputs])

    def _convert(self, value: str, dtype: str) -> str:
        return self._add(CastOp(dtype), (value,), f"{value}.{dtype}")

    def _binary(self, function: str, value: str, constant: Array) -> str:
        name = self._constant_value(f"{value}.{function}", constant)
        return self._add(_BINARY[function], (value, name), f"{value}.moved")

    def _constant_value(self, label: str, array: Array) -> str:
        return self.builder.constant(self.builder.unique(label), array)

    def _add(
        self, op: Op, inputs: tuple[str, ...], label: str, origins: tuple[str, ...] = ()
    ) -> str:
        """A new value; a constant where all operands are."""
        name = self.builder.unique(label)
        known = {value: self.builder.constants.get(value) for value in inputs}
        arrays = {value: array for value, array in known.items() if array is not None}
        if len(arrays) < len(known):
            return self.builder.add(op, inputs, name, origins=origins)
        kind = op.infer([self.builder.types[value] for value in inputs])
        array = np.asarray(evaluate_node(Node(name, op, inputs, name), arrays)).astype(kind.dtype)
        return self.builder.constant(name, array.reshape(kind.shape))


_BINARY: Final = {name: BinaryOp(name) for name in ("add", "sub")}
