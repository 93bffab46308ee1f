"""A kernel on a device with its arguments in device memory: running it, and timing it by graphs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from codegen.closeable import Closeable
from codegen.cuda.kernel import CudaKernel
from codegen.errors import CodegenError
from codegen.gpu.protocol import (
    Array,
    Device,
    DeviceEvent,
    DeviceGraph,
    LoadedCode,
    capturing,
    submit,
)
from codegen.gpu.resident_arrays import ResidentArrays
from codegen.kernel import Argument


@dataclass(frozen=True, slots=True)
class _TimedGraph:
    """Runs with an event before and after them, all of it captured: the time that the CPU takes to
    submit a graph is not theirs.
    """

    graph: DeviceGraph
    before: DeviceEvent
    after: DeviceEvent


class DeviceKernel(Closeable):
    """A kernel that is loaded, with memory of its own; a context manager.

    A launch from Python takes longer than many a kernel, so runs are captured in graphs.

    Args:
        device: runs it.
        kernel: for the device's architecture.
        arrays: by argument: inputs and constants; outputs too where their memory is to hold
            something before the first run.
        expected_s: see ``Device.load``.
        resident: keeps copies of ``arrays`` that kernels share; None: this one gets its own.

    Raises:
        CodegenError: an input is missing or has a wrong size.
        DeviceError: the device cannot load the kernel, or has too little memory.
    """

    def __init__(
        self,
        device: Device,
        kernel: CudaKernel,
        arrays: Mapping[str, Array],
        expected_s: float = 0.0,
        resident: ResidentArrays | None = None,
    ) -> None:
        self._device, self._kernel = device, kernel
        self._stream = device.stream()
        self._graphs: dict[int, _TimedGraph] = {}
        self._addresses: dict[str, int] = {}
        self._own: list[int] = []
        self._resident = resident
        self._code: LoadedCode | None = device.load(kernel, expected_s)
        try:
            self._fill(arrays)
        except Exception:
            self.close()
            raise

    def close(self) -> None:
        """Free the device memory; a second call does nothing.

        On a device that is lost nothing can be freed.
        """
        code, self._code = self._code, None
        if code is None or self._device.lost:
            return
        self._stream.synchronise()
        for timed in self._graphs.values():
            timed.graph.close()
        for address in self._own:
            self._device.free(address)
        self._device.unload(code)
        self._stream.close()

    def seconds(self, runs: int = 1) -> float:
        """Seconds of ``runs`` executions one after another, by the device's clock."""
        return self._seconds(self._graph(runs))

    def seconds_after_filling(self, address: int, size: int) -> float:
        """Seconds of one execution after ``size`` bytes went through the caches."""
        timed = self._graph(1)
        self._stream.fill(address, 0, size)
        return self._seconds(timed)

    def run(self) -> dict[str, Array]:
        """Execute once; outputs by name, in the shapes of the arguments."""
        self.seconds()
        return self.results()

    def results(self) -> dict[str, Array]:
        """The outputs of the last execution, by name in the order of the arguments."""
        outputs = {
            argument.name: np.empty(argument.shape, argument.dtype)
            for argument in self._kernel.arguments
            if argument.scope == "output"
        }
        for name, array in outputs.items():
            self._stream.copy_out(array, self._addresses[name])
        self._stream.synchronise()
        return outputs

    def _seconds(self, timed: _TimedGraph) -> float:
        self._stream.replay(timed.graph)
        # The graph records its events when it runs: until then they have passed long ago.
        self._stream.synchronise()
        return timed.after.seconds_since(timed.before)

    def _graph(self, runs: int) -> _TimedGraph:
        assert self._code is not None
        if runs not in self._graphs:
            with capturing(self._stream) as graphs:
                before = self._stream.record()
                for _ in range(runs):
                    submit(self._stream, self._code, self._addresses)
                after = self._stream.record()
            self._graphs[runs] = _TimedGraph(graphs[0], before, after)
        return self._graphs[runs]

    def _fill(self, arrays: Mapping[str, Array]) -> None:
        for name, size in self._kernel.source.workspaces:
            self._addresses[name] = self._allocate(size)
        for argument in self._kernel.arguments:
            if argument.name in arrays:
                array = self._array(argument, arrays[argument.name])
                self._addresses[argument.name] = self._placed(argument, array)
            elif argument.scope != "output":
                raise CodegenError(f"no array for {argument.name}", self._kernel.name)
            else:
                size = int(np.prod(argument.shape, dtype=np.int64))
                itemsize = np.dtype(argument.dtype).itemsize
                self._addresses[argument.name] = self._allocate(size * itemsize)
        self._stream.synchronise()

    def _placed(self, argument: Argument, array: Array) -> int:
        """Where an argument is: with the others of the device, or, if it is written, on its own."""
        shared = None if self._resident is None else self._resident.address(array)
        if shared is not None and argument.scope != "output":
            return shared
        own = self._allocate(array.nbytes)
        if shared is None:
            self._stream.copy_in(own, array)
            self._stream.synchronise()  # the copy of a strided array ends with this call
        else:
            self._stream.copy(own, shared, array.nbytes)
        return own

    def _allocate(self, size: int) -> int:
        self._own.append(self._device.allocate(size))
        return self._own[-1]

    def _array(self, argument: Argument, given: Array) -> Array:
        array = np.ascontiguousarray(given, argument.dtype)
        if array.size != int(np.prod(argument.shape, dtype=np.int64)):
            raise CodegenError(
                f"{argument.name} has shape {array.shape}, the kernel needs {argument.shape}",
                self._kernel.name,
            )
        return array
