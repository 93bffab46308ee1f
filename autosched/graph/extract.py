"""From a network to its kernel calls and the distinct tasks behind them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from autosched.graph.convolution_pairs import pair_convolutions
from autosched.graph.fusion import FusedGroup, fuse
from autosched.graph.host_call import CallKey, HostCall, call_key, host_calls
from autosched.graph.ir import Array, Graph, Network, Node, Value
from autosched.graph.loop_call import LoopCall, LoopKey, loop_key, loop_outputs
from autosched.graph.ops.scan import Scan
from autosched.graph.ops.shape import Reshape
from autosched.graph.optimize import optimize, optimize_narrow
from autosched.graph.own_results import own_results
from autosched.graph.parts import ValuePart, parts_of
from autosched.graph.passes.concat import split_concats
from autosched.graph.product_chains import chain_products
from autosched.graph.reduced import with_reduced
from autosched.graph.subgraph import LoweredGroup, Subgraph, lower_group
from autosched.graph.wide_products import widen_products
from sketch.analysis.store_places import keeps_to_dimensions
from sketch.dag.dag import ComputeDAG
from sketch.variants.derive import ALGORITHMS, Algorithm, variants_of


class WeightedTask(NamedTuple):
    """A program to tune, and how often the network runs it."""

    dag: ComputeDAG
    weight: int


@dataclass(frozen=True, slots=True, eq=False)
class Extraction:
    """A network as kernel calls.

    Attributes:
        graph: the optimised graph; its inputs and outputs are those of the model.
        calls: kernels, loops and host calls in execution order; together they compute every value
            that is not a view.
        tasks: distinct programs in order of first use, each with its number of executions.
        results: public output name -> name of the value in whose buffer it lies: the output of
            a call, an input of the graph, or a constant.  The shape may differ from the
            buffer's (views), the row-major elements are the same.
        parts: where values lie that lie inside others: operands of concatenations, slices, views
            of these.
    """

    graph: Graph
    calls: tuple[Subgraph | LoopCall | HostCall, ...]
    tasks: tuple[WeightedTask, ...]
    results: Mapping[str, str]
    parts: Mapping[str, ValuePart]

    @property
    def subgraphs(self) -> tuple[Subgraph, ...]:
        """The kernel calls, those of loops' bodies included."""
        return tuple(call for call, _ in _executions(self.calls))

    @property
    def host_calls(self) -> tuple[HostCall, ...]:
        """What runs on the host: nothing to tune, nothing that a library could hold."""
        return tuple(call for call in self.calls if isinstance(call, HostCall))

    @property
    def constants(self) -> dict[str, Array]:
        """All constants: those of loops' bodies are called after the loop."""
        found = dict(self.graph.constants)
        for call in self.calls:
            if isinstance(call, LoopCall):
                found |= {f"{call.name}/{n}": a for n, a in call.body.constants.items()}
        return found

    @property
    def inputs(self) -> tuple[Value, ...]:
        return self.graph.inputs

    @property
    def outputs(self) -> tuple[Value, ...]:
        return self.graph.outputs


def extract(
    model: Network | Graph,
    chains: bool = False,
    cache_bytes: int | None = None,
    algorithms: tuple[Algorithm, ...] = ALGORITHMS,
    units: Collection[str] | None = None,
) -> Extraction:
    """Optimise, fuse and lower a model; subgraphs of one structural key share one program object.

    Programs of one key may name their placeholders differently (operands commuted); a subgraph's
    values are bound to the shared program's placeholders by their canonical order.

    Args:
        model: in any layout.
        chains: products whose rows weigh those of another one share its kernel.
        cache_bytes: pointwise and depthwise convolutions with more between them than such caches
            keep share a kernel; None: none do.
        algorithms: other ways to compute a program that may be chosen.
        units: 16-bit floats that units multiply: products of others with many rows are computed in
            float32; None: none are.
    """
    network = model if isinstance(model, Network) else Network(model.name, model)
    graph = with_reduced(optimize(network.graph), network.reduced)
    graph = optimize_narrow(widen_products(graph, units))
    programs = _Programs(chains, cache_bytes, algorithms, units)
    return _extract(graph, programs, {value.name for value in graph.inputs})


@dataclass(frozen=True, slots=True)
class _Programs:
    """What a network and the bodies of its loops have in common.

    Attributes:
        chains: see ``extract``.
        cache_bytes: see ``extract``.
        algorithms: see ``extract``.
        units: see ``extract``.
        by_key: the distinct programs.
        numbers: how many kernels and loops have each name.
    """

    chains: bool
    cache_bytes: int | None
    algorithms: tuple[Algorithm, ...]
    units: Collection[str] | None
    by_key: dict[str, ComputeDAG] = field(default_factory=dict)
    numbers: Counter[str] = field(default_factory=Counter)

    def label(self, name: str) -> str:
        """``name`` with the next number."""
        self.numbers[name] += 1
        return f"{name}.{self.numbers[name]}"


