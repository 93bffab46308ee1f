"""A network's calls as kernels and values: what the runtime assembles."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from autosched.compilation.kernels import KernelForm, KernelKey, Kernels
from autosched.compilation.loop_parts import inner_name, loop_parts
from autosched.compilation.scheduled import Built, Scheduled, expected_seconds
from autosched.graph.extract import Extraction
from autosched.graph.host_call import HostCall
from autosched.graph.loop_call import LoopCall
from autosched.graph.subgraph import Subgraph
from autosched.runtime.backend import runtime_of
from autosched.runtime.program import RepeatedSteps, StepInfo, TensorSpec
from autosched.runtime.wiring import Call, HostBinding, Inside, Wiring
from autosched.tasks.compulsory_traffic import compulsory_bytes, written_bytes
from codegen.backend import backend_of
from sketch.analysis.function_calls import function_calls
from sketch.lang.dtypes import size_of
from sketch.lower.packing import preparations
from sketch.target.target import Target

if TYPE_CHECKING:
    from autosched.graph.ir import Value


@dataclass(frozen=True, slots=True, eq=False)
class Wires:
    """What a network is assembled from; ``kernels``: by schedule and places of their values."""

    wiring: Wiring
    kernels: Mapping[KernelKey, Built]

    @property
    def objects(self) -> dict[str, bytes]:
        """Machine code by name."""
        files = runtime_of(self.wiring.target).files
        found: dict[str, bytes] = {}
        for built in self.kernels.values():
            found |= files(built.kernel, partial(expected_seconds, built.item))
        return found


def wire(
    name: str,
    extraction: Extraction,
    scheduled: Sequence[Scheduled],
    target: Target,
    accept: Callable[[Built], Scheduled],
    kernels: Kernels,
) -> Wires:
    """Machine code for every task, and the values that connect the kernels.

    Args:
        name: of the network.
        extraction: tasks and how their values are connected.
        scheduled: a schedule for each task.
        target: for which machine.
        accept: (kernel) to the schedule of its task: its own, or another to build instead.
        kernels: of earlier calls, which are used again; those of this one are added, also where it
            fails.
    """
    wires = _Wires(extraction, scheduled, target, accept, kernels)
    wires.add(extraction, _Scope())
    wiring = Wiring(
        name=name,
        target=target,
        inputs=tuple(_spec(value) for value in extraction.inputs),
        outputs=tuple((_spec(v), extraction.results[v.name]) for v in extraction.outputs),
        calls=tuple(wires.calls),
        constants=wires.constants,
        sizes=wires.sizes,
        parts=wires.parts,
        loops=tuple(wires.loops),
    )
    return Wires(wiring, wires.built)


@dataclass(frozen=True, slots=True)
class _Scope:
    """What the values of a graph are called in the whole network, and how often its calls run.

    Attributes:
        loop: whose body the graph is; None: the network itself.
        shared: names of values that the body has from outside.
    """

    loop: LoopCall | None = None
    shared: Mapping[str, str] = field(default_factory=dict)

    @property
    def trips(self) -> int:
        return 1 if self.loop is None else self.loop.function.trips

    def name(self, value: str) -> str:
        """The name of ``value`` in the whole network."""
        if self.loop is None:
            return value
        return self.shared.get(value) or inner_name(self.loop, value)


class _Wires:
    """All that is known of the network so far."""

    def __init__(
        self,
        extraction: Extraction,
        scheduled: Sequence[Scheduled],
        target: Target,
        accept: Callable[[Built], Scheduled],
        kernels: Kernels,
    ) -> None:
        self._accept, self._kernels = accept, kernels
        self._by_dag = {id(item.task.dag): item for item in scheduled}
        self._alignment = backend_of(target).argument_alignment
        self._labels = {id(array): label for label, array in extraction.constants.items()}
        self.built: dict[KernelKey, Built] = {}
        self.constants: dict[str, NDArray[Any]] = {}
        self.calls: list[Call | HostBinding] = []
        self.sizes: dict[str, int] = {}
        self.parts: dict[str, Inside] = {}
        self.loops: list[RepeatedSteps] = []

    def add(self, extraction: Extraction, scope: _Scope) -> None:
        """The calls and values of a network or of the body of a loop."""
        types = extraction.graph.types
        self.sizes |= {scope.name(n): kind.size_bytes for n, kind in types.items() if kind.native}
        for name, part in extraction.parts.items():
            offset = part.offset * size_of(types[name].dtype)
            self.parts[scope.name(name)] = Inside(scope.name(part.whole), offset)
        subgraphs = [call for call in extraction.calls if isinstance(call, Subgraph)]
        self._kernels.begin([self._form(extraction, call, scope) for call in subgraphs])
        for call in extraction.calls:
            if isinstance(call, Subgraph):
                self.calls.append(self._call(extraction, call, scope))
            elif isinstance(call, LoopCall):
                self._add_constants(extraction, call.inputs)
                self._add_loop(call)
            else:
                self._add_constants(extraction, call.inputs)
                self.calls.append(_host_binding(call))
        if scope.loop is None:
            self._add_constants(extraction, extraction.results.values())

    def _add_loop(self, call: LoopCall) -> None:
        found = loop_parts(call)
        function, body = call.function, call.body
        outside = slice(function.states + function.slices, None)
        pairs = zip(body.inputs[outside], call.inputs[outside], strict=True)
        first = len(self.calls)
        self.parts.update(found.parts)
        self.add(body, _Scope(call, {value.name: source for value, source in pairs}))
        self.sizes.update(found.carried)
        self.loops.append(RepeatedSteps(first, len(self.calls) - first, function.trips))

    def _add_constants(self, extraction: Extraction, names: Iterable[str]) -> None:
        """Constants that are read as they are."""
        for name in names:
            if name in extraction.graph.constants:
                self.constants[name] = np.asarray(extraction.graph.constants[name])

    def _call(self, extraction: Extraction, subgraph: Subgraph, scope: _Scope) -> Call:
        """Bind the kernel's arguments; packs constants that no earlier call has prepared so."""
        built = self._built(extraction, subgraph, scope)
        sketch, output = built.item.candidate.sketch, scope.name(subgraph.output)
        prepared = preparations(sketch, dict(built.item.candidate.values))
        values = []
        for tensor in sketch.dag.inputs:
            if tensor.name in subgraph.inputs:
                values.append(scope.name(subgraph.inputs[tensor.name]))
                continue
            array = subgraph.constants[tensor.name]
            preparation = prepared.get(tensor.name)
            label = self._labels[id(array)]
            name = label if preparation is None else f"{label} as {preparation.key}"
            if name not in self.constants:
                packed = array if preparation is None else preparation.apply(array)
                self.constants[name] = np.asarray(packed)
            values.append(name)
        return Call(built.kernel, (*values, output), _info(subgraph, built.item, scope.trips))

    def _loose(self, subgraph: Subgraph, scope: _Scope) -> frozenset[str]:
        """The arguments that start at any element."""
        places = {name: scope.name(value) for name, value in subgraph.inputs.items()}
        places |= {name: self._labels[id(array)] for name, array in subgraph.constants.items()}
        # Several stages may write one result: it has the name of the array, not of a stage.
        places[subgraph.output_name] = scope.name(subgraph.output)
        return frozenset(name for name, value in places.items() if self._is_loose(value))

    def _is_loose(self, name: str) -> bool:
        """Whether a value starts within a larger one, where wide accesses would be misaligned."""
        part = self.parts.get(name)
        if part is None:
            return False
        begins = part.offset % self._alignment != 0 or part.stride % self._alignment != 0
        first = part.first is not None and self._is_loose(part.first)
        return begins or first or self._is_loose(part.whole)

    def _form(self, extraction: Extraction, subgraph: Subgraph, scope: _Scope) -> KernelForm:
        """The kernel of a call, as far as it is known."""
        item = self._by_dag[id(subgraph.dag)]
        return KernelForm(item, _strides(extraction, subgraph), self._loose(subgraph, scope))

    def _built(self, extraction: Extraction, subgraph: Subgraph, scope: _Scope) -> Built:
        """The task's kernel, one for each way in which its values lie in memory."""
        form, accepted = self._form(extraction, subgraph, scope), self._kernels.accepted
        while (key := (form.item, form.places)) not in self.built:
            if key in accepted:
                self.built[key] = accepted[key]
                continue
            kernel = self._kernels.build(form)
            item = self._accept(Built(form.item, kernel, form.strides))
            if item.candidate is form.item.candidate:
                accepted[item, form.places] = Built(item, kernel, form.strides)
            self._by_dag[id(subgraph.dag)] = item
            form = replace(form, item=item)
        return self.built[key]


