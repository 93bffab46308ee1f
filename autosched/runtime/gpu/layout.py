"""What one caller of a program needs besides its arena: places for inputs, and pinned memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from autosched.runtime.gpu.placement import inputs_on_device
from autosched.runtime.memory_plan import align
from autosched.runtime.program import ExecutionPlan, HostStep, Place, TensorSpec
from codegen.gpu.alignment import DEVICE_ALIGNMENT


@dataclass(frozen=True, slots=True)
class Slot:
    """A value in pinned memory: ``offset`` bytes from its start."""

    spec: TensorSpec
    offset: int

    @property
    def bytes(self) -> slice:
        """Its bytes in the pinned memory."""
        return slice(self.offset, self.offset + self.spec.size_bytes)


@dataclass(frozen=True, slots=True)
class CallerLayout:
    """Where the values of one caller lie.

    Attributes:
        inputs: offset in device memory, after the arena, of each input that kernels read, by
            number.
        staged: pinned memory of these inputs, by number.
        outputs: pinned memory of the outputs that lie in the arena, by number.
        values: pinned memory of what host steps read from the arena and write to it, by place.
        device_bytes, host_bytes: of all.
    """

    inputs: dict[int, int]
    staged: dict[int, Slot]
    outputs: dict[int, Slot]
    values: dict[tuple[int, Place, TensorSpec], Slot]
    device_bytes: int
    host_bytes: int


def caller_layout(program: ExecutionPlan) -> CallerLayout:
    """The layout for one caller of ``program``."""
    used = inputs_on_device(program)
    sizes = [program.inputs[number].size_bytes for number in used]
    device, device_bytes = _offsets(sizes, align(program.arena_bytes, DEVICE_ALIGNMENT))
    outputs = [n for n, (_, place) in enumerate(program.outputs) if place.segment == "arena"]
    values = list(dict.fromkeys(_host_values(program)))
    specs = [
        *(program.inputs[number] for number in used),
        *(program.outputs[number][0] for number in outputs),
        *(spec for _, _, spec in values),
    ]
    offsets, host_bytes = _offsets([spec.size_bytes for spec in specs], 0)
    slots = iter([Slot(spec, offset) for spec, offset in zip(specs, offsets, strict=True)])
    return CallerLayout(
        inputs=dict(zip(used, device, strict=True)),
        staged={number: next(slots) for number in used},
        outputs={number: next(slots) for number in outputs},
        values={value: next(slots) for value in values},
        device_bytes=device_bytes,
        host_bytes=host_bytes,
    )


def _host_values(program: ExecutionPlan) -> Iterator[tuple[int, Place, TensorSpec]]:
    """What each host step has in the arena: number of the step, place and type."""
    for number, step in enumerate(program.steps):
        if isinstance(step, HostStep):
            places = [*step.inputs, *((spec, place) for _, spec, place in step.outputs)]
            yield from ((number, p, spec) for spec, p in places if p.segment == "arena")


def _offsets(sizes: Iterable[int], start: int) -> tuple[list[int], int]:
    """An aligned offset for each size, from ``start`` on, and the end of all."""
    offsets = []
    for size in sizes:
        offsets.append(start)
        start += align(size, DEVICE_ALIGNMENT)
    return offsets, start
