"""A program on a GPU, real or emulated: executors for callers."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from weakref import finalize

import numpy as np
from numpy.typing import NDArray

from autosched.runtime.bound import repeated
from autosched.runtime.counters.counts import StepCounts
from autosched.runtime.errors import AssemblyError
from autosched.runtime.gpu.device_array import DeviceArray, read_array
from autosched.runtime.gpu.executor import DeviceExecutor
from autosched.runtime.gpu.machine import WAKE_S, device_machine, event_seconds
from autosched.runtime.gpu.resident import Resident
from autosched.runtime.loaded import Arrays, Outputs
from autosched.runtime.peaks import Peaks
from codegen.gpu.errors import DeviceError

if TYPE_CHECKING:
    from autosched.runtime.explanation import Machine
    from codegen.gpu.protocol import DeviceStream

# Executors that wait for a caller; others are given back, with their arenas.
_MOST_IDLE = 4


class DeviceCalls:
    """What one caller has to itself."""

    def __init__(
        self, executor: DeviceExecutor, emulated: bool, event_s: Callable[[], float]
    ) -> None:
        """``event_s``: what an event between two kernels adds to the time of the first."""
        self._executor, self._emulated, self._event_s = executor, emulated, event_s

    def once(self, arrays: Arrays, given: Outputs | None = None) -> Outputs:
        """New arrays with the outputs: what leaves the device is copied in any case."""
        self._executor.bind(arrays)
        self._executor.run()
        return self._executor.results()

    def time(self, arrays: Arrays, repeats: int, warmup: int) -> list[float]:
        """Seconds of every run: on the device's clock, host steps on this machine's.

        An emulated device is asked once: its clock says the same in all runs.
        """
        self._executor.bind(arrays)
        if self._emulated:
            return [self._executor.run_clocked()] * repeats
        self._warm_up(warmup)
        return [self._executor.run_clocked() for _ in range(repeats)]

    def time_steps(
        self, arrays: Arrays, repeats: int
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Seconds end to end, float64 ``[repeats]``, and of every step, ``[repeats, steps]``.

        The two are of different runs: what times steps is not in the run that is timed as a whole,
        and what it adds to kernels is taken off again.
        """
        self._executor.bind(arrays)
        if self._emulated:
            total = np.full(repeats, self._executor.run_clocked())
            return total, np.tile(self._executor.run_timed(), (repeats, 1))
        self._executor.run_timed()  # captures
        self._warm_up()
        pairs = [(self._executor.run_clocked(), self._executor.run_timed()) for _ in range(repeats)]
        steps = np.array([seconds for _, seconds in pairs])
        added = self._event_s() * self._executor.events_of_steps
        return np.array([total for total, _ in pairs]), np.maximum(steps - added, 0.1 * steps)

    def _warm_up(self, runs: int = 0) -> None:
        """Run so often at least, and for so long that the clocks of an idle GPU are up."""
        self._executor.run_clocked()  # captures
        stop = time.monotonic() + WAKE_S
        while runs > 0 or time.monotonic() < stop:
            self._executor.run()
            runs -= 1

    def count_steps(self, arrays: Arrays, repeats: int) -> StepCounts:
        """None: see the note."""
        return StepCounts((), (), "counters are those of the CPU; kernels run on a GPU")


class DeviceProgram:
    """A ``LoadedProgram`` whose kernels run on a device."""

    def __init__(self, resident: Resident, payloads: Mapping[str, bytes]) -> None:
        """``payloads``: ONNX models of the host steps by name."""
        self._resident, self._payloads = resident, payloads
        self._idle = deque([self._new_executor()], maxlen=_MOST_IDLE)
        self._machine: Machine | None = None
        self._event_s: float | None = None

    @contextmanager
    def call(self) -> Iterator[DeviceCalls]:
        """Memory and a stream for the calls of the ``with`` block.

        What an exception has left in the middle of a run is given back to the device.
        """
        executor = self._take()
        emulated = self._resident.device.kind == "emulated"
        yield DeviceCalls(executor, emulated, self._event_seconds)
        self._idle.append(executor)

    def bind(self, arrays: Arrays, given: Outputs) -> Callable[[], None]:
        """A function that computes, and copies the outputs into the ``given`` arrays."""
        return repeated(self, arrays, given)

    def submit(self, arrays: Arrays, handle: int | None) -> dict[str, Any]:
        """Run, and leave the outputs on the device.

        Args:
            arrays: the inputs.
            handle: a CUDA stream that everything is submitted to, without waiting for the end;
                None: a stream of our own, whose end is waited for.
        """
        executor = self._take()
        executor.bind(arrays, foreign=handle is not None)
        device = self._resident.device
        stream = executor.stream if handle is None else device.stream_of(handle)
        if handle is not None:
            stream.wait(executor.stream.record())
        executor.submit(stream)
        if handle is None:
            stream.synchronise()
        owner = _Lease()
        found = executor.results_on_device(owner)
        finalize(owner, self._end_lease, executor, None if handle is None else stream)
        return found

    def read(self, value: Any, where: str) -> NDArray[Any] | DeviceArray:
        """An array that is no NumPy array; in place where it is on the device."""
        return read_array(value, self._resident.device, where)

    def pin_threads(self, cores: Sequence[int] | None) -> None:
        """Raises AssemblyError."""
        raise AssemblyError(
            "no threads of this machine compute: the kernels run on a GPU", "pin_threads"
        )

    def peaks(self) -> Peaks:
        """Operations a second: measured, or nominal where the device is emulated."""
        return Peaks(self.machine().flops, self.machine().units)

    def machine(self) -> Machine:
        """The device, with the tensor units that are used: measured once, or nominal where it is
        emulated.
        """
        if self._machine is None:
            program = self._resident.program
            size = program.arena_bytes + program.constants_bytes
            found = device_machine(self._resident.device, size)
            used = {step.info.unit for step in program.kernel_steps}
            units = {unit: flops for unit, flops in found.units.items() if unit in used}
            self._machine = replace(found, units=units)
        return self._machine

    def _event_seconds(self) -> float:
        if self._event_s is None:
            self._event_s = event_seconds(self._resident.device)
        return self._event_s

    def _take(self) -> DeviceExecutor:
        try:
            return self._idle.pop()
        except IndexError:
            return self._new_executor()

    def _new_executor(self) -> DeviceExecutor:
        return DeviceExecutor(self._resident, self._payloads)

    def _end_lease(self, executor: DeviceExecutor, stream: DeviceStream | None) -> None:
        """Nobody has its outputs any more; what was submitted to read them may still run.

        A stream that its owner has destroyed meanwhile may, too.
        """
        with suppress(DeviceError):
            try:
                executor.wait_for(stream)
            except DeviceError:
                executor.wait_for(None)
            self._idle.append(executor)


class _Lease:
    """Lives as long as somebody has the outputs of a call."""
