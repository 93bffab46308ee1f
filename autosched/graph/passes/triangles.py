"""Masks that are triangles: conditions on row and column instead of arrays, by which loops end."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from autosched.graph.builder import GraphBuilder
from autosched.graph.ir import Array, Graph, Node
from autosched.graph.ops.elementwise import Where
from autosched.graph.ops.movement import Triangle


@dataclass(frozen=True, slots=True)
class _Hidden:
    """What of ``data`` is replaced by minus infinity: elements (i, j) for j - i > ``diagonal``."""

    data: str
    diagonal: int


def name_triangles(graph: Graph) -> Graph:
    """``where(tri, data, -inf)`` as the lower triangle of data, for a constant ``tri``."""
    builder = GraphBuilder.from_graph(graph)
    for node in graph.nodes:
        found = _hidden(graph, node) if isinstance(node.op, Where) else None
        if found is None:
            builder.copy(node, node.inputs)
        else:
            builder.copy(node, (found.data,), Triangle(False, found.diagonal, hidden=True))
    return builder.finish(graph.results)


def _hidden(graph: Graph, node: Node) -> _Hidden | None:
    condition, then, otherwise = node.inputs
    seen, shape = graph.constants.get(condition), graph.types[node.output].shape
    if seen is None or seen.ndim < 2 or seen.shape != (1,) * (seen.ndim - 2) + shape[-2:]:
        return None
    for data, other, kept in ((then, otherwise, seen), (otherwise, then, np.logical_not(seen))):
        if graph.types[data].shape == shape and _is_minus_infinity(graph.constants.get(other)):
            diagonal = _diagonal(kept.reshape(shape[-2:]))
            return None if diagonal is None else _Hidden(data, diagonal)
    return None


def _is_minus_infinity(array: Array | None) -> bool:
    return array is not None and array.size > 0 and bool(np.all(array == -np.inf))


def _diagonal(kept: Array) -> int | None:
    """The last of the first row of a lower triangle; None for what is none, or hides nothing."""
    last = int(kept[0].sum()) - 1 if kept.shape[0] > 1 else -1
    if last < 0 or kept.all():
        return None
    rows, columns = kept.shape
    return last if np.array_equal(kept, np.tri(rows, columns, last, dtype=np.bool_)) else None
