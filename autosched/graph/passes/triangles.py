"""Masks that are triangles: conditions on row and column instead of arrays, by which loops end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from autosched.graph.builder import GraphBuilder
from autosched.graph.ir import Array, Graph, Node
from autosched.graph.ops.einsum import Einsum
from autosched.graph.ops.elementwise import BinaryOp, CastOp, Where
from autosched.graph.ops.matmul import MatMul
from autosched.graph.ops.movement import Triangle
from autosched.graph.ops.shape import Reshape, Transpose
from autosched.graph.ops.softmax import Softmax

_FAR: Final = -1e30  # what is added to scores that are not to be seen, or less


@dataclass(frozen=True, slots=True)
class _Hidden:
    """What of ``data`` is replaced by minus infinity: elements (i, j) for j - i > ``diagonal``."""

    data: str
    diagonal: int


def name_triangles(graph: Graph) -> Graph:
    """``where(tri, data, -inf)`` as the lower triangle of data, for a constant ``tri``.

    So are scores to which a constant adds 0 in the triangle and minus infinity elsewhere, or so
    large a negative number that their softmax is 0 there.  That holds for scores below 1e29 in
    size: they have to be products as they are, for other masks may have been added to others.
    What is hidden may be infinite or NaN: it is hidden all the same.
    """
    builder = GraphBuilder.from_graph(graph)
    for node in graph.nodes:
        found = None
        if isinstance(node.op, Where):
            found = _hidden(graph, node)
        elif isinstance(node.op, BinaryOp) and node.op.function == "add":
            found = _added(graph, node)
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


def _added(graph: Graph, node: Node) -> _Hidden | None:
    """Scores of a softmax, and what is added to them."""
    shape = graph.types[node.output].shape
    for data, name in (node.inputs, node.inputs[::-1]):
        mask = graph.constants.get(name)
        if mask is None or graph.types[data].shape != shape or len(shape) < 2:
            continue
        if mask.shape != (1,) * (mask.ndim - 2) + shape[-2:] or mask.dtype.kind != "f":
            continue
        kept = np.equal(mask, 0)
        seen = kept.reshape(shape[-2:])
        least = np.float64(_FAR if _is_product(graph, data, seen) else -np.inf)
        far = np.less_equal(mask, least)
        if np.all(kept | far) and _feeds_softmax(graph, node.output):
            diagonal = _diagonal(seen)
            return None if diagonal is None else _Hidden(data, diagonal)
    return None


def _is_product(graph: Graph, value: str, kept: Array) -> bool:
    """Whether a value is a product, scaled and seen in another shape at most, wherever ``kept``
    [rows, columns] is true.
    """
    while (node := graph.producers.get(value)) is not None and isinstance(node.op, Where):
        chosen = _chosen(graph, node, kept)
        if chosen is None:
            return False
        value = chosen
    while (node := graph.producers.get(value)) is not None:
        if isinstance(node.op, MatMul | Einsum):
            return True
        inputs = [name for name in node.inputs if name not in graph.constants]
        known = _is_scaled(graph, node) or isinstance(node.op, Reshape | Transpose | CastOp)
        if len(inputs) != 1 or not known:
            return False
        (value,) = inputs
    return False


def _is_scaled(graph: Graph, node: Node) -> bool:
    """Whether a value is multiplied or divided by a constant; a reciprocal may be of any size."""
    if not isinstance(node.op, BinaryOp):
        return False
    divided = node.op.function == "div" and node.inputs[1] in graph.constants
    return divided or node.op.function == "mul"


def _chosen(graph: Graph, node: Node, kept: Array) -> str | None:
    """What a choice by a constant gives wherever ``kept`` is true; None: now this, now that, or
    elsewhere what might be large: numbers that a mask makes no small ones of.
    """
    condition, then, otherwise = node.inputs
    seen, shape = graph.constants.get(condition), graph.types[node.output].shape
    if seen is None or seen.shape != (1,) * (seen.ndim - 2) + kept.shape or seen.ndim > len(shape):
        return None
    of_kept = seen.reshape(kept.shape)[kept]
    if of_kept.any() and not of_kept.all():
        return None
    chosen, other = (then, otherwise) if of_kept.all() else (otherwise, then)
    filled = graph.constants.get(other)
    return chosen if filled is not None and bool(np.all(np.less_equal(filled, 0))) else None


def _feeds_softmax(graph: Graph, value: str) -> bool:
    """Whether softmax along the last dimension alone reads a value."""
    readers = graph.consumers.get(value, ())
    last = len(graph.types[value].shape) - 1
    return value not in graph.result_values and all(
        isinstance(reader.op, Softmax) and not reader.op.log and reader.op.axis in (-1, last)
        for reader in readers
    )


def _is_minus_infinity(array: Array | None) -> bool:
    return array is not None and array.size > 0 and bool(np.all(array == -np.inf))


def _diagonal(kept: Array) -> int | None:
    """The last of the first row of a lower triangle; None for what is none, or hides nothing."""
    last = int(kept[0].sum()) - 1 if kept.shape[0] > 1 else -1
    if last < 0 or kept.all():
        return None
    rows, columns = kept.shape
    return last if np.array_equal(kept, np.tri(rows, columns, last, dtype=np.bool_)) else None
