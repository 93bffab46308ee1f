"""The graph IR: typed values, nodes in topological order, constants; all frozen and verified.

A graph is changed by building a new one (see ``autosched.graph.builder``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from autosched.graph.errors import GraphError
from autosched.graph.ops.base import Op, Shape, TensorType, check_size
from autosched.graph.precision import AS_WRITTEN, ReducedLayers
from autosched.system.numbers import counted
from sketch.html import html_table
from sketch.lang.dtypes import SUPPORTED

Array = NDArray[np.generic]


@dataclass(frozen=True, slots=True)
class Value:
    """A named tensor of static shape: an input or output of a graph or a network."""

    name: str
    shape: Shape
    dtype: str = "float32"

    @property
    def type(self) -> TensorType:
        return TensorType(self.shape, self.dtype)


@dataclass(frozen=True, slots=True)
class Node:
    """``output = op(*inputs)``: inputs and output are names of values; names of nodes are unique.

    ``origins`` are the names of the model's own layers that the node computes (a pass that folds
    one layer into another joins them).
    """

    name: str
    op: Op
    inputs: tuple[str, ...]
    output: str
    origins: tuple[str, ...] = ()

    @property
    def where(self) -> str:
        return f"node {self.name} ({self.op.kind})"


@dataclass(frozen=True, slots=True)
class Result:
    """An output of a graph: its public ``name``, and the name of the ``value`` it carries."""

    name: str
    value: str


@dataclass(frozen=True, eq=False)
class Graph:
    """A network of static shapes.

    ``nodes`` are in topological order; ``constants`` maps value names to arrays, which are made
    read-only.  Building a graph infers the type of every value and verifies single assignment,
    definition before use, and shapes.

    Raises:
        GraphError: names the node, the value and what is wrong.
    """

    name: str
    inputs: tuple[Value, ...]
    results: tuple[Result, ...]
    nodes: tuple[Node, ...]
    constants: Mapping[str, Array]
    types: Mapping[str, TensorType] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        frozen = {name: _frozen(name, array) for name, array in self.constants.items()}
        object.__setattr__(self, "constants", frozen)
        object.__setattr__(self, "types", _infer_types(self))

    @property
    def outputs(self) -> tuple[Value, ...]:
        """The outputs under their public names."""
        types = (self.types[result.value] for result in self.results)
        return tuple(
            Value(result.name, kind.shape, kind.dtype)
            for result, kind in zip(self.results, types, strict=True)
        )

    @cached_property
    def producers(self) -> dict[str, Node]:
        """The node that computes each value that is neither an input nor a constant."""
        return {node.output: node for node in self.nodes}

    @cached_property
    def consumers(self) -> dict[str, tuple[Node, ...]]:
        """The nodes that read each value, in order (a node that reads it twice counts once)."""
        found: dict[str, list[Node]] = {}
        for node in self.nodes:
            for name in dict.fromkeys(node.inputs):
                found.setdefault(name, []).append(node)
        return {name: tuple(nodes) for name, nodes in found.items()}

    @cached_property
    def result_values(self) -> frozenset[str]:
        """Names of the values that outputs carry."""
        return frozenset(result.value for result in self.results)

    def __iter__(self) -> Iterator[Node]:
        return iter(self.nodes)

    def __str__(self) -> str:
        return "\n".join(_lines(self))


@dataclass(frozen=True, eq=False)
class Network:
    """A model as users see it: a graph in the model's own names, layouts and dtypes.

    ``reduced``: the layers whose products are of narrower numbers when it is compiled
    (``autosched.reduce_precision``).
    """

    name: str
    graph: Graph
    reduced: ReducedLayers = AS_WRITTEN

    @property
    def inputs(self) -> tuple[Value, ...]:
        """The model's inputs, each with ``.name``, ``.shape`` and ``.dtype``."""
        return self.graph.inputs

    @property
    def outputs(self) -> tuple[Value, ...]:
        """The model's outputs, each with ``.name``, ``.shape`` and ``.dtype``."""
        return self.graph.outputs

    def __repr__(self) -> str:
        inputs = ", ".join(f"{v.name}: {v.type}" for v in self.inputs)
        outputs = ", ".join(f"{v.name}: {v.type}" for v in self.outputs)
        nodes = counted(len(self.graph.nodes), "node")
        return f"Network({self.name}, {inputs} -> {outputs}, {nodes})"

    def _repr_html_(self) -> str:
        """Inputs and outputs, and how many operators there are of each kind."""
        counts = Counter(type(node.op).__name__ for node in self.graph.nodes)
        kinds = ", ".join(f"{count} {kind}" for kind, count in counts.most_common())
        values = [("input", v) for v in self.inputs] + [("output", v) for v in self.outputs]
        rows = [(what, value.name, str(value.type)) for what, value in values]
        return html_table(
            self.name, ("", "name", "type"), rows, left=(0, 1, 2), notes=[kinds or "no operators"]
        )


