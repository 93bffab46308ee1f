"""From a network to its kernel calls and the distinct tasks behind them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from autosched.graph.fusion import FusedGroup, fuse
from autosched.graph.host_call import CallKey, HostCall, call_key, host_calls
from autosched.graph.ir import Graph, Network, Value
from autosched.graph.ops.shape import Reshape
from autosched.graph.optimize import optimize
from autosched.graph.passes.concat import Part, parts, split_concats
from autosched.graph.subgraph import LoweredGroup, Subgraph, lower_group
from sketch.dag import ComputeDAG
from sketch.tensor import Compute


class WeightedTask(NamedTuple):
    """A program to tune, and how often the network runs it."""

    dag: ComputeDAG
    weight: int


@dataclass(frozen=True, slots=True, eq=False)
class Extraction:
    """A network as kernel calls.

    Attributes:
        graph: the optimised graph; its inputs and outputs are those of the model.
        calls: kernels and host calls in execution order; together they compute every value that
            is not a view.
        tasks: distinct programs in order of first use, each with its number of uses.
        results: public output name -> name of the value in whose buffer it lies: the output of
            a call, an input of the graph, or a constant.  The shape may differ from the
            buffer's (views), the row-major elements are the same.
        parts: where values lie that are computed inside a concatenation.
    """

    graph: Graph
    calls: tuple[Subgraph | HostCall, ...]
    tasks: tuple[WeightedTask, ...]
    results: Mapping[str, str]
    parts: Mapping[str, Part]

    @property
    def subgraphs(self) -> tuple[Subgraph, ...]:
        """The kernel calls."""
        return tuple(call for call in self.calls if isinstance(call, Subgraph))

    @property
    def host_calls(self) -> tuple[HostCall, ...]:
        """What runs on the host: nothing to tune, nothing that a library could hold."""
        return tuple(call for call in self.calls if isinstance(call, HostCall))

    @property
    def inputs(self) -> tuple[Value, ...]:
        return self.graph.inputs

    @property
    def outputs(self) -> tuple[Value, ...]:
        return self.graph.outputs


def extract(model: Network | Graph) -> Extraction:
    """Optimise, fuse and lower a model; subgraphs of one structural key share one program object.

    Programs of one key may name their placeholders differently (operands commuted); a subgraph's
    values are bound to the shared program's placeholders by their canonical order.
    """
    graph = optimize(model.graph if isinstance(model, Network) else model)
    graph = split_concats(graph, _written_in_parts(graph))
    views = _views(graph)
    on_host = host_calls(graph, views)
    calls: dict[CallKey | str, Subgraph | HostCall] = {}
    programs: dict[str, ComputeDAG] = {}
    numbers: Counter[str] = Counter()
    for group in fuse(graph):
        if group.root.op.on_host:
            calls.setdefault(call_key(group.root), on_host[call_key(group.root)])
            continue
        lowered = lower_group(graph, group)
        dag = programs.setdefault(lowered.dag.key, lowered.dag)
        numbers[lowered.name] += 1
        name = f"{lowered.name}.{numbers[lowered.name]}"
        calls[name] = _subgraph(graph, group, lowered, dag, name, views)
    uses = Counter(id(call.dag) for call in calls.values() if isinstance(call, Subgraph))
    tasks = tuple(WeightedTask(dag, uses[id(dag)]) for dag in programs.values())
    results = {result.name: views.get(result.value, result.value) for result in graph.results}
    return Extraction(graph, tuple(calls.values()), tasks, results, parts(graph))


def _written_in_parts(graph: Graph) -> frozenset[str]:
    """Operands of concatenations whose own kernels write them through several stages' store maps.

    Such a kernel knows its output as one flat buffer and cannot write it elsewhere.
    """
    joined = parts(graph)
    groups = (group for group in fuse(graph) if group.root.output in joined)
    return frozenset(
        group.root.output for group in groups if _has_store_map(lower_group(graph, group).dag)
    )


def _has_store_map(dag: ComputeDAG) -> bool:
    return any(t.op.store is not None for t in dag.outputs if isinstance(t.op, Compute))


def _subgraph(
    graph: Graph,
    group: FusedGroup,
    lowered: LoweredGroup,
    dag: ComputeDAG,
    name: str,
    views: Mapping[str, str],
) -> Subgraph:
    pairs = zip(dag.canonical_inputs, lowered.dag.canonical_inputs, strict=True)
    operands = {shared.name: lowered.operands[own.name] for shared, own in pairs}
    constants = {
        label: graph.constants[value]
        for label, value in operands.items()
        if value in graph.constants
    }
    inputs = {
        label: views.get(value, value)
        for label, value in operands.items()
        if label not in constants
    }
    layers = tuple(dict.fromkeys(origin for node in group.nodes for origin in node.origins))
    return Subgraph(name, dag, inputs, constants, group.root.output, dag.output_names[0], layers)


def _views(graph: Graph) -> dict[str, str]:
    """The value in whose buffer each reshaped value lies."""
    sources: dict[str, str] = {}
    for node in graph.nodes:
        if isinstance(node.op, Reshape):
            sources[node.output] = sources.get(node.inputs[0], node.inputs[0])
    return sources