def _extract(graph: Graph, programs: _Programs, given: Collection[str] = ()) -> Extraction:
    graph = split_concats(graph, _written_in_parts(graph, programs.algorithms))
    groups = fuse(graph)
    if programs.chains:
        groups = chain_products(graph, groups)
    if programs.cache_bytes is not None:
        groups = pair_convolutions(graph, groups, programs.cache_bytes)
    parts = parts_of(graph, {g.root.output for g in groups if len(g.nodes) == 1}, given)
    read_in_place = parts.keys() - parts_of(graph).keys()
    views = _views(graph, parts)
    on_host, looped = host_calls(graph, views), loop_outputs(graph.nodes)
    calls: dict[CallKey | LoopKey | str, Subgraph | LoopCall | HostCall] = {}
    for group in groups:
        node = group.root
        if node.output in read_in_place:
            continue
        if node.op.on_host:
            calls.setdefault(call_key(node), on_host[call_key(node)])
        elif isinstance(node.op, Scan):
            if loop_key(node) not in calls:
                outputs = looped[loop_key(node)]
                calls[loop_key(node)] = _loop(graph, node, outputs, views, programs)
        else:
            lowered = lower_group(graph, group)
            dag = programs.by_key.setdefault(lowered.dag.key, lowered.dag)
            name = programs.label(lowered.name)
            calls[name] = _subgraph(graph, group, lowered, dag, name, views)
    found = tuple(calls.values())
    results = {result.name: views.get(result.value, result.value) for result in graph.results}
    return Extraction(graph, found, _weighted(found), results, parts)


def _loop(
    graph: Graph,
    node: Node,
    outputs: Mapping[int, str],
    views: Mapping[str, str],
    programs: _Programs,
) -> LoopCall:
    function, _ = loop_key(node)
    body = widen_products(optimize(function.body), programs.units)
    body = own_results(body, function.states)
    name = programs.label(node.op.kind)
    while any(value.startswith(f"{name}/") for value in graph.types):  # so are the body's called
        name = programs.label(node.op.kind)
    return LoopCall(
        name=name,
        function=function,
        body=_extract(body, programs),
        inputs=tuple(views.get(name, name) for name in node.inputs),
        outputs=outputs,
        layers=node.origins,
    )


def _executions(
    calls: tuple[Subgraph | LoopCall | HostCall, ...],
) -> Iterator[tuple[Subgraph, int]]:
    """Every kernel call, and how often a run executes it."""
    for call in calls:
        if isinstance(call, Subgraph):
            yield call, 1
        elif isinstance(call, LoopCall):
            for inner, _ in _executions(call.body.calls):
                yield inner, call.function.trips


def _weighted(calls: tuple[Subgraph | LoopCall | HostCall, ...]) -> tuple[WeightedTask, ...]:
    """The programs in order of first use."""
    uses: Counter[int] = Counter()
    programs: dict[int, ComputeDAG] = {}
    for call, times in _executions(calls):
        programs.setdefault(id(call.dag), call.dag)
        uses[id(call.dag)] += times
    return tuple(WeightedTask(dag, uses[key]) for key, dag in programs.items())


def _written_in_parts(graph: Graph, algorithms: tuple[Algorithm, ...]) -> frozenset[str]:
    """Operands of concatenations that are written by stages which do not keep to dimensions, or
    would be in another variant of their programs.

    Such a kernel knows its output as one flat buffer and cannot write it elsewhere.
    """
    joined = parts_of(graph)
    found: dict[str, bool] = {}
    values: set[str] = set()
    for group in fuse(graph):
        if group.root.output in joined:
            dag = lower_group(graph, group).dag
            if dag.key not in found:
                found[dag.key] = _is_flat(dag, algorithms)
            values |= {group.root.output} if found[dag.key] else set()
    return frozenset(values)


def _is_flat(dag: ComputeDAG, algorithms: tuple[Algorithm, ...]) -> bool:
    moving = tuple(algorithm for algorithm in algorithms if algorithm.moves_results)
    variants = variants_of(dag, algorithms if _writes_parts(dag) else moving)
    stages = (stage for each in (dag, *variants.values()) for stage in each.stages)
    return not all(map(keeps_to_dimensions, stages))


def _writes_parts(dag: ComputeDAG) -> bool:
    return any(stage.store is not None for stage in dag.stages)


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


def _views(graph: Graph, parts: Mapping[str, ValuePart]) -> dict[str, str]:
    """The value in whose buffer each reshaped value lies, but for those inside of others."""
    sources: dict[str, str] = {}
    for node in graph.nodes:
        if isinstance(node.op, Reshape) and node.output not in parts:
            sources[node.output] = sources.get(node.inputs[0], node.inputs[0])
    return sources
