"""Channels last: convolutions and pools in NHWC, with as few transposes as possible.

One sweep in topological order.  A value is kept as a *stored* value and the permutation that is
due, which is still to be applied: ``value == transpose(stored, permutation)``.  Convolutions and
pools take NHWC, and NHWC -> NCHW is due after them; element-wise operators, concatenations,
reductions, ... work on stored values, and what was due before is due after them; a transpose in the
model only changes what is due, so pairs of them cancel.  A transpose is emitted where an operator
needs the value itself, or its operands in one order.  Constants are permuted at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

import numpy as np

from autosched.graph.ir import Graph, Node
from autosched.graph.ops.base import Op, Shape
from autosched.graph.ops.conv import Conv
from autosched.graph.ops.elementwise import Elementwise
from autosched.graph.ops.host import HostOp
from autosched.graph.ops.matmul import Dense
from autosched.graph.ops.norm import BatchNorm
from autosched.graph.ops.pooling import GlobalPool, Pool, channels_first
from autosched.graph.ops.reduce import ArgReduce, ReduceOp
from autosched.graph.ops.scan import Scan
from autosched.graph.ops.shape import Concat, Reshape, Transpose
from autosched.graph.passes.channels_wanted import feeds_channels_last
from autosched.graph.passes.clean_up import keeps_memory_order
from autosched.graph.passes.grouped_channels import grouped_channels
from autosched.graph.passes.permuted import on_permuted
from autosched.graph.passes.regroup import regroup
from autosched.graph.passes.rewriter import GraphRewriter

Permutation = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Stored:
    """A value of the old graph: ``transpose(value, permutation)`` of a value of the new one."""

    value: str
    permutation: Permutation

    @property
    def is_plain(self) -> bool:
        return self.permutation == tuple(range(len(self.permutation)))


def to_channels_last(graph: Graph) -> Graph:
    """``graph`` with convolutions, pools and batch-norms channels last."""
    return _ChannelsLast(graph).run()


class _ChannelsLast(GraphRewriter):
    """State of the sweep: the new graph, and where the values of the old one are stored."""

    def __init__(self, graph: Graph) -> None:
        super().__init__(graph)
        self._feeds_channels_last = feeds_channels_last(graph)
        self._grouped = grouped_channels(graph)
        self._inside = {
            value: grouped.source for grouped in self._grouped.values() for value in grouped.inside
        }
        self._stored: dict[str, Stored] = {}
        self._transposed: dict[tuple[str, Permutation], str] = {}
        self._flattened: dict[str, Shape] = {}  # [n, h*w*c] values, by their (c, *spatial)

    def convert(self, node: Node) -> None:
        """Emit ``node``, on stored values where its operator allows."""
        if self._normalizes_groups(node):
            return
        match node.op:
            case HostOp() | Scan():
                self._emit(node, [self.value(name) for name in node.inputs])
            case Conv(layout="NCHW"):
                bias = [self.value(name) for name in node.inputs[2:]]
                self._channels_last(node, [self._conv_weight(node.op, node.inputs[1]), *bias])
            case Pool(layout="NCHW") | GlobalPool(layout="NCHW"):
                self._channels_last(node, [])
            case BatchNorm(layout="NCHW") if self._rank(node.inputs[0]) >= 3:
                self._channels_last(node, [self.value(name) for name in node.inputs[1:]])
            case BatchNorm():
                self._emit(node, [self.value(name) for name in node.inputs])
            case Concat():
                self._several(node)
            case Transpose(permutation):
                stored = self._of(node.inputs[0])
                due = tuple(stored.permutation[axis] for axis in permutation)
                self._stored[node.output] = Stored(stored.value, due)
            case Elementwise():
                self._several(node)
            case _:
                self._one_input(node)

    def _normalizes_groups(self, node: Node) -> bool:
        """Whether ``node`` is the last, or one inside, of a normalisation of groups of channels
        that are stored last; the last one has been emitted.
        """
        grouped = self._grouped.get(node.output)
        if grouped is not None and self._is_channels_last(grouped.source):
            stored = self._of(grouped.source)
            self._emit(node, [stored.value], stored.permutation, grouped.op)
            return True
        return node.output in self._inside and self._is_channels_last(self._inside[node.output])

    def _one_input(self, node: Node) -> None:
        """Operators whose attributes name dimensions; anything else takes plain values."""
        stored = self._of(node.inputs[0])
        due = stored.permutation
        match node.op:
            case ReduceOp() | ArgReduce():
                self._reduce(node, node.op, stored)
            case op if self._keeps_rank(node) and (moved := on_permuted(op, due)) is not None:
                others = [self.value(name) for name in node.inputs[1:]]
                self._emit(node, [stored.value, *others], due, moved)
            case Reshape(shape):
                self._reshape(node, shape, stored)
            case Dense() if node.inputs[0] in self._flattened:
                self._dense(node)
            case _:
                self._emit(node, [self.value(name) for name in node.inputs])

    def _channels_last(self, node: Node, others: Sequence[str]) -> None:
        op = node.op
        assert isinstance(op, Conv | Pool | GlobalPool | BatchNorm)
        due = channels_first(self._rank(node.output))
        data = self._with_due(node.inputs[0], due)
        self._emit(node, [data, *others], due, replace(op, layout="NHWC"))

    def _conv_weight(self, op: Conv, name: str) -> str:
        """A weight in our form: a view of the model's, transposed."""
        shape = self.shape(name)
        form = op.weight(shape)
        permutation = form.permutation(op.transposed)
        split = form.split_shape(op.transposed)
        if split == shape:
            return self._with_due(name, tuple(np.argsort(permutation).tolist()))
        view = self._reshaped_value(self.value(name), split)
        return self._transposed_value(view, permutation)

    def _several(self, node: Node) -> None:
        """Element by element, and concatenations: all operands take the cheapest common order."""
        rank = self._rank(node.output)
        plain = tuple(range(rank))
        orders = {self._of(name).permutation: None for name in node.inputs}
        candidates = [order for order in orders if len(order) == rank and order != plain]
        due = min(
            (*candidates, plain), key=lambda order: sum(self._cost(n, order) for n in node.inputs)
        )
        operands = [self._aligned(name, rank, due) for name in node.inputs]
        op = Concat(due[node.op.axis]) if isinstance(node.op, Concat) else node.op
        self._emit(node, operands, due, op)

    def _cost(self, name: str, due: Permutation) -> int:
        """Elements to move so that ``name`` is kept with ``due``; none if that was done already."""
        stored = self._of(name)
        kind = self.builder.types[stored.value]
        if name in self.graph.constants or len(kind.shape) != len(due):
            return 0
        permutation = _change(stored.permutation, due)
        done = (stored.value, permutation) in self._transposed
        return 0 if done or keeps_memory_order(permutation, kind.shape) else kind.size

    def _aligned(self, name: str, rank: int, due: Permutation) -> str:
        """The operand ``name``, with leading ones up to ``rank`` dimensions, kept with ``due``."""
        shape = self.shape(name)
        if len(shape) == rank:
            return self._with_due(name, due)
        plain = self.value(name)
        if due == tuple(range(rank)) or prod(shape) == 1:
            return plain
        full = (1,) * (rank - len(shape)) + shape
        return self._transposed_value(self._reshaped_value(plain, full), np.argsort(due).tolist())

    def _reduce(self, node: Node, op: ReduceOp | ArgReduce, stored: Stored) -> None:
        due = stored.permutation
        reduced = op.axes if isinstance(op, ReduceOp) else (op.axis,)
        axes = tuple(sorted(due[axis] for axis in reduced))
        left = due
        if not op.keepdims:
            kept = [due[d] for d in range(len(due)) if d not in reduced]
            left = tuple(sorted(kept).index(axis) for axis in kept)
        moved = replace(op, axes=axes) if isinstance(op, ReduceOp) else replace(op, axis=axes[0])
        self._emit(node, [stored.value], left, moved)

    def _reshape(self, node: Node, shape: Shape, stored: Stored) -> None:
        source = self.builder.types[stored.value].shape
        if keeps_memory_order(stored.permutation, source):
            self._emit(node, [stored.value])
        elif self._is_flatten_before_dense(node, stored):
            self._flattened[node.output] = self.shape(node.inputs[0])[1:]
            self._emit(node, [stored.value])
        else:
            before = self.shape(node.inputs[0])
            plan = regroup(stored.permutation, before, shape)
            if keeps_memory_order(plan.order, source):
                self._emit(node, [stored.value], plan.due, Reshape(plan.shape))
            elif node.output in self._feeds_channels_last:
                value = self._transposed_value(stored.value, plan.order)
                self._emit(node, [value], plan.due, Reshape(plan.shape))
            else:  # one transpose, and nothing due that might take another
                self._emit(node, [self.value(node.inputs[0])])

    def _is_flatten_before_dense(self, node: Node, stored: Stored) -> bool:
        """Whether only dense layers of constant weight see the order of the flattened elements."""
        before, after = (self.shape(name) for name in (node.inputs[0], node.output))
        readers = self.graph.consumers.get(node.output, ())
        return (
            stored.permutation == channels_first(len(before))
            and len(before) > 2
            and after == (before[0], prod(before[1:]))
            and node.output not in self.graph.result_values
            and all(
                isinstance(reader.op, Dense)
                and node.output not in reader.inputs[1:]
                and reader.inputs[1] in self.graph.constants
                for reader in readers
            )
        )

    def _dense(self, node: Node) -> None:
        """A dense layer on elements flattened channels last: permute the rows of its weight."""
        shape = self._flattened[node.inputs[0]]
        weight = self.graph.constants[node.inputs[1]]
        order = (*range(1, len(shape)), 0, len(shape))
        rows = weight.reshape(*shape, -1).transpose(order).reshape(weight.shape)
        name = self.builder.constant(self.builder.unique(node.inputs[1]), rows)
        bias = [self.value(value) for value in node.inputs[2:]]
        self._emit(node, [self._of(node.inputs[0]).value, name, *bias])

    def _emit(
        self,
        node: Node,
        inputs: Sequence[str],
        due: Permutation | None = None,
        op: Op | None = None,
    ) -> None:
        value = self.builder.copy(node, inputs, op)
        rank = self._rank(node.output)
        self._stored[node.output] = Stored(value, tuple(range(rank)) if due is None else due)

    def _is_channels_last(self, name: str) -> bool:
        return self._of(name).permutation == channels_first(self._rank(name))

    def _keeps_rank(self, node: Node) -> bool:
        return self._rank(node.inputs[0]) == self._rank(node.output)

    def _rank(self, name: str) -> int:
        return len(self.shape(name))

    def _of(self, name: str) -> Stored:
        plain = Stored(name, tuple(range(self._rank(name))))
        return self._stored.get(name, plain)

    def value(self, name: str) -> str:
        """The value ``name`` itself, transposed where a permutation is due."""
        return self._with_due(name, tuple(range(self._rank(name))))

    def _with_due(self, name: str, due: Permutation) -> str:
        """A new value ``v`` with ``name == transpose(v, due)``."""
        stored = self._of(name)
        if stored.permutation == due:
            return stored.value
        return self._transposed_value(stored.value, _change(stored.permutation, due))

    def _transposed_value(self, value: str, permutation: Sequence[int]) -> str:
        key = (value, tuple(permutation))
        if key not in self._transposed:
            self._transposed[key] = self._transpose(*key)
        return self._transposed[key]

    def _transpose(self, value: str, permutation: Permutation) -> str:
        if permutation == tuple(range(len(permutation))):
            return value
        label = self.builder.unique(f"{value}.transposed")
        constant = self.builder.constants.get(value)
        if constant is not None:
            return self.builder.constant(label, constant.transpose(permutation))
        shape = self.builder.types[value].shape
        if keeps_memory_order(permutation, shape):
            return self._reshaped_value(value, tuple(shape[axis] for axis in permutation))
        return self.builder.add(Transpose(permutation), (value,), label, origins=())

    def _reshaped_value(self, value: str, shape: Shape) -> str:
        return self.reshaped(value, shape, f"{value}.reshaped")


def _change(current: Permutation, due: Permutation) -> Permutation:
    """How to transpose a stored value so that ``due`` is due instead of ``current``.

    Dimension d of the old graph's value is dimension current[d] of the one, due[d] of the other.
    """
    source = dict(zip(due, current, strict=True))
    return tuple(source[d] for d in range(len(due)))
