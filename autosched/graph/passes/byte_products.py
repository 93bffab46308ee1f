"""Products of integers less their zero points become products of bytes: uint8 by int8 in int32.

    sum (x - zx) (w - zw)  =  sum u v  -  z sum v        v = w - zw, a constant of bytes

with ``u = x`` and ``z = zx`` where x is uint8, ``u = x + 128`` and ``z = zx + 128`` where it is
int8.  Sums of int32 wrap around, so both sides are equal to the last bit.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from autosched.graph.ir import Array, Graph, Node
from autosched.graph.ops.base import Op
from autosched.graph.ops.conv import Conv
from autosched.graph.ops.elementwise import BinaryOp, CastOp
from autosched.graph.ops.matmul import MatMul
from autosched.graph.ops.shape import Pad
from autosched.graph.passes.byte_filters import ByteFilters, byte_filters, window_sums
from autosched.graph.passes.dead_code import remove_dead_code
from autosched.graph.passes.rewriter import GraphRewriter
from autosched.graph.passes.scaled_integers import Constants

_SUMS: Final = "int32"
_SHIFT: Final = 128  # from int8 to uint8


def byte_products(graph: Graph) -> Graph:
    """``graph`` with the rewrites above; the graph itself where there are none."""
    rewriter = _ByteProducts(graph)
    found = rewriter.run()
    return remove_dead_code(found) if rewriter.changed else graph


@dataclass(frozen=True, slots=True)
class _Centered:
    """An int32 value that is bytes less a zero point.

    Attributes:
        value: the bytes.
        zero: int32, which broadcasts to them; None: 0.
    """

    value: str
    zero: str | None


class _ByteProducts(GraphRewriter):
    """The new graph while it grows."""

    def __init__(self, graph: Graph) -> None:
        super().__init__(graph)
        self.changed = False
        self._constants = Constants(graph)

    def convert(self, node: Node) -> None:
        """Emit ``node``, a product of bytes where it is one."""
        match node.op:
            case MatMul(dtype=None) if self.graph.types[node.output].dtype == _SUMS:
                done = self._product(node, node.op)
            case Conv(dtype=None, transposed=False, layout="NCHW") if (
                self.graph.types[node.output].dtype == _SUMS
            ):
                done = self._windows(node, node.op)
            case _:
                done = False
        if not done:
            self.builder.copy(node, node.inputs)
        self.changed |= done

    def _product(self, node: Node, op: MatMul) -> bool:
        """Of rows with a constant matrix."""
        data, columns = self._centered(node.inputs[0]), self._weight(node, op)
        if data is None or columns is None or columns.weight.ndim != 2:
            return False
        if data.zero is not None and self.shape(data.zero)[-1:] not in ((), (1,)):
            return False  # it differs along what is summed
        sums = -columns.weight.sum(axis=0, dtype=np.int64)
        shift = _SHIFT if self._is_signed(data) else 0
        zero = None if data.zero is None else self._constants.get(data.zero)
        if data.zero is not None and zero is None:
            factor = self._binary("add", data.zero, np.asarray(shift)) if shift else data.zero
            moved: str | None = self._binary("mul", factor, sums)
        else:
            value = (np.zeros((), np.int64) if zero is None else zero.astype(np.int64)) + shift
            moved = self._constant(value * sums) if value.any() else None
        self._emit(node, replace(op, dtype=_SUMS), (self._unsigned(data), columns), moved)
        return True

    def _windows(self, node: Node, op: Conv) -> bool:
        """A convolution with constant weights of data with one constant zero point.

        What is padded is a zero of the data, which is no zero of ``u``.
        """
        data, filters = self._centered(node.inputs[0]), self._weight(node, op)
        if data is None or filters is None:
            return False
        points = np.zeros((), int) if data.zero is None else self._constants.get(data.zero)
        if points is None or points.size != 1:
            return False
        zero = int(points.reshape(())) + (_SHIFT if self._is_signed(data) else 0)
        if any(op.padding) and not 0 <= zero < 2 * _SHIFT:
            return False  # no byte stands for what is padded
        value, rank = self._unsigned(data), op.spatial
        if zero and any(op.padding):
            low, high = (0, 0, *op.padding[:rank]), (0, 0, *op.padding[rank:])
            value = self.builder.add(Pad(low, high, float(zero)), (value,), origins=())
            op = replace(op, padding=(0,) * (2 * rank))
        weight = filters.weight
        sums = -zero * weight.sum(axis=tuple(range(1, weight.ndim)), dtype=np.int64)
        moved = self._constant(sums.reshape(-1, *(1,) * rank)) if sums.any() else None
        self._emit(node, replace(op, dtype=_SUMS), (value, filters), moved)
        return True

    def _emit(
        self, node: Node, op: Op, operands: tuple[str, ByteFilters], moved: str | None
    ) -> None:
        """``op`` in place of that of ``node``, and what is added to it."""
        data, filters = operands
        weight = self.builder.constant(self.builder.unique(f"{node.name}.weight"), filters.weight)
        inputs = (data, weight, *node.inputs[2:])
        added = [] if moved is None else [moved]
        if filters.taken is not None:
            assert isinstance(node.op, Conv | MatMul)
            kernel = self.shape(node.inputs[1])[2:]
            sums = window_sums(self.builder, node.op, node.inputs[0], kernel)
            added.append(filters.moved(sums, self.builder))
        if not added:
            self.builder.add(op, inputs, node.output, node.name, node.origins)
            return
        total = self.builder.add(op, inputs, origins=node.origins)
        *others, last = added
        for name in others:
            total = self.builder.add(BinaryOp("add"), (total, name), origins=())
        self.builder.add(BinaryOp("add"), (total, last), node.output, node.name, node.origins)

    def _centered(self, name: str) -> _Centered | None:
        """What an int32 value is bytes of; None: of none."""
        producer, zero = self.graph.producers.get(name), None
        if producer is not None and producer.op == BinaryOp("sub"):
            name, zero = producer.inputs
            if self.graph.types[name].shape != self.graph.types[producer.output].shape:
                return None
            producer = self.graph.producers.get(name)
        if producer is None or producer.op != CastOp(_SUMS):
            return None
        value = producer.inputs[0]
        whole = self.graph.types[value].dtype in ("uint8", "int8")
        return _Centered(value, zero) if whole else None

    def _weight(self, node: Node, op: Conv | MatMul) -> ByteFilters | None:
        """A constant, as bytes."""
        array = self._constants.get(node.inputs[1])
        return None if array is None or array.ndim < 2 else byte_filters(array, op)

    def _is_signed(self, data: _Centered) -> bool:
        return self.graph.types[data.value].dtype == "int8"

    def _unsigned(self, data: _Centered) -> str:
        """``u``, as uint8."""
        if not self._is_signed(data):
            return data.value
        stored = self._stored_unsigned(data.value)
        if stored is not None:
            return stored
        wide = self.builder.add(CastOp(_SUMS), (data.value,), origins=())
        moved = self._binary("add", wide, np.asarray(_SHIFT))
        return self.builder.add(CastOp("uint8"), (moved,), origins=())

    def _stored_unsigned(self, name: str) -> str | None:
        """The bytes, as uint8 and 128 higher, that an int8 value is made of."""
        value = name
        for op in (CastOp("int8"), BinaryOp("sub"), CastOp(_SUMS)):
            node = self.graph.producers.get(value)
            if node is None or node.op != op:
                return None
            if op == BinaryOp("sub") and self._constants.whole_number(node.inputs[1]) != _SHIFT:
                return None
            value = node.inputs[0]
        return value if self.graph.types[value].dtype == "uint8" else None

    def _binary(self, function: str, value: str, constant: Array) -> str:
        inputs = (value, self._constant(constant))
        return self.builder.add(_BINARY[function], inputs, origins=())

    def _constant(self, array: Array) -> str:
        return self.builder.constant(self.builder.unique("moved"), array.astype(np.int32))


_BINARY: Final = {name: BinaryOp(name) for name in ("add", "mul")}
