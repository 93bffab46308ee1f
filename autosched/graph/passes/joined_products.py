"""Products of one value with several constants are one product, whose columns are read in parts.

    q, k, v = x @ a, x @ b, x @ c    ->    q, k, v = slices of x @ [a b c]

as in attention.  Every row of ``x`` is read once, and one large product loses less at its edges,
and between kernels, than several small ones do.  A product that an element-wise operator reads
stays: that is computed where the product is stored.  Not where parts of the product are read as
well, as where pairs of its columns are rotated: these need all of it first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from autosched.graph.builder import GraphBuilder
from autosched.graph.ir import Graph, Node
from autosched.graph.ops.base import Pattern
from autosched.graph.ops.einsum import Einsum
from autosched.graph.ops.matmul import Dense, MatMul
from autosched.graph.ops.movement import Slice
from autosched.graph.ops.shape import Reshape

# A vector of rows takes as long as its operands take from memory, joined or not.
_LEAST_ROWS: Final = 2


def join_products(graph: Graph) -> Graph:
    """``graph`` with the rewrite above; the graph itself where there is nothing to join."""
    groups = _groups(graph)
    if not groups:
        return graph
    first = {group[0].output: group for group in groups}
    members = {node.output for group in groups for node in group}
    builder = GraphBuilder.from_graph(graph)
    for node in graph.nodes:
        if node.output in first:
            _join(graph, builder, first[node.output])
        elif node.output not in members:
            builder.copy(node, node.inputs)
    return builder.finish(graph.results)


def _join(graph: Graph, builder: GraphBuilder, group: Sequence[Node]) -> None:
    """Emit one product, and the results of ``group`` as slices of it."""
    name = group[0].name
    operands = []
    for place in range(1, len(group[0].inputs)):
        arrays = [graph.constants[node.inputs[place]] for node in group]
        label = builder.unique(f"{name}.joined.{group[0].op.roles[place]}")
        operands.append(builder.constant(label, np.concatenate(arrays, axis=-1)))
    origins = dict.fromkeys(origin for node in group for origin in node.origins)
    inputs = (group[0].inputs[0], *operands)
    whole = builder.add(
        group[0].op, inputs, builder.unique(f"{name}.joined"), origins=tuple(origins)
    )
    start = 0
    for node in group:
        rows, columns = graph.types[node.output].shape
        part = Slice((0, start), (rows, start + columns), (1, 1))
        builder.add(part, (whole,), node.output, node.name, ())
        start += columns


def _groups(graph: Graph) -> list[list[Node]]:
    """The products to join, in order: no other product lies between those of a group, so that no
    result is kept for longer.
    """
    found: list[list[Node]] = []
    last: tuple[object, ...] | None = None
    for node in graph.nodes:
        if node.op.pattern is not Pattern.COMPLEX:
            continue
        key = _key(graph, node)
        if key is not None and key == last:
            found[-1].append(node)
        elif key is not None:
            found.append([node])
        last = key
    return [group for group in found if len(group) > 1]


def _key(graph: Graph, node: Node) -> tuple[object, ...] | None:
    """What products must have in common; None for one that is not joined."""
    data, *operands = node.inputs
    if not isinstance(node.op, Dense) or any(name not in graph.constants for name in operands):
        return None
    if graph.types[data].shape[0] < _LEAST_ROWS or not _is_stored(graph, node.output):
        return None
    dtypes = tuple(graph.types[name].dtype for name in operands)
    return data, node.op, dtypes


def _is_stored(graph: Graph, value: str) -> bool:
    """Whether a value, in whatever shape, is read by products alone, or also in parts."""
    if value in graph.result_values:
        return False
    readers = graph.consumers.get(value, ())
    if any(isinstance(reader.op, Slice) for reader in readers):
        return True
    return bool(readers) and all(
        _is_stored(graph, reader.output)
        if isinstance(reader.op, Reshape)
        else isinstance(reader.op, Einsum | MatMul)
        for reader in readers
    )
