"""Compute, once and for all, what depends on constants only."""

import numpy as np

from autosched.graph.evaluate import evaluate_node
from autosched.graph.ir import Graph, Node


def fold_constants(graph: Graph) -> Graph:
    """Replace nodes whose inputs are all constants by their values, rounded from float64."""
    constants = dict(graph.constants)
    kept: list[Node] = []
    for node in graph.nodes:
        kind = graph.types[node.output]
        # What is not native cannot be a constant of the graph; host operators keep such values.
        if kind.native and all(name in constants for name in node.inputs):
            value = evaluate_node(node, {name: constants[name] for name in node.inputs})
            with np.errstate(all="ignore"):  # what is too large is infinite, as in a run
                rounded = np.asarray(value).astype(kind.dtype)
            constants[node.output] = rounded.reshape(kind.shape)
        else:
            kept.append(node)
    if len(kept) == len(graph.nodes):
        return graph
    return Graph(graph.name, graph.inputs, graph.results, tuple(kept), constants)
