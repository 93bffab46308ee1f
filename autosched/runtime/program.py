"""A compiled network as plain data: everything but the machine code and the constants' bytes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from autosched.system.element_types import element_bytes, element_type
from codegen.denormals import Denormals
from sketch.target.target import Target

Segment = Literal["arena", "constants", "input", "output", "host"]
SEGMENTS: Final = ("arena", "constants", "input", "output", "host")
_SCHEDULE_LABELS: Final = {
    "record": "tuned", "release": "shipped", "model": "model only", "host": "on the host",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """An input or output of a network, as its caller sees it."""

    name: str
    shape: tuple[int, ...]
    dtype: str

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def size_bytes(self) -> int:
        """Bytes of all elements."""
        return self.size * element_bytes(self.dtype)

    def __str__(self) -> str:
        return f"{self.name}: {self.dtype}{list(self.shape)}"


@dataclass(frozen=True, slots=True)
class Place:
    """A value in memory: ``offset`` bytes into the arena or the constants.

    In segment "input", ``offset`` is the number of an input, whose own array is used in place; in
    segment "output" that of an output, whose array the steps write and read in place.
    In segment "host" it is the number of a NumPy array that only host steps write and read: one
    of a dtype that kernels do not know, or without elements.
    """

    segment: Segment
    offset: int


def is_memory(spec: TensorSpec, place: Place) -> bool:
    """Whether a value's bytes are the value: no array of the host's, and no Python objects."""
    return place.segment != "host" and not element_type(spec.dtype).hasobject


@dataclass(frozen=True, slots=True)
class Moving:
    """A value that lies elsewhere in each iteration of a loop, or inside an input or output.

    Iteration ``i`` finds it ``start + stride * (i % period)`` bytes after ``place``.  What lies
    still, ``start`` bytes after the first of an array, has no stride.

    Attributes:
        place: of the whole that the value is a part of.
        start, stride: in bytes; a loop that runs backwards has a negative stride.
        period: number of different places; 0: as many as iterations.
        first: where iteration 0 finds it instead.  The others then find what the iteration before
            them left: ``i - 1`` takes the place of ``i`` above.
    """

    place: Place
    start: int
    stride: int
    period: int = 0
    first: Place | None = None

    def offsets(self, trips: int) -> NDArray[np.int64]:
        """Bytes after ``place`` in each iteration that finds the value there, int64 ``[n]``.

        All ``trips`` iterations, or all but the first.
        """
        numbers = np.arange(trips - (self.first is not None), dtype=np.int64)
        return self.start + self.stride * (numbers % self.period if self.period else numbers)


Argument = Place | Moving


@dataclass(frozen=True, slots=True)
class RepeatedSteps:
    """The ``count`` steps from ``first`` on, all kernels, are executed ``trips`` times."""

    first: int
    count: int
    trips: int


@dataclass(frozen=True, slots=True)
class StepInfo:
    """What a step is, for people.

    Attributes:
        name: name of the operator instance.
        layers: the network's own layer names that were fused into it.
        op: what it computes, as one word or a few joined by ``+``.
        shapes: shapes of its inputs and outputs as text.
        flops: floating-point operations in one run of the program (all iterations of a loop).
        task: key of its tuning task.
        schedule: "record" (the best of a log), "release" (the best of a search on such a machine,
            which comes with the release), "model" (predicted, never measured) or "host" (no kernel:
            onnxruntime or onnx's reference computes it).
        bytes: of its inputs, constants and outputs, once for each execution; 0: not known.
        algorithm: a variant and its error; "" where the task is computed as it is written.
        unit: name of the tensor unit that most of it is computed on; "": plain vectors.
        written: bytes, of ``bytes``, of its outputs.
        functions: names of functions that are many instructions, and how often each of them is
            evaluated in one run of the program.
        computed: operations of the variant in one run of the program, where one is computed and has
            another number of them; 0: ``flops``.
    """

    name: str
    layers: tuple[str, ...] = ()
    op: str = ""
    shapes: str = ""
    flops: float = 0.0
    task: str = ""
    schedule: str = ""
    bytes: float = 0.0
    algorithm: str = ""
    unit: str = ""
    written: float = 0.0
    functions: tuple[tuple[str, float], ...] = ()
    computed: float = 0.0

    @property
    def operations(self) -> float:
        """What the kernel computes in one run of the program; ``flops`` is what is asked for."""
        return self.computed or self.flops


def schedule_label(schedule: str, algorithm: str) -> str:
    """Where a schedule comes from, and what it computes by, for people."""
    label = _SCHEDULE_LABELS.get(schedule, "")
    computes = schedule in ("record", "release", "model")
    return f"{label}: {algorithm or 'as written'}" if computes else label


@dataclass(frozen=True, slots=True)
class Step:
    """Call ``symbol`` with a table of pointers: the kernel's arguments, then its workspaces.

    ``sizes``: bytes that the kernel takes of each argument.
    """

    symbol: str
    arguments: tuple[Argument, ...]
    info: StepInfo
    sizes: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class HostStep:
    """Evaluate a piece of an ONNX model.

    Attributes:
        payload: name of the serialized model among the module's payloads.
        inputs: type and place of each input, in order.
        outputs: index among the evaluation's results, type and place of each that is used.
    """

    payload: str
    inputs: tuple[tuple[TensorSpec, Place], ...]
    outputs: tuple[tuple[int, TensorSpec, Place], ...]
    info: StepInfo


@dataclass(frozen=True, slots=True)
class ExecutionPlan:
    """Steps in execution order and the memory they work in.

    Attributes:
        inputs: specs of the inputs, in the order that segment "input" counts them.
        outputs: specs of the outputs, each with its place.  One that lies in segment "output"
            under its own number is written there by the steps, others are copied after the last.
        arena_bytes, constants_bytes: sizes of the two segments.
        loops: runs of steps that are executed several times, in order.
        denormals: what becomes of denormal numbers in kernels on a CPU.
    """

    name: str
    target: Target
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[tuple[TensorSpec, Place], ...]
    steps: tuple[Step | HostStep, ...]
    arena_bytes: int
    constants_bytes: int
    loops: tuple[RepeatedSteps, ...] = ()
    denormals: Denormals = "flush"

    @property
    def kernel_steps(self) -> tuple[Step, ...]:
        """The steps that are kernels."""
        return tuple(step for step in self.steps if isinstance(step, Step))

    @property
    def host_steps(self) -> tuple[HostStep, ...]:
        """The steps that run on the host."""
        return tuple(step for step in self.steps if isinstance(step, HostStep))
