"""Sums of dequantised values that are quantised again: one factor for each, and one constant.

    round(((a - za) * sa + (b - zb) * sb) / s)  ->  round(a * (sa / s) + (b * (sb / s) + c))

``a`` and ``b`` are bytes, as floats.  A residual addition is two multiply-adds then, and nothing
is divided.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from autosched.graph.ir import Graph, Node
from autosched.graph.ops.elementwise import BinaryOp, CastOp, UnaryOp
from autosched.graph.passes.dead_code import remove_dead_code
from autosched.graph.passes.rewriter import GraphRewriter
from sketch.lang.dtypes import BYTES

# Quanta of the result.  Float32 has constants and products up to that to 1/16384 of one.
_LARGEST: Final = 1024.0
_MOST_BYTE: Final = 255.0
_FLOAT: Final = "float32"


def fold_scaled_sums(graph: Graph) -> Graph:
    """``graph`` with such sums; the graph itself where there are none."""
    rewriter = _ScaledSums(graph)
    found = rewriter.run()
    return remove_dead_code(found) if rewriter.changed else graph


@dataclass(frozen=True, slots=True)
class _Sum:
    """``offset`` plus ``value * factor`` for each value of bytes."""

    factors: Mapping[str, float]
    offset: float

    def times(self, factor: float) -> _Sum:
        factors = {name: own * factor for name, own in self.factors.items()}
        return _Sum(factors, self.offset * factor)

    def plus(self, other: _Sum) -> _Sum:
        names = dict.fromkeys((*self.factors, *other.factors))
        factors = {n: self.factors.get(n, 0.0) + other.factors.get(n, 0.0) for n in names}
        return _Sum(factors, self.offset + other.offset)

    @property
    def is_exact_enough(self) -> bool:
        """Whether rounding its constants to float32 moves the sum by next to nothing."""
        sizes = [_MOST_BYTE * abs(factor) for factor in self.factors.values()]
        return all(0.0 < size <= _LARGEST for size in sizes) and abs(self.offset) <= _LARGEST


class _ScaledSums(GraphRewriter):
    """The new graph while it grows."""

    def __init__(self, graph: Graph) -> None:
        super().__init__(graph)
        self.changed = False
        self._sums: dict[str, _Sum] = {}  # by the names of their values

    def convert(self, node: Node) -> None:
        """Emit ``node``, of the sum in its short form where it rounds one."""
        if (own := self._sum_of(node)) is not None:
            self._sums[node.output] = own
        found = self._sums.get(node.inputs[0]) if node.op == UnaryOp("round") else None
        if found is None or len(found.factors) == 1 or not found.is_exact_enough:
            self.builder.copy(node, node.inputs)
            return
        self.changed = True
        # Constants that are left out may have had more dimensions than what they scale.
        rank = len(self.graph.types[node.output].shape)
        total = self._constant(np.full((1,) * rank, found.offset), node.output)
        for name, factor in reversed(tuple(found.factors.items())):
            scaled = self._add("mul", name, self._constant(np.asarray(factor), node.output), node)
            total = self._add("add", scaled, total, node)
        self.builder.add(node.op, (total,), node.output, node.name, node.origins)

    def _sum_of(self, node: Node) -> _Sum | None:
        """What a node computes, if it is such a sum that nothing else reads."""
        name = node.output
        if self.graph.types[name].dtype != _FLOAT:
            return None
        if node.op == CastOp(_FLOAT):
            return _Sum({name: 1.0}, 0.0) if self._is_of_bytes(node) else None
        readers = self.graph.consumers.get(name, ())
        alone = len(readers) == 1 and name not in self.graph.result_values
        if not alone or not isinstance(node.op, BinaryOp):
            return None
        lhs, rhs = node.inputs
        number = self._number(rhs)
        match node.op.function:
            case "mul" | "div" if number:
                data = self._sums.get(lhs)
                factor = number if node.op.function == "mul" else 1.0 / number
                return None if data is None else data.times(factor)
            case "add" | "sub":
                data = self._sums.get(lhs)
                other = self._sums.get(rhs) if number is None else _Sum({}, number)
                if data is None or other is None:
                    return None
                return data.plus(other if node.op.function == "add" else other.times(-1.0))
        return None

    def _is_of_bytes(self, node: Node) -> bool:
        return self.graph.types[node.inputs[0]].dtype in BYTES

    def _number(self, name: str) -> float | None:
        """A finite constant of one element."""
        array = self.graph.constants.get(name)
        if array is None or array.size != 1 or not np.isfinite(array).all():
            return None
        return float(array.reshape(()))

    def _constant(self, numbers: NDArray[np.float64], label: str) -> str:
        name = self.builder.unique(f"{label}.factor")
        return self.builder.constant(name, numbers.astype(np.float32))

    def _add(self, function: str, lhs: str, rhs: str, node: Node) -> str:
        name = self.builder.unique(f"{node.output}.{function}")
        return self.builder.add(_BINARY[function], (lhs, rhs), name, origins=node.origins)


_BINARY: Final = {name: BinaryOp(name) for name in ("add", "mul")}
