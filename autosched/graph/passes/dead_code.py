"""Remove nodes and constants that no output needs; inputs stay, they are the model's interface."""

from autosched.graph.ir import Graph, Node


def remove_dead_code(graph: Graph) -> Graph:
    """``graph`` without what its outputs do not depend on; the graph itself if all is needed."""
    live = set(graph.result_values)
    kept: list[Node] = []
    for node in reversed(graph.nodes):
        if node.output in live:
            kept.append(node)
            live.update(node.inputs)
    constants = {name: array for name, array in graph.constants.items() if name in live}
    if len(kept) == len(graph.nodes) and len(constants) == len(graph.constants):
        return graph
    return Graph(graph.name, graph.inputs, graph.results, tuple(reversed(kept)), constants)