def _frozen(name: str, array: Array) -> Array:
    kind = TensorType(array.shape, str(array.dtype))
    if not kind.native:
        raise GraphError(
            f"constant {name} has type {kind}",
            hint=f"extents must be positive, dtypes one of {', '.join(SUPPORTED)}",
        )
    contiguous = np.ascontiguousarray(array).reshape(array.shape)
    view = contiguous.view()
    view.flags.writeable = False
    return view


def _infer_types(graph: Graph) -> dict[str, TensorType]:
    where = f"graph {graph.name}"
    types: dict[str, TensorType] = {}
    for value in graph.inputs:
        _define(types, value.name, value.type, where)
    for name, array in graph.constants.items():
        _define(types, name, TensorType(array.shape, str(array.dtype)), where)
    _check_unique("node", [node.name for node in graph.nodes], where)
    for node in graph.nodes:
        operands = [_lookup(types, name, node.where) for name in node.inputs]
        computed = infer_node(node, operands)
        _define(types, node.output, computed, node.where)
        _check_native(node, (node.output,), (computed,))
    _check_unique("output", [result.name for result in graph.results], where)
    for result in graph.results:
        _lookup(types, result.value, f"output {result.name}")
    return types


def infer_node(node: Node, operands: Sequence[TensorType]) -> TensorType:
    """Type of the output of ``node``.  Raises GraphError, which names the node."""
    _check_native(node, node.inputs, operands)
    try:
        return node.op.infer(operands)
    except GraphError as error:
        raise GraphError(error.what, node.where, error.hint) from None


def _define(types: dict[str, TensorType], name: str, kind: TensorType, where: str) -> None:
    if name in types:
        raise GraphError(f"value {name!r} is defined twice", where)
    check_size(name, kind)
    types[name] = kind


def _check_native(node: Node, names: Sequence[str], kinds: Sequence[TensorType]) -> None:
    """Only host operators read and write what kernels cannot work on."""
    if node.op.on_host:
        return
    for name, kind in zip(names, kinds, strict=True):
        if not kind.native:
            raise GraphError(
                f"value {name!r} has type {kind}",
                node.where,
                f"extents must be positive, dtypes one of {', '.join(SUPPORTED)}",
            )


def _lookup(types: Mapping[str, TensorType], name: str, where: str) -> TensorType:
    if name not in types:
        raise GraphError(f"value {name!r} is used before it is defined", where)
    return types[name]


def _check_unique(what: str, names: Sequence[str], where: str) -> None:
    repeated = [name for name, count in Counter(names).items() if count > 1]
    if repeated:
        raise GraphError(f"{what} name {repeated[0]!r} is used twice", where)


def _lines(graph: Graph) -> Iterator[str]:
    inputs = ", ".join(f"{v.name}: {v.type}" for v in graph.inputs)
    yield f"graph {graph.name}({inputs})"
    for node in graph.nodes:
        yield f"  {node.output}: {graph.types[node.output]} = {node.op}({', '.join(node.inputs)})"
    for result in graph.results:
        yield f"  return {result.name} = {result.value}"
