"""Which nodes of a graph are one LayerNormalization in ONNX."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from autosched.graph.ir import Graph, Node
from autosched.graph.ops.elementwise import BinaryFunction, BinaryOp
from autosched.graph.ops.norm import Normalize


@dataclass(frozen=True, slots=True)
class LayerNorm:
    """``data`` normalised along the last dimension, times ``scale``, plus ``bias``.

    ``inner`` are the values in between, which nothing else reads.
    """

    data: str
    scale: str
    bias: str
    epsilon: float
    inner: tuple[str, str]


def layer_norms(graph: Graph) -> Mapping[str, LayerNorm]:
    """The layer norms of a graph, by the value that they compute."""
    found: dict[str, LayerNorm] = {}
    for node in graph.nodes:
        match node.op:
            case Normalize(axes, epsilon, centered=True) if axes == (_rank(graph, node) - 1,):
                scaled = _with_vector(graph, node, "mul")
                shifted = None if scaled is None else _with_vector(graph, scaled[0], "add")
                if scaled is not None and shifted is not None:
                    inner = (node.output, scaled[0].output)
                    norm = LayerNorm(node.inputs[0], scaled[1], shifted[1], epsilon, inner)
                    found[shifted[0].output] = norm
            case _:
                pass
    return found


def _rank(graph: Graph, node: Node) -> int:
    return len(graph.types[node.output].shape)


def _with_vector(graph: Graph, node: Node, function: BinaryFunction) -> tuple[Node, str] | None:
    """The one reader of ``node`` and the constant vector that it combines it with."""
    readers = graph.consumers.get(node.output, ())
    if len(readers) != 1 or node.output in graph.result_values:
        return None
    reader = readers[0]
    if not isinstance(reader.op, BinaryOp) or reader.op.function != function:
        return None
    others = [name for name in reader.inputs if name != node.output]
    wanted = graph.types[node.output].shape[-1:]
    if len(others) != 1 or graph.types[others[0]].shape != wanted:
        return None
    return (reader, others[0]) if others[0] in graph.constants else None