def _strides(extraction: Extraction, subgraph: Subgraph) -> dict[str, tuple[int, ...]]:
    """Of the arguments that do not lie in one piece, in elements."""
    values = {**subgraph.inputs, subgraph.output_name: subgraph.output}
    types, parts = extraction.graph.types, extraction.parts
    places = {name: (parts[v], types[v].shape) for name, v in values.items() if v in parts}
    return {name: p.strides for name, (p, shape) in places.items() if not p.is_dense(shape)}


def _host_binding(call: HostCall) -> HostBinding:
    function = call.function
    pairs = zip(call.inputs, function.inputs, strict=True)
    inputs = tuple(TensorSpec(name, kind.shape, kind.dtype) for name, kind in pairs)
    outputs = tuple(
        (n, TensorSpec(value, function.outputs[n].shape, function.outputs[n].dtype))
        for n, value in call.outputs
    )
    texts = [
        ["x".join(map(str, spec.shape)) for spec in side]
        for side in (inputs, [spec for _, spec in outputs])
    ]
    info = StepInfo(
        name=call.name,
        layers=call.layers,
        op=function.operator,
        shapes=" -> ".join(", ".join(side) for side in texts),
        schedule="host",
    )
    return HostBinding(call.name, inputs, outputs, info)


def _info(subgraph: Subgraph, item: Scheduled, trips: int) -> StepInfo:
    times = f"{trips} x " if trips > 1 else ""
    return StepInfo(
        name=subgraph.name,
        layers=subgraph.layers,
        op=subgraph.name.rpartition(".")[0] or subgraph.name,
        shapes=f"{times}{_shapes(subgraph)}",
        flops=subgraph.dag.flops * trips,
        bytes=compulsory_bytes(subgraph.dag) * trips,
        task=item.task.key,
        schedule=item.source,
        algorithm=item.algorithm,
        unit=item.unit,
        written=written_bytes(subgraph.dag) * trips,
        functions=tuple((n, c * trips) for n, c in function_calls(subgraph.dag.stages).items()),
        computed=item.computed_flops * trips,
    )


def _shapes(subgraph: Subgraph) -> str:
    """``1x56x56x64, 3x3x64x64 -> 1x56x56x64``; vectors (biases) are left out of the inputs."""
    inputs = [tensor.shape for tensor in subgraph.dag.inputs if len(tensor.shape) > 1]
    texts = ["x".join(map(str, shape)) for shape in inputs]
    outputs = ["x".join(map(str, array.shape)) for array in subgraph.dag.output_arrays]
    return f"{', '.join(texts)} -> {', '.join(outputs)}"


def _spec(value: Value) -> TensorSpec:
    return TensorSpec(value.name, value.shape, value.dtype)
