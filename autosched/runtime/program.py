"""A compiled network as plain data: everything but the machine code and the constants' bytes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Final, Literal, Self

import numpy as np
from numpy.typing import NDArray

from autosched.element_types import element_bytes
from autosched.runtime.errors import ModuleFileError
from sketch.target import Target

Segment = Literal["arena", "constants", "input", "host"]
SEGMENTS: Final = ("arena", "constants", "input", "host")
PROGRAM_VERSION: Final = 4
SCHEDULE_LABELS: Final = {"record": "tuned", "model": "model only", "host": "on the host"}


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

    In segment "input", ``offset`` is the number of an input, whose own array is used in place.
    In segment "host" it is the number of a NumPy array that only host steps write and read: one
    of a dtype that kernels do not know, or without elements.
    """

    segment: Segment
    offset: int


@dataclass(frozen=True, slots=True)
class Moving:
    """A value that lies elsewhere in each iteration of a loop.

    Iteration ``i`` finds it ``start + stride * (i % period)`` bytes after ``place``.

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
class Loop:
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
        schedule: "record" (the best of a log), "model" (predicted, never measured) or "host"
            (no kernel: onnxruntime or onnx's reference computes it).
        bytes: of its inputs, constants and outputs, once for each execution; 0 where nobody knows.
    """

    name: str
    layers: tuple[str, ...] = ()
    op: str = ""
    shapes: str = ""
    flops: float = 0.0
    task: str = ""
    schedule: str = ""
    bytes: float = 0.0


@dataclass(frozen=True, slots=True)
class Step:
    """Call ``symbol`` with a table of pointers: the kernel's arguments, then its workspace."""

    symbol: str
    arguments: tuple[Argument, ...]
    info: StepInfo


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
class Program:
    """Steps in execution order and the memory they work in.

    Attributes:
        inputs: specs of the inputs, in the order that segment "input" counts them.
        outputs: specs of the outputs, each with its place.
        arena_bytes, constants_bytes: sizes of the two segments.
        loops: runs of steps that are executed several times, in order.
    """

    name: str
    target: Target
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[tuple[TensorSpec, Place], ...]
    steps: tuple[Step | HostStep, ...]
    arena_bytes: int
    constants_bytes: int
    loops: tuple[Loop, ...] = ()

    @property
    def kernel_steps(self) -> tuple[Step, ...]:
        """The steps that are kernels."""
        return tuple(step for step in self.steps if isinstance(step, Step))

    @property
    def host_steps(self) -> tuple[HostStep, ...]:
        """The steps that run on the host."""
        return tuple(step for step in self.steps if isinstance(step, HostStep))

    def to_json(self) -> dict[str, Any]:
        """All of it as JSON values."""
        return {
            "version": PROGRAM_VERSION,
            "name": self.name,
            "target": self.target.to_json(),
            "inputs": [_spec_json(spec) for spec in self.inputs],
            "outputs": [
                _spec_json(spec) | {"place": [place.segment, place.offset]}
                for spec, place in self.outputs
            ],
            "steps": [_step_json(step) for step in self.steps],
            "arena_bytes": self.arena_bytes,
            "constants_bytes": self.constants_bytes,
            "loops": [[loop.first, loop.count, loop.trips] for loop in self.loops],
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """The inverse of ``to_json``; raises ModuleFileError on anything else."""
        version = data.get("version") if isinstance(data, Mapping) else None
        if version != PROGRAM_VERSION:
            raise ModuleFileError(
                f"module format {version!r}, this release reads {PROGRAM_VERSION}",
                hint="compile the network again with this release, or update autosched",
            )
        try:
            return cls(
                name=str(data["name"]),
                target=Target.from_json(data["target"]),
                inputs=tuple(_spec_from(spec) for spec in data["inputs"]),
                outputs=tuple(
                    (_spec_from(spec), _place_from(spec["place"])) for spec in data["outputs"]
                ),
                steps=tuple(_step_from(step) for step in data["steps"]),
                arena_bytes=int(data["arena_bytes"]),
                constants_bytes=int(data["constants_bytes"]),
                loops=tuple(Loop(*map(int, loop)) for loop in data["loops"]),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise ModuleFileError(f"the module's plan is damaged: {error!r}") from error


def _spec_json(spec: TensorSpec) -> dict[str, Any]:
    return {"name": spec.name, "shape": list(spec.shape), "dtype": spec.dtype}


def _spec_from(data: Mapping[str, Any]) -> TensorSpec:
    shape = tuple(int(extent) for extent in data["shape"])
    return TensorSpec(str(data["name"]), shape, str(data["dtype"]))


def _place_json(place: Place) -> list[Any]:
    return [place.segment, place.offset]


def _place_from(data: Any) -> Place:
    segment, offset = data
    if segment not in SEGMENTS:
        raise ValueError(f"no segment {segment!r}")
    return Place(segment, int(offset))


def _argument_json(argument: Argument) -> Any:
    if isinstance(argument, Place):
        return _place_json(argument)
    first = None if argument.first is None else _place_json(argument.first)
    return {
        "place": _place_json(argument.place),
        "start": argument.start,
        "stride": argument.stride,
        "period": argument.period,
        "first": first,
    }


def _argument_from(data: Any) -> Argument:
    if not isinstance(data, Mapping):
        return _place_from(data)
    first = None if data["first"] is None else _place_from(data["first"])
    start, stride, period = (int(data[name]) for name in ("start", "stride", "period"))
    if period < 0:
        raise ValueError(f"a period of {period}")
    return Moving(_place_from(data["place"]), start, stride, period, first)


def _step_json(step: Step | HostStep) -> dict[str, Any]:
    info = {item.name: getattr(step.info, item.name) for item in fields(step.info)}
    if isinstance(step, Step):
        places = [_argument_json(argument) for argument in step.arguments]
        return {"symbol": step.symbol, "arguments": places, "info": info}
    inputs = [[_spec_json(spec), _place_json(place)] for spec, place in step.inputs]
    outputs = [[n, _spec_json(spec), _place_json(place)] for n, spec, place in step.outputs]
    return {"payload": step.payload, "inputs": inputs, "outputs": outputs, "info": info}


def _step_from(data: Mapping[str, Any]) -> Step | HostStep:
    info = StepInfo(**{**data["info"], "layers": tuple(data["info"]["layers"])})
    if "payload" not in data:
        places = tuple(_argument_from(argument) for argument in data["arguments"])
        return Step(str(data["symbol"]), places, info)
    return HostStep(
        payload=str(data["payload"]),
        inputs=tuple((_spec_from(spec), _place_from(place)) for spec, place in data["inputs"]),
        outputs=tuple(
            (int(n), _spec_from(spec), _place_from(place)) for n, spec, place in data["outputs"]
        ),
        info=info,
    )
