"""Elements at constant index tuples are taken along one dimension, wherever that is.

    gather_points(transpose(x [b, 27, 27], (1, 2, 0)), tuples [n, 2])
        ->  transpose(gather(reshape(x, (b, 729)), places [n], axis 1), (1, 0))

``x[:, i, j]`` is exported with the indexed dimensions in front; the transposes around it would be
copies, or leave the lanes of what computes ``x`` without neighbours.
"""

from __future__ import annotations

from math import prod

import numpy as np
from numpy.typing import NDArray

from autosched.graph.builder import GraphBuilder
from autosched.graph.ir import Graph, Node
from autosched.graph.ops.gather import Gather, GatherPoints
from autosched.graph.ops.shape import Reshape, Transpose
from sketch.lang.dtypes import INDEX_DTYPES


def gather_along_one(graph: Graph) -> Graph:
    """``graph`` with the rewrite above; transposes that nothing reads any more stay."""
    builder = GraphBuilder.from_graph(graph)
    for node in graph.nodes:
        tuples = _tuples(graph, node)
        if tuples is None:
            builder.copy(node, node.inputs)
        else:
            _emit(builder, graph, node, tuples)
    return builder.finish(graph.results)


def _tuples(graph: Graph, node: Node) -> NDArray[np.int64] | None:
    """The constant tuples of a gather, all inside of the data; None: it is something else."""
    if not isinstance(node.op, GatherPoints) or node.op.batch:
        return None
    given = graph.constants.get(node.inputs[1])
    if given is None or str(given.dtype) not in INDEX_DTYPES or given.shape[-1] == 0:
        return None
    tuples = given.astype(np.int64)
    extents = np.asarray(graph.types[node.inputs[0]].shape[: tuples.shape[-1]], np.int64)
    inside = np.all(tuples >= -extents) and np.all(tuples < extents)
    return tuples if inside else None


def _emit(builder: GraphBuilder, graph: Graph, node: Node, tuples: NDArray[np.int64]) -> None:
    depth = tuples.shape[-1]
    source, first, origins = _before(graph, node.inputs[0], depth)
    shape = graph.types[source].shape
    indexed = shape[first : first + depth]
    merged = (*shape[:first], prod(indexed), *shape[first + depth :])
    positive = np.where(tuples < 0, tuples + np.asarray(indexed), tuples).reshape(-1, depth)
    places = np.asarray(np.ravel_multi_index(tuple(positive.T), indexed), np.int64)
    index = builder.constant(builder.unique(f"{node.name}.places"), places)
    flat = builder.add(Reshape(merged), (source,), origins=())
    origins = (*origins, *node.origins)
    found = builder.add(Gather(first), (flat, index), origins=origins)
    others = [d for d in range(len(merged)) if d != first]
    front = builder.add(Transpose((first, *others)), (found,), origins=())
    view = Reshape(graph.types[node.output].shape)
    builder.add(view, (front,), node.output, node.name, ())


def _before(graph: Graph, data: str, depth: int) -> tuple[str, int, tuple[str, ...]]:
    """The value to gather from, the first of its dimensions that are indexed, and the layers of
    a transpose that has brought these to the front.
    """
    turned = graph.producers.get(data)
    if turned is None or not isinstance(turned.op, Transpose):
        return data, 0, ()
    order = turned.op.permutation
    first = order[0]
    others = [d for d in range(len(order)) if not first <= d < first + depth]
    if order != (*range(first, first + depth), *others):
        return data, 0, ()
    return turned.inputs[0], first, turned.origins
