"""From a network to a module: graph passes, a schedule for every task, machine code, memory."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from autosched.graph.extract import Extraction, extract
from autosched.graph.host_call import HostCall
from autosched.graph.subgraph import Subgraph
from autosched.least_traffic import least_bytes
from autosched.measure.result import CacheState
from autosched.memory_room import enough_memory
from autosched.notices import notify
from autosched.records.best import target_warning
from autosched.records.log import RecordLog
from autosched.runtime.archive import Contents
from autosched.runtime.assemble import assemble, check_no_nan
from autosched.runtime.module import Module
from autosched.runtime.program import Program, StepInfo, TensorSpec
from autosched.runtime.untuned import untuned_notice
from autosched.runtime.wiring import Call, HostBinding, Inside, Wiring
from autosched.search.recall import Recalled, unbuildable, usable
from autosched.task import Candidate, Task
from sketch.dtypes import size_of
from sketch.errors import AutoschedError
from sketch.packing import preparations
from sketch.target import Target

if TYPE_CHECKING:
    from autosched.graph.ir import Network, Value
    from autosched.graph.passes.concat import Part
    from autosched.records.record import Record
    from codegen.kernel import Kernel

Source = Literal["record", "model"]
_DRIVER: Final = "autosched_driver"
_KernelKey = tuple[int, tuple[int, ...] | None]  # a scheduled task, the strides of its output


@dataclass(frozen=True, slots=True, eq=False)
class Scheduled:
    """A task, the candidate chosen for it, and where that comes from.

    Attributes:
        source: "record": the best of a log; "model": what the draft model likes best.
        recalled: what the log says of it, None for "model".
    """

    task: Task
    candidate: Candidate
    source: Source
    recalled: Recalled | None = None


def network_tasks(extraction: Extraction, target: Target) -> tuple[Task, ...]:
    """The distinct tasks of a network, each named after the first place where it occurs."""
    names: dict[int, str] = {}
    for subgraph in extraction.subgraphs:
        names.setdefault(id(subgraph.dag), subgraph.name)
    return tuple(
        Task(item.dag, target, names[id(item.dag)], item.weight) for item in extraction.tasks
    )


def cache_state_of(extraction: Extraction, target: Target) -> CacheState:
    """What the caches still hold of the constants when their turn comes again in the next run.

    Between two uses of a constant all others and all activations pass through the caches.
    """
    constants = sum(array.nbytes for array in extraction.graph.constants.values())
    if constants > target.l3_bytes:
        return "dram_cold"
    return "l2_cold" if constants > target.l2_bytes * target.threads else "warm"


def schedule(
    tasks: Sequence[Task], records: Sequence[Record], state: CacheState, quick: bool = False
) -> tuple[Scheduled, ...]:
    """The best recorded candidate of each task, or the draft model's favourite without one.

    Times taken in cache state ``state`` are preferred to others, and all of the target's own to
    those of other machines.  ``quick``: the draft model sees few candidates.
    """
    found = []
    for task in tasks:
        best = next(usable(task, records, state), None)
        if best is not None:
            found.append(Scheduled(task, best.candidate, "record", best))
        else:
            found.append(Scheduled(task, task.draft_candidate(quick), "model"))
    return tuple(found)


class UnbuildableRecordError(AutoschedError):
    """No code can be made of a recorded candidate.

    Attributes:
        record: where it comes from.
    """

    def __init__(self, record: Record, error: Exception) -> None:
        super().__init__(unbuildable(record, error))
        self.record = record


def extract_checked(network: Network) -> Extraction:
    """The network's kernel calls; raises AssemblyError on weights that are NaN or become so."""
    check_no_nan(network.graph.constants)
    extraction = extract(network)
    check_no_nan(extraction.graph.constants)  # folding may divide by zero
    return extraction


def compile_network(network: Network, target: Target, records: Sequence[Record] = ()) -> Module:
    """Compile ``network`` for ``target`` with the best of ``records``, where they have any."""
    return link(*network_contents(network, target, records))


def contents_from_log(
    network: Network, target: Target, log: str | PathLike[str] | None, quick: bool = False
) -> Contents:
    """``network_contents`` with the records of a log, if one is given.

    Warns of lines that cannot be read, of a log without a record of the target, of records that do
    not replay, and of tasks that are left without a record.
    """
    if log is None:
        return network_contents(network, target, quick=quick)
    found = RecordLog(log).read()
    notify(found.warnings)
    contents = network_contents(network, target, found.records, quick)
    untuned = untuned_notice(contents[0])
    notify(line for line in (target_warning(found.records, target), untuned) if line)
    return contents


def network_contents(
    network: Network, target: Target, records: Sequence[Record] = (), quick: bool = False
) -> Contents:
    """All that a compiled network consists of, for any CPU; nothing is loaded."""
    with enough_memory(f"compiling network {network.name}"):
        extraction = extract_checked(network)
        state = cache_state_of(extraction, target)
        tasks, left = network_tasks(extraction, target), list(records)
        while True:
            try:
                scheduled = schedule(tasks, left, state, quick)
                return build_contents(network.name, extraction, scheduled, target)
            except UnbuildableRecordError as error:
                notify([str(error)])
                key = error.record.candidate_key
                left = [record for record in left if record.candidate_key != key]


