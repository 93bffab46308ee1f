"""The base of passes that know more about a value of the old graph than its name in the new one.

One sweep in topological order: the pass emits each node in turn, and keeps in fields of its own
which form of an old value it has made.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from autosched.graph.builder import GraphBuilder
from autosched.graph.errors import GraphError
from autosched.graph.ir import Graph, Node, Result
from autosched.graph.ops.base import Shape
from autosched.graph.ops.shape import Reshape


class GraphRewriter(ABC):
    """The old graph, and the new one while it grows; an instance serves for one ``run``."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.builder = GraphBuilder.from_graph(graph)

    def run(self) -> Graph:
        """The new graph, verified.

        Raises:
            GraphError: a result has another type than it had.
        """
        for node in self.graph.nodes:
            self.convert(node)
        results = [Result(r.name, self.value(r.value)) for r in self.graph.results]
        for old, new in zip(self.graph.results, results, strict=True):
            before, after = self.graph.types[old.value], self.builder.types[new.value]
            if after != before:
                raise GraphError(f"a rewrite makes {after} of the result {old.name!r}, {before}")
        return self.builder.finish(results)

    @abstractmethod
    def convert(self, node: Node) -> None:
        """Emit ``node``, which is of the old graph, or what takes its place."""

    def value(self, name: str) -> str:
        """The new value that equals the old value ``name``, where a result carries it."""
        return name

    def shape(self, name: str) -> Shape:
        """The shape of an old value."""
        return self.graph.types[name].shape

    def reshaped(self, value: str, shape: Shape, label: str) -> str:
        """A new value in another shape: a constant at once, another by a view called ``label``."""
        name = self.builder.unique(label)
        constant = self.builder.constants.get(value)
        if constant is not None:
            return self.builder.constant(name, constant.reshape(shape))
        return self.builder.add(Reshape(shape), (value,), name, origins=())
