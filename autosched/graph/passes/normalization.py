"""Normalisations written as element-wise operators around means become one operator.

``x / sqrt(mean(x * x) + epsilon)`` is a normalisation by the root mean square; where x is what is
left of a value after its mean was subtracted, it is that value's normalisation.  As one operator it
is one kernel, and statistics of rows stay in rows.
"""

from __future__ import annotations

from dataclasses import dataclass

from autosched.graph.builder import GraphBuilder
from autosched.graph.ir import Graph, Node
from autosched.graph.ops.base import Op
from autosched.graph.ops.elementwise import BinaryOp, UnaryOp
from autosched.graph.ops.norm import Normalize
from autosched.graph.ops.reduce import ReduceOp
from sketch.lang.dtypes import STORAGE_FLOATS


def recognize_normalizations(graph: Graph) -> Graph:
    """``graph`` with ``Normalize`` in place of the forms above; others may still read the means.

    16-bit values are left alone: the parts of the formula are rounded as they are written.
    """
    matcher = _Matcher(graph)
    builder = GraphBuilder.from_graph(graph)
    for node in graph.nodes:
        found = matcher.normalized(node)
        if found is None:
            builder.copy(node, node.inputs)
        else:
            origins = (*found.origins, *node.origins)
            builder.add(found.op, (found.data,), node.output, node.name, origins)
    return builder.finish(graph.results)


@dataclass(frozen=True, slots=True)
class _Found:
    op: Normalize
    data: str
    origins: tuple[str, ...]


class _Matcher:
    """Looks for the formula from its last operator back to its data."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph

    def normalized(self, node: Node) -> _Found | None:
        """What ``node`` computes as a normalisation; None if it is something else."""
        kind = self._graph.types[node.output]
        if kind.dtype in STORAGE_FLOATS:
            return None
        for data, shifted in self._quotients(node):
            if shifted is not None and self._graph.types[data].shape == kind.shape:
                found = self._of_mean_square(data, shifted)
                if found is not None:
                    return found
        return None

    def _quotients(self, node: Node) -> list[tuple[str, str | None]]:
        """(x, v) for each way in which ``node`` is x over the root of v."""
        if node.op == BinaryOp("div"):
            return [(node.inputs[0], self._under_root(node.inputs[1]))]
        if node.op == BinaryOp("mul"):
            sides = (node.inputs, node.inputs[::-1])
            return [(data, self._under_inverse_root(factor)) for data, factor in sides]
        return []

    def _under_root(self, name: str) -> str | None:
        operands = self._operands(name, UnaryOp("sqrt"))
        return None if operands is None else operands[0]

    def _under_inverse_root(self, name: str) -> str | None:
        direct = self._operands(name, UnaryOp("rsqrt"))
        if direct is not None:
            return direct[0]
        inverse = self._operands(name, UnaryOp("reciprocal"))
        if inverse is not None:
            return self._under_root(inverse[0])
        quotient = self._operands(name, BinaryOp("div"))
        if quotient is not None and self._number(quotient[0]) == 1:
            return self._under_root(quotient[1])
        return None

    def _of_mean_square(self, data: str, shifted: str) -> _Found | None:
        """``data`` over the root of ``shifted``, if that is its mean square plus a constant."""
        terms = self._operands(shifted, BinaryOp("add"))
        for mean, number in () if terms is None else (terms, terms[::-1]):
            epsilon, axes = self._number(number), self._mean_axes(mean)
            if epsilon is None or epsilon < 0 or axes is None:
                continue
            square = self._graph.producers[mean].inputs[0]
            if self._operands(square, BinaryOp("mul")) == (data, data):
                return self._centered(data, axes, epsilon, (square, mean, shifted))
        return None

    def _centered(
        self, data: str, axes: tuple[int, ...], epsilon: float, parts: tuple[str, ...]
    ) -> _Found:
        whole = self._operands(data, BinaryOp("sub"))
        if whole is not None and self._mean_axes(whole[1]) == axes:
            source = self._graph.producers[whole[1]].inputs[0]
            if source == whole[0]:
                origins = self._origins((whole[1], data, *parts))
                return _Found(Normalize(axes, epsilon), source, origins)
        return _Found(Normalize(axes, epsilon, centered=False), data, self._origins(parts))

    def _origins(self, values: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(o for name in values for o in self._graph.producers[name].origins)

    def _operands(self, name: str, op: Op) -> tuple[str, ...] | None:
        """The operands of ``op``, if that is what computes ``name``."""
        node = self._graph.producers.get(name)
        return node.inputs if node is not None and node.op == op else None

    def _mean_axes(self, name: str) -> tuple[int, ...] | None:
        """The axes that ``name`` is a mean over, kept as extents of 1."""
        node = self._graph.producers.get(name)
        match node.op if node is not None else None:
            case ReduceOp("mean", axes, True):
                return axes
            case _:
                return None

    def _number(self, name: str) -> float | None:
        """The value of a constant of one element."""
        array = self._graph.constants.get(name)
        return float(array.reshape(-1)[0]) if array is not None and array.size == 1 else None