def build_contents(
    name: str, extraction: Extraction, scheduled: Sequence[Scheduled], target: Target
) -> Contents:
    """Machine code for every task, wired as ``extraction`` says."""
    by_dag = {id(item.task.dag): item for item in scheduled}
    kernels: dict[_KernelKey, Kernel] = {}
    constants: dict[str, NDArray[Any]] = {}
    labels = {id(array): label for label, array in extraction.graph.constants.items()}
    calls = tuple(
        _host_binding(call)
        if isinstance(call, HostCall)
        else _call(
            call,
            by_dag[id(call.dag)],
            _kernel(by_dag[id(call.dag)], call, extraction.parts, kernels),
            labels,
            constants,
        )
        for call in extraction.calls
    )
    types = extraction.graph.types
    read_as_is = [name for call in extraction.host_calls for name in call.inputs]
    for value in (*read_as_is, *extraction.results.values()):
        if value in extraction.graph.constants:
            constants[value] = np.asarray(extraction.graph.constants[value])
    wiring = Wiring(
        name=name,
        target=target,
        inputs=tuple(_spec(value) for value in extraction.inputs),
        outputs=tuple((_spec(v), extraction.results[v.name]) for v in extraction.outputs),
        calls=calls,
        constants=constants,
        sizes={name: kind.size_bytes for name, kind in types.items() if kind.native},
        parts={
            name: Inside(part.whole, part.offset * size_of(types[name].dtype))
            for name, part in extraction.parts.items()
        },
    )
    program, packed = assemble(wiring)
    objects = {kernel.symbol: kernel.object_code for kernel in kernels.values()}
    payloads = {call.name: call.function.payload for call in extraction.host_calls}
    return program, packed, objects | {_DRIVER: _driver(target)}, payloads


def link(
    program: Program,
    constants: NDArray[np.uint8],
    objects: Mapping[str, bytes],
    payloads: Mapping[str, bytes] | None = None,
) -> Module:
    """Load machine code and bind it to its memory; ``payloads``: ONNX models of the host steps.

    Raises:
        TargetError: the code needs instructions that this machine does not have.
        HostError: a host step needs the onnx package, or one that knows the operator.
    """
    from codegen.kernel import Kernel
    from codegen.llvm.jit import load

    kernels = [
        Kernel(
            name=symbol,
            symbol=symbol,
            object_code=code,
            arguments=(),
            workspace_bytes=0,
            target=program.target,
            instructions=0,
        )
        for symbol, code in objects.items()
    ]
    return Module(program, constants, load(kernels), objects, payloads)


def _driver(target: Target) -> bytes:
    from codegen.driver import build_driver

    return build_driver(target).object_code


def _kernel(
    item: Scheduled,
    subgraph: Subgraph,
    parts: Mapping[str, Part],
    kernels: dict[_KernelKey, Kernel],
) -> Kernel:
    """The task's kernel, one for each way in which its output lies in memory."""
    part = parts.get(subgraph.output)
    key = (id(item), None if part is None else part.strides)
    if key not in kernels:
        kernels[key] = _build(len(kernels), item, subgraph.output_name, key[1])
    return kernels[key]


def _build(number: int, item: Scheduled, output: str, strides: tuple[int, ...] | None) -> Kernel:
    from codegen.build import build
    from sketch.lower import lower

    label = re.sub(r"\W", "_", item.task.name, flags=re.ASCII)
    nest = lower(item.candidate.sketch, dict(item.candidate.values))
    apart = None if strides is None else {output: strides}
    try:
        return build(nest, item.task.target, f"k{number}_{label}", apart)
    except Exception as error:  # steps of a record may be such as no rule makes
        if item.recalled is None:
            raise
        raise UnbuildableRecordError(item.recalled.record, error) from error


def _call(
    subgraph: Subgraph,
    item: Scheduled,
    kernel: Kernel,
    labels: Mapping[int, str],
    constants: dict[str, NDArray[Any]],
) -> Call:
    """Bind the kernel's arguments; packs constants that no earlier call has prepared so."""
    sketch = item.candidate.sketch
    prepared = preparations(sketch, dict(item.candidate.values))
    values = []
    for tensor in sketch.dag.inputs:
        if tensor.name in subgraph.inputs:
            values.append(subgraph.inputs[tensor.name])
            continue
        array = subgraph.constants[tensor.name]
        preparation = prepared.get(tensor.name)
        label = labels[id(array)]
        name = label if preparation is None else f"{label} as {preparation.key}"
        if name not in constants:
            constants[name] = np.asarray(array if preparation is None else preparation.apply(array))
        values.append(name)
    return Call(kernel, (*values, subgraph.output), _info(subgraph, item))


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


def _info(subgraph: Subgraph, item: Scheduled) -> StepInfo:
    return StepInfo(
        name=subgraph.name,
        layers=subgraph.layers,
        op=subgraph.name.rpartition(".")[0] or subgraph.name,
        shapes=_shapes(subgraph),
        flops=subgraph.dag.flops,
        bytes=least_bytes(subgraph.dag),
        task=item.task.key,
        schedule=item.source,
    )


def _shapes(subgraph: Subgraph) -> str:
    """``1x56x56x64, 3x3x64x64 -> 1x56x56x64``; vectors (biases) are left out of the inputs."""
    inputs = [tensor.shape for tensor in subgraph.dag.inputs if len(tensor.shape) > 1]
    texts = ["x".join(map(str, shape)) for shape in inputs]
    outputs = ["x".join(map(str, array.shape)) for array in subgraph.dag.output_arrays]
    return f"{', '.join(texts)} -> {', '.join(outputs)}"


def _spec(value: Value) -> TensorSpec:
    return TensorSpec(value.name, value.shape, value.dtype)
