"""The GPU of this machine, by the CUDA driver."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any, Final
from weakref import finalize

import numpy as np

from codegen.closeable import Closeable
from codegen.cuda.kernel import CudaKernel, Launch
from codegen.gpu.driver import Driver
from codegen.gpu.errors import DeviceError, DeviceLaunchError
from codegen.gpu.protocol import (
    Array,
    DeviceEvent,
    DeviceGraph,
    DeviceMemory,
    LoadedCode,
    LoadedLaunch,
)
from sketch.target.target import Target


class CudaEvent:
    """A CUDA event; see ``DeviceEvent``."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self.event = driver.make("cuEventDestroy", "cuEventCreate", 0)
        finalize(self, driver.give_back_quietly, "cuEventDestroy", self.event)

    def seconds_since(self, earlier: DeviceEvent) -> float:
        """Seconds by the GPU's clock; see ``DeviceEvent``."""
        assert isinstance(earlier, CudaEvent)
        earlier.synchronise()
        self.synchronise()
        return float(self._driver.call("cuEventElapsedTime", earlier.event, self.event)) * 1e-3

    def synchronise(self) -> None:
        """Wait for it."""
        self._driver.call("cuEventSynchronize", self.event)


class CudaGraph:
    """An executable CUDA graph; ``events`` are recorded in it.  Takes the captured ``graph``."""

    def __init__(self, driver: Driver, graph: Any, events: Sequence[CudaEvent]) -> None:
        self._events = events
        try:
            self.executable = driver.make("cuGraphExecDestroy", "cuGraphInstantiate", graph, 0)
        finally:
            driver.give_back_quietly("cuGraphDestroy", graph)
        self._end = finalize(self, driver.give_back_quietly, "cuGraphExecDestroy", self.executable)

    def close(self) -> None:
        """Give it back; a second call does nothing."""
        self._end()


class CudaStream:
    """A CUDA stream; see ``DeviceStream``.

    ``handle``: of a stream that somebody else made and destroys; None: a new one.
    """

    def __init__(self, driver: Driver, handle: int | None = None) -> None:
        self._driver = driver
        self._captured: list[CudaEvent] | None = None
        self._stream: Any = handle
        self._end: finalize[..., CudaStream] | None = None
        if handle is None:
            flags = driver.bindings.CUstream_flags.CU_STREAM_NON_BLOCKING
            self._stream = driver.make("cuStreamDestroy", "cuStreamCreate", int(flags))
            self._end = finalize(self, driver.give_back_quietly, "cuStreamDestroy", self._stream)

    @property
    def handle(self) -> int:
        """The CUDA stream's address."""
        return int(self._stream)

    def launch(self, code: LoadedLaunch, addresses: Sequence[int]) -> None:
        """Launch a kernel; see ``DeviceStream``."""
        parameters = (tuple(addresses), (ctypes.c_void_p,) * len(addresses))
        sizes = (code.launch.grid, 1, 1, code.launch.block, 1, 1, code.launch.shared_bytes)
        self._driver.call("cuLaunchKernel", code.handle, *sizes, self._stream, parameters, 0)

    def copy_in(self, address: int, array: Array) -> None:
        """Copy from the host; see ``DeviceStream``."""
        data = array.ctypes.data
        self._driver.call("cuMemcpyHtoDAsync", address, data, array.nbytes, self._stream)

    def copy_out(self, array: Array, address: int) -> None:
        """Copy to the host; see ``DeviceStream``."""
        data = array.ctypes.data
        self._driver.call("cuMemcpyDtoHAsync", data, address, array.nbytes, self._stream)

    def copy(self, target: int, source: int, size: int) -> None:
        """Copy inside the device; see ``DeviceStream``."""
        self._driver.call("cuMemcpyDtoDAsync", target, source, size, self._stream)

    def fill(self, address: int, value: int, size: int) -> None:
        """Set bytes; see ``DeviceStream``."""
        self._driver.call("cuMemsetD8Async", address, value, size, self._stream)

    def record(self) -> CudaEvent:
        """A new event; see ``DeviceStream``."""
        event = CudaEvent(self._driver)
        flags = self._driver.bindings.CUevent_record_flags
        external = flags.CU_EVENT_RECORD_EXTERNAL
        kind = flags.CU_EVENT_RECORD_DEFAULT if self._captured is None else external
        self._driver.call("cuEventRecordWithFlags", event.event, self._stream, int(kind))
        if self._captured is not None:
            self._captured.append(event)
        return event

    def wait(self, event: DeviceEvent) -> None:
        """Wait, on the device, for an event of another stream."""
        assert isinstance(event, CudaEvent)
        self._driver.call("cuStreamWaitEvent", self._stream, event.event, 0)

    def begin_capture(self) -> None:
        """Note what is submitted; see ``DeviceStream``."""
        # Memory of what Python collects meanwhile, in this thread, must not end the capture.
        mode = self._driver.bindings.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED
        self._driver.capture.acquire()
        try:
            self._driver.call("cuStreamBeginCapture", self._stream, mode)
        except BaseException:
            self._driver.capture.release()
            raise
        self._captured = []

    def end_capture(self) -> CudaGraph:
        """What was noted; see ``DeviceStream``."""
        events, self._captured = self._captured, None
        if events is None:
            raise DeviceError("this stream is not being captured", hint="call begin_capture first")
        try:
            graph = self._driver.make("cuGraphDestroy", "cuStreamEndCapture", self._stream)
        finally:
            self._driver.capture.release()
        return CudaGraph(self._driver, graph, events)

    def replay(self, graph: DeviceGraph) -> None:
        """Submit a graph."""
        assert isinstance(graph, CudaGraph)
        self._driver.call("cuGraphLaunch", graph.executable, self._stream)

    def synchronise(self) -> None:
        """Wait for everything in the stream."""
        self._driver.call("cuStreamSynchronize", self._stream)

    def close(self) -> None:
        """Destroy it, unless somebody else made it."""
        if self._end is not None:
            self._end()


