"""Results of a loop's body: each is computed by a kernel, where the next iteration looks for it."""

from __future__ import annotations

from autosched.graph.builder import GraphBuilder
from autosched.graph.ir import Graph, Result
from autosched.graph.ops.shape import Concat, Copy, Reshape


def own_results(graph: Graph, states: int) -> Graph:
    """``graph`` with a copy of every result that lies elsewhere, or in two stacks.

    Inputs, constants and concatenations lie elsewhere.  The first ``states`` results are next
    states; one value may be several of them, and be stacked once.
    """
    builder = GraphBuilder.from_graph(graph)
    for node in graph.nodes:
        builder.copy(node, node.inputs)
    origins = tuple(dict.fromkeys(origin for node in graph.nodes for origin in node.origins))
    stacked: set[str] = set()
    results = []
    for number, result in enumerate(graph.results):
        home = _home(graph, result.value)
        producer = graph.producers.get(home)
        elsewhere = producer is None or isinstance(producer.op, Concat)
        if elsewhere or (number >= states and home in stacked):
            results.append(
                Result(result.name, builder.add(Copy(), (result.value,), None, None, origins))
            )
            continue
        if number >= states:
            stacked.add(home)
        results.append(result)
    return builder.finish(results)


def _home(graph: Graph, name: str) -> str:
    """The value that ``name`` is a view of."""
    while name in graph.producers and isinstance(graph.producers[name].op, Reshape):
        name = graph.producers[name].inputs[0]
    return name
