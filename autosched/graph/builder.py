"""Building graphs: fresh names, nodes appended one by one, constants added on the way."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from autosched.graph.errors import GraphError
from autosched.graph.ir import Array, Graph, Node, Result, Value, infer_node
from autosched.graph.ops.base import Op, TensorType, check_size


@dataclass(frozen=True, slots=True)
class Mark:
    """How many values and nodes a builder has."""

    values: int
    nodes: int


class GraphBuilder:
    """Collects inputs, constants and nodes; ``finish`` freezes and verifies them.

    Names in ``reserved`` are not made up, only used when given.
    Types are inferred as nodes are added, so that a wrong node is reported where it is made.
    """

    def __init__(self, name: str, reserved: frozenset[str] = frozenset()) -> None:
        self.name = name
        self.types: dict[str, TensorType] = {}
        self.constants: dict[str, Array] = {}
        self._inputs: list[Value] = []
        self._nodes: list[Node] = []
        self._node_names: set[str] = set()
        self._counters: dict[str, int] = {}
        self._reserved = reserved

    @classmethod
    def from_graph(cls, graph: Graph) -> GraphBuilder:
        """A builder that has the inputs and the constants of ``graph``, and no nodes.

        Made-up names avoid those of the graph's values and nodes.
        """
        reserved = frozenset((*graph.types, *(node.name for node in graph.nodes)))
        builder = cls(graph.name, reserved)
        for value in graph.inputs:
            builder.input(value)
        for name, array in graph.constants.items():
            builder.constant(name, array)
        return builder

    def input(self, value: Value) -> str:
        """Add an input; returns its name."""
        self._claim(value.name, value.type)
        self._inputs.append(value)
        return value.name

    def constant(self, name: str, array: Array) -> str:
        """Add a constant; returns its name."""
        self._claim(name, TensorType(tuple(array.shape), str(array.dtype)))
        self.constants[name] = array
        return name

    def add(
        self,
        op: Op,
        inputs: Sequence[str],
        output: str | None = None,
        name: str | None = None,
        origins: Iterable[str] | None = None,
    ) -> str:
        """Append ``output = op(*inputs)``; returns the output's name.

        Args:
            op: the operator.
            inputs: names of values.
            output: name of the result; None: one is made up.
            name: of the node; None: one is made up.
            origins: layers that the node stands for; None: itself, a layer.

        Raises:
            GraphError: the inputs do not fit the operator, or a name is taken.
        """
        label = name or output or self.unique(op.kind)
        target = output or self.unique(label)
        self._node_names.add(label)
        layers = (label,) if origins is None else tuple(dict.fromkeys(origins))
        node = Node(label, op, tuple(inputs), target, layers)
        self._claim(target, infer_node(node, [self.types[value] for value in inputs]))
        self._nodes.append(node)
        return target

    def copy(self, node: Node, inputs: Sequence[str], op: Op | None = None) -> str:
        """Append ``node`` with other inputs (and another operator); returns its output's name."""
        return self.add(op or node.op, inputs, node.output, node.name, node.origins)

    def mark(self) -> Mark:
        """The state of now, for ``roll_back``."""
        return Mark(len(self.types), len(self._nodes))

    def roll_back(self, mark: Mark) -> None:
        """Forget all values and nodes that were added since ``mark``."""
        while len(self._nodes) > mark.nodes:
            self._node_names.discard(self._nodes.pop().name)
        while len(self.types) > mark.values:
            name, _ = self.types.popitem()
            self.constants.pop(name, None)

    def finish(self, outputs: Mapping[str, str] | Sequence[Result]) -> Graph:
        """The graph; ``outputs`` gives the value that each public output name carries."""
        results = (
            tuple(Result(name, value) for name, value in outputs.items())
            if isinstance(outputs, Mapping)
            else tuple(outputs)
        )
        return Graph(self.name, tuple(self._inputs), results, tuple(self._nodes), self.constants)

    def unique(self, name: str) -> str:
        """``name``, or ``name`` with a number, so that no value and no node is called so."""
        taken = self.types, self._node_names, self._reserved
        candidate = name
        while any(candidate in names for names in taken):
            self._counters[name] = self._counters.get(name, 0) + 1
            candidate = f"{name}_{self._counters[name]}"
        return candidate

    def _claim(self, name: str, kind: TensorType) -> None:
        if name in self.types:
            raise GraphError(f"value {name!r} is defined twice", f"graph {self.name}")
        check_size(name, kind)
        self.types[name] = kind