class CudaDevice(Closeable):
    """The first GPU of this machine; see ``Device``.

    Args:
        target: what kernels are made for; the GPU must have its architecture.
        driver: its functions.

    Raises:
        DeviceLaunchError: the GPU has another architecture.
        DeviceError: the GPU does not work.
    """

    kind: Final = "gpu"

    def __init__(self, target: Target, driver: Driver) -> None:
        self._target, self._driver = target, driver
        here = arch_of(driver)
        if here != target.arch:
            raise DeviceLaunchError(
                f"the target is {target.arch}, the GPU of this machine is {here}",
                self.name,
                'use Target("cuda")',
            )
        driver.retain()

    @property
    def name(self) -> str:
        """What its maker calls it."""
        return self._driver.name

    @property
    def ordinal(self) -> int:
        """Its number; see ``Device``."""
        return self._driver.ordinal

    @property
    def target(self) -> Target:
        """What kernels must be made for."""
        return self._target

    @property
    def lost(self) -> bool:
        """Whether a kernel did something illegal; see ``Device``."""
        return bool(self._driver.lost)

    def memory(self) -> DeviceMemory:
        """Free and all bytes, those of other programs counted."""
        free, total = self._driver.call("cuMemGetInfo")
        return DeviceMemory(int(free), int(total))

    def allocate(self, size: int) -> int:
        """New memory; the driver's alignment is 256 or more."""
        return int(self._driver.make("cuMemFree", "cuMemAlloc", max(size, 1)))

    def free(self, address: int) -> None:
        """Give memory back; see ``Device``."""
        self._driver.give_back("cuMemFree", address)

    def host_array(self, size: int) -> Array:
        """Pinned memory, given back with the array, also after ``close``."""
        address = int(self._driver.make("cuMemFreeHost", "cuMemAllocHost", max(size, 1)))
        block = (ctypes.c_uint8 * max(size, 1)).from_address(address)
        finalize(block, self._driver.give_back_quietly, "cuMemFreeHost", address)
        return np.ctypeslib.as_array(block)[:size]

    def load(self, kernel: CudaKernel, expected_s: float) -> LoadedCode:
        """Load a cubin; see ``Device``.  ``expected_s`` is of no use: the GPU has a clock."""
        if not kernel.cubin:
            raise DeviceLaunchError("the kernel was made for the emulated device", kernel.name)
        module = self._driver.make("cuModuleUnload", "cuModuleLoadData", kernel.cubin)
        try:
            launches = tuple(
                LoadedLaunch(each, self._function(module, each)) for each in kernel.source.launches
            )
        except DeviceError:
            self._driver.give_back_quietly("cuModuleUnload", module)
            raise
        return LoadedCode(kernel, launches, module)

    def _function(self, module: Any, launch: Launch) -> Any:
        """What a launch calls, allowed as much shared memory as it asks for."""
        function = self._driver.call("cuModuleGetFunction", module, launch.symbol.encode())
        if launch.shared_bytes:
            attribute = self._driver.bindings.CUfunction_attribute
            most = attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            self._driver.call("cuFuncSetAttribute", function, most, launch.shared_bytes)
        return function

    def unload(self, code: LoadedCode) -> None:
        """Give the code back; see ``Device``."""
        self._driver.give_back("cuModuleUnload", code.handle)

    def stream(self) -> CudaStream:
        """A new stream that waits for no other."""
        return CudaStream(self._driver)

    def stream_of(self, handle: int) -> CudaStream:
        """A stream that the caller made."""
        return CudaStream(self._driver, handle)

    def synchronise(self) -> None:
        """Wait for everything on the device."""
        with self._driver.capture:
            self._driver.call("cuCtxSynchronize")

    def close(self) -> None:
        """Give everything back, and let go of the GPU; see ``Driver.close``."""
        self._driver.close()


def arch_of(driver: Driver) -> str:
    """The architecture of a GPU, ``sm_90``."""
    major = driver.attribute("COMPUTE_CAPABILITY_MAJOR")
    return f"sm_{major}{driver.attribute('COMPUTE_CAPABILITY_MINOR')}"
