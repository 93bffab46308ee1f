"""Scatters read places that are repeated once, and no zeros that something is added to.

    scatter(data, expand(places [n, 1], (n, c)), updates [n, c])  ->  scatter(data, places, updates)
    scatter(zeros [r, c], places, updates), adding                ->  scatter(places, updates)

ONNX and PyTorch have a place for each element; rows are sent by repeating theirs.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from numpy.typing import NDArray

from autosched.graph.builder import GraphBuilder
from autosched.graph.ir import Graph, Node
from autosched.graph.ops.movement import Expand
from autosched.graph.ops.scatter import SendAlong
from autosched.graph.ops.shape import Reshape


def read_places_once(graph: Graph) -> Graph:
    """``graph`` with the rewrites above; copies that nothing reads any more stay."""
    made = {node.output: node for node in graph.nodes}
    builder = GraphBuilder.from_graph(graph)
    for node in graph.nodes:
        if not isinstance(node.op, SendAlong) or node.op.extent is not None:
            builder.copy(node, node.inputs)
            continue
        data, places, updates = node.inputs
        source = made.get(places)
        if source is not None and isinstance(source.op, Expand):
            places = _unrepeated(builder, node, node.op.axis, source)
        if node.op.function == "sum" and _is_zero(graph.constants.get(data)):
            op = replace(node.op, extent=graph.types[data].shape[node.op.axis])
            builder.copy(node, [places, updates], op)
        else:
            builder.copy(node, [data, places, updates])
    return builder.finish(graph.results)


def _unrepeated(builder: GraphBuilder, node: Node, axis: int, source: Node) -> str:
    """What an Expand repeats, in the rank of its result; its result, if it repeats places along
    their axis.
    """
    (places,) = source.inputs
    shape, whole = builder.types[places].shape, builder.types[source.output].shape
    padded = (*(1,) * (len(whole) - len(shape)), *shape)
    if padded[axis] != whole[axis]:
        return source.output
    if padded == shape:
        return places
    name = f"{node.name}.places"
    return builder.add(
        Reshape(padded), [places], builder.unique(name), builder.unique(name), node.origins
    )


def _is_zero(array: NDArray[Any] | None) -> bool:
    return array is not None and not array.any()
