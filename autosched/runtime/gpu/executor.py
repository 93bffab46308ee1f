"""Runs a program on a GPU: a captured graph for each run of kernels, host steps between them."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Any, Literal
from weakref import finalize

import numpy as np
from numpy.typing import NDArray

from autosched.host.evaluator import HostEvaluator
from autosched.runtime.gpu.device_array import DeviceArray
from autosched.runtime.gpu.graphs import Captured, Graphs, StepMark
from autosched.runtime.gpu.layout import Slot, caller_layout
from autosched.runtime.gpu.placement import Bases, executions
from autosched.runtime.gpu.resident import DeviceHold, Resident
from autosched.runtime.host_evaluators import host_evaluators
from autosched.runtime.memory import view
from autosched.runtime.program import ExecutionPlan, HostStep, Place, Step, TensorSpec
from codegen.gpu.alignment import DEVICE_ALIGNMENT
from codegen.gpu.errors import DeviceError
from codegen.gpu.protocol import capturing

if TYPE_CHECKING:
    from codegen.gpu.protocol import DeviceStream

Events = Literal["none", "ends", "steps"]
"""Where a graph records events: nowhere, before and after all that is in it, around each step."""


@dataclass(frozen=True, slots=True)
class _OnDevice:
    """The steps from ``first`` to before ``stop``: ``begins`` or ``ends`` the program there."""

    first: int
    stop: int
    begins: bool
    ends: bool


@dataclass(frozen=True, slots=True)
class _OnHost:
    """A host step, ready to be evaluated."""

    step: HostStep
    number: int
    evaluator: HostEvaluator


class DeviceExecutor:
    """The device memory and the stream of one caller, and the graphs that he replays.

    Calls at the same time need an executor each; they share code and constants.  What goes in and
    out passes pinned memory, inside the graphs; inputs that are on the device are read in place.

    Attributes:
        stream: what ``run`` submits to.
    """

    def __init__(self, resident: Resident, payloads: Mapping[str, bytes]) -> None:
        """``payloads``: ONNX models of the host steps by name."""
        self._resident, self._program = resident, resident.program
        device = resident.device
        self._layout = caller_layout(self._program)
        self.stream = device.stream()
        self._graphs = Graphs()
        self._memory = device.allocate(max(1, self._layout.device_bytes))
        # From here on, so that the memory is given back also where the rest fails.
        finalize(self, _give_back, resident.hold, self.stream, self._graphs, self._memory)
        self._pinned: NDArray[np.uint8] = device.host_array(max(1, self._layout.host_bytes))
        self._parts = _parts(self._program, payloads, bool(self._layout.outputs))
        self._segments = {"arena": self._memory, "constants": resident.address}
        self._own = {n: self._memory + offset for n, offset in self._layout.inputs.items()}
        self._bound: tuple[Any, ...] = ()
        self._wait = False
        self._bases = Bases(self._segments, ())
        self._host: dict[int, NDArray[Any]] = {}

    def bind(self, arrays: Mapping[str, Any], foreign: bool = False) -> None:
        """Let the steps read these arrays: NumPy arrays, or such that are on the device.

        ``foreign``: the caller orders what writes arrays on the device; else all of that is waited
        for.
        """
        self.stream.synchronise()  # the pinned memory may still be read, see ``wait_for``
        self._bound = tuple(arrays[spec.name] for spec in self._program.inputs)
        addresses = [0] * len(self._bound)
        for number, own in self._own.items():
            addresses[number] = self._bind(number, self._bound[number], own)
        there = not foreign and any(isinstance(array, DeviceArray) for array in self._bound)
        if there or self._wait:
            self._resident.device.synchronise()
            self._wait = False
        self._bases = Bases(self._segments, tuple(addresses))
        self._host.clear()

    def _bind(self, number: int, array: Any, own: int) -> int:
        if isinstance(array, DeviceArray) and array.address % DEVICE_ALIGNMENT == 0:
            return array.address
        if isinstance(array, DeviceArray):
            array = array.numpy()
        self._view(self._layout.staged[number])[...] = array
        return own

    def run(self) -> None:
        """Execute all steps; waits for them.

        Raises:
            HostError: a host step failed.
            DeviceError: the device did.
        """
        for part in self._parts:
            if isinstance(part, _OnDevice):
                self.stream.replay(self._graph(part).graph)
            else:
                self._evaluate(part, self.stream)
        self.stream.synchronise()

    def submit(self, stream: DeviceStream) -> None:
        """Execute all steps in a stream of the caller's, leaving the outputs on the device.

        Waits only before host steps, for what they read.
        """
        for part in self._parts:
            if isinstance(part, _OnDevice):
                stream.replay(self._graph(part, copies=False).graph)
            else:
                self._evaluate(part, stream)

    def run_clocked(self) -> float:
        """Execute all steps; seconds on the device's clock, and of host steps on this machine's.

        Copies of inputs and outputs count; what it takes to submit a graph does not, for its events
        are in it.
        """
        seconds, marks = 0.0, list[StepMark]()
        for part in self._parts:
            if isinstance(part, _OnDevice):
                captured = self._graph(part, "ends")
                self.stream.replay(captured.graph)
                marks += captured.marks
            else:
                seconds += self._evaluate_clocked(part)
        self.stream.synchronise()
        return seconds + sum(mark.after.seconds_since(mark.before) for mark in marks)

    def run_timed(self) -> NDArray[np.float64]:
        """Execute all steps; seconds of each, float64 ``[steps]``.

        A step of a loop takes the time of all its iterations.
        """
        seconds = np.zeros(len(self._program.steps))
        for part in self._parts:
            if isinstance(part, _OnHost):
                seconds[part.number] = self._evaluate_clocked(part)
                continue
            captured = self._graph(part, "steps")
            self.stream.replay(captured.graph)
            self.stream.synchronise()
            for mark in captured.marks:
                seconds[mark.step] += mark.after.seconds_since(mark.before)
        return seconds

    @property
    def events_of_steps(self) -> NDArray[np.int64]:
        """How many events ``run_timed`` records behind the executions of each step, [steps]."""
        found = np.zeros(len(self._program.steps), np.int64)
        for part in self._parts:
            if isinstance(part, _OnDevice):
                for mark in self._graph(part, "steps").marks:
                    found[mark.step] += 1
        return found

    def results(self) -> dict[str, NDArray[Any]]:
        """New arrays with the outputs of the last ``run``, by name; lets go of its inputs."""
        found = {}
        for number, (spec, place) in enumerate(self._program.outputs):
            slot = self._layout.outputs.get(number)
            array = self._array(spec, place) if slot is None else self._view(slot)
            found[spec.name] = array.copy()
        self._release()
        return found

    def results_on_device(self, owner: Any) -> dict[str, Any]:
        """The outputs of the last ``submit``: on the device where it computed them.

        They stay as they are as long as ``owner`` lives, which each of them refers to.  What a host
        step, an input or a constant gives as it is, is a new NumPy array.
        """
        found: dict[str, Any] = {}
        for number, (spec, place) in enumerate(self._program.outputs):
            if number in self._layout.outputs:
                found[spec.name] = DeviceArray(
                    self._bases.of(place), spec.shape, spec.dtype, self._resident.device, owner
                )
            else:
                found[spec.name] = self._array(spec, place).copy()
        self._release()
        return found

    def wait_for(self, stream: DeviceStream | None) -> None:
        """Let the next run wait for what a stream of the caller's still does; None: for all.

        Waits for nothing now: Python may collect what ends a lease while this thread captures, and
        waiting for all streams would end the capture.
        """
        if stream is None:
            self._wait = True
        else:
            self.stream.wait(stream.record())

    def _release(self) -> None:
        self._bound = ()
        self._host.clear()

    def _graph(self, part: _OnDevice, events: Events = "none", copies: bool = True) -> Captured:
        """The graph of a part for the inputs that are bound; captured where it is new."""
        key = (part, events, copies, self._bases.inputs)
        return self._graphs.get(key, partial(self._capture, part, events, copies))

    def _capture(self, part: _OnDevice, events: Events, copies: bool) -> Captured:
        stream = self.stream
        with capturing(stream) as graphs:
            before = stream.record() if events == "ends" else None
            if part.begins:
                self._copy_inputs(stream)
            marks = list(self._launch(part, stream, events == "steps"))
            if part.ends and copies:
                self._copy_outputs(stream)
            if before is not None:
                marks.append(StepMark(part.first, before, stream.record()))
        return Captured(graphs[0], tuple(marks))

    def _copy_inputs(self, stream: DeviceStream) -> None:
        for number, own in self._own.items():
            size = self._layout.staged[number].spec.size_bytes
            if size and self._bases.inputs[number] == own:
                stream.copy_in(own, self._pinned[self._layout.staged[number].bytes])

    def _copy_outputs(self, stream: DeviceStream) -> None:
        for number, slot in self._layout.outputs.items():
            _, place = self._program.outputs[number]
            if slot.spec.size_bytes:
                stream.copy_out(self._pinned[slot.bytes], self._bases.of(place))

    def _launch(self, part: _OnDevice, stream: DeviceStream, timed: bool) -> Iterator[StepMark]:
        before = stream.record() if timed else None
        for run in executions(self._program, part.first, part.stop):
            addresses = [self._bases.at(a, run.iteration) for a in run.step.arguments]
            buffers = dict(zip(self._resident.buffers[run.step.symbol], addresses, strict=True))
            for launch in self._resident.code[run.step.symbol].launches:
                stream.launch(launch, [buffers[name] for name in launch.launch.buffers])
            if before is not None:
                after = stream.record()
                yield StepMark(run.number, before, after)
                before = after

    def _evaluate_clocked(self, part: _OnHost) -> float:
        """Evaluate a host step when all before it is done; seconds, copies included."""
        self.stream.synchronise()
        start = time.perf_counter()
        self._evaluate(part, self.stream)
        self.stream.synchronise()
        return time.perf_counter() - start

    def _evaluate(self, part: _OnHost, stream: DeviceStream) -> None:
        step, evaluator = part.step, part.evaluator
        fetched = [spec.size_bytes > 0 and place.segment == "arena" for spec, place in step.inputs]
        for (spec, place), fetch in zip(step.inputs, fetched, strict=True):
            if fetch:
                slot = self._layout.values[part.number, place, spec]
                stream.copy_out(self._pinned[slot.bytes], self._bases.of(place))
        if any(fetched):
            stream.synchronise()
        values = evaluator.run([self._operand(part.number, s, p) for s, p in step.inputs])
        for index, spec, place in step.outputs:
            value = evaluator.result(values, index, spec.shape, spec.dtype)
            if place.segment == "host":
                # A copy: the evaluation may have returned its own input.
                self._host[place.offset] = value.copy()
            else:
                slot = self._layout.values[part.number, place, spec]
                self._view(slot)[...] = value
                if spec.size_bytes:
                    stream.copy_in(self._bases.of(place), self._pinned[slot.bytes])

    def _operand(self, number: int, spec: TensorSpec, place: Place) -> NDArray[Any]:
        if place.segment == "arena":
            return self._view(self._layout.values[number, place, spec])
        return self._array(spec, place)

    def _array(self, spec: TensorSpec, place: Place) -> NDArray[Any]:
        """A value that is in CPU memory, or an input wherever it is."""
        if place.segment == "input":
            bound = self._bound[place.offset]
            array = bound.numpy() if isinstance(bound, DeviceArray) else bound
            return np.require(array, requirements="C").reshape(spec.shape)
        if place.segment == "host":
            return self._host[place.offset].reshape(spec.shape)
        return view(self._resident.constants, place.offset, spec.dtype, spec.shape)

    def _view(self, slot: Slot) -> NDArray[Any]:
        return view(self._pinned, slot.offset, slot.spec.dtype, slot.spec.shape)


def _parts(
    program: ExecutionPlan, payloads: Mapping[str, bytes], copies: bool
) -> tuple[_OnDevice | _OnHost, ...]:
    """The steps, consecutive kernels taken together; ``copies``: outputs are to be copied."""
    parts: list[_OnDevice | _OnHost] = []
    evaluators = host_evaluators(program.steps, payloads)
    spans: list[tuple[int, int]] = []
    steps = enumerate(program.steps)
    for native, members in groupby(steps, key=lambda pair: isinstance(pair[1], Step)):
        group = list(members)
        if native:
            spans.append((group[0][0], group[-1][0] + 1))
            parts.append(_OnDevice(*spans[-1], len(spans) == 1, False))
            continue
        for number, step in group:
            assert isinstance(step, HostStep)
            parts.append(_OnHost(step, number, evaluators[step.payload]))
    return tuple(_with_end(parts, len(program.steps), copies))


def _with_end(
    parts: list[_OnDevice | _OnHost], stop: int, copies: bool
) -> list[_OnDevice | _OnHost]:
    """The last part copies the outputs: one without kernels where the last step is the host's."""
    last = parts[-1] if parts else None
    if isinstance(last, _OnDevice):
        return [*parts[:-1], _OnDevice(last.first, last.stop, last.begins, True)]
    return [*parts, _OnDevice(stop, stop, False, True)] if copies else parts


def _give_back(hold: DeviceHold, stream: DeviceStream, graphs: Graphs, memory: int) -> None:
    """What a caller had, once the device is through with it."""
    with suppress(DeviceError):
        stream.synchronise()
        graphs.close()
        stream.close()
        hold.device.free(memory)
