"""What our code asks of a GPU; ``real`` and ``emulated`` answer.

Addresses are ints in device memory, so that a caller can lay out an arena by itself.  Work is
ordered inside a stream, and only by events and ``synchronise`` between streams.  Everything may be
called from several threads at a time, one stream from one thread at a time.

Each of these methods raises ``DeviceError``: ``DeviceLostError`` once a kernel did something
illegal, and from then on always.  A kernel's own fault is often seen only by a later call.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Literal, Protocol, Self

from numpy.typing import NDArray

from codegen.cuda.kernel import CudaKernel, Launch
from codegen.gpu.errors import DeviceError
from sketch.target.target import Target

DeviceKind = Literal["gpu", "emulated"]
"""The GPU of this machine, or the emulated one: this CPU's results, an estimate's times."""

Array = NDArray[Any]


@dataclass(frozen=True, slots=True)
class DeviceMemory:
    """Bytes of a device's memory."""

    free: int
    total: int


@dataclass(frozen=True, slots=True)
class LoadedLaunch:
    """One kernel launch that a device can make; ``handle`` is the device's own."""

    launch: Launch
    handle: Any


@dataclass(frozen=True, slots=True)
class LoadedCode:
    """A kernel that a device has loaded.

    Attributes:
        kernel: what was loaded.
        launches: in order, as ``kernel.source.launches``; together they are one run.
        handle: the device's own.
    """

    kernel: CudaKernel
    launches: tuple[LoadedLaunch, ...]
    handle: Any


class DeviceEvent(Protocol):
    """A point in a stream."""

    def seconds_since(self, earlier: DeviceEvent) -> float:
        """Seconds on the device's clock from ``earlier``; waits for both."""
        ...

    def synchronise(self) -> None:
        """Wait until the stream has come here."""
        ...


class DeviceGraph(Protocol):
    """Work that was captured, to be submitted as a whole."""

    def close(self) -> None:
        """Give it back; a second call does nothing."""
        ...


class DeviceStream(Protocol):
    """A queue of work on a device.

    Between ``begin_capture`` and ``end_capture`` work is noted instead of done; addresses and host
    arrays must then be valid at every replay.  An event that is recorded in a capture is recorded
    anew by every replay.
    """

    @property
    def handle(self) -> int:
        """The CUDA stream, for other libraries; 0 on an emulated device."""
        ...

    def launch(self, code: LoadedLaunch, addresses: Sequence[int]) -> None:
        """Launch one kernel on buffers, in the order of ``code.launch.buffers``."""
        ...

    def copy_in(self, address: int, array: Array) -> None:
        """Copy a C-contiguous host array to the device.

        Asynchronous only from ``Device.host_array``; the array must stay as it is until then.
        """
        ...

    def copy_out(self, array: Array, address: int) -> None:
        """Copy from the device to a C-contiguous host array; see ``copy_in``."""
        ...

    def copy(self, target: int, source: int, size: int) -> None:
        """Copy ``size`` bytes inside device memory; the ranges do not overlap."""
        ...

    def fill(self, address: int, value: int, size: int) -> None:
        """Set ``size`` bytes to ``value`` (0 to 255)."""
        ...

    def record(self) -> DeviceEvent:
        """A new event behind everything submitted so far."""
        ...

    def wait(self, event: DeviceEvent) -> None:
        """Let what is submitted from now on wait for an event of another stream."""
        ...

    def begin_capture(self) -> None:
        """Note what is submitted from now on."""
        ...

    def end_capture(self) -> DeviceGraph:
        """What was noted since ``begin_capture``."""
        ...

    def replay(self, graph: DeviceGraph) -> None:
        """Submit a graph of this device."""
        ...

    def synchronise(self) -> None:
        """Wait until everything submitted is done."""
        ...

    def close(self) -> None:
        """Give the stream back once its work is done; a second call does nothing."""
        ...


class Device(Protocol):
    """One GPU, as this process uses it; a context manager that closes it.

    Raises (when it is opened):
        TargetError: there is no such device; the message says what to install or change.
    """

    @property
    def kind(self) -> DeviceKind:
        """Whether times are real."""
        ...

    @property
    def name(self) -> str:
        """What its maker calls it, ``NVIDIA H200``."""
        ...

    @property
    def ordinal(self) -> int:
        """Which of this process's GPUs it is, as CUDA and DLPack count; 0 where it is emulated."""
        ...

    @property
    def target(self) -> Target:
        """What kernels must be made for."""
        ...

    @property
    def lost(self) -> bool:
        """Whether a kernel did something illegal: nothing works any more in this process."""
        ...

    def memory(self) -> DeviceMemory:
        """Bytes that are free and that there are."""
        ...

    def allocate(self, size: int) -> int:
        """The address of ``size`` new bytes, a multiple of ``DEVICE_ALIGNMENT``.

        Raises:
            DeviceMemoryError: not so much is free.
        """
        ...

    def free(self, address: int) -> None:
        """Give back what ``allocate`` returned, once all work is done that uses it."""
        ...

    def host_array(self, size: int) -> Array:
        """uint8 [size], host memory that copies from and to the device need not wait for."""
        ...

    def load(self, kernel: CudaKernel, expected_s: float) -> LoadedCode:
        """Make a kernel ready to launch.

        Args:
            kernel: for this device's architecture.
            expected_s: seconds that one run of all its launches is thought to take: by so much the
                clock of an emulated device advances; a real device has a clock of its own.

        Raises:
            DeviceLaunchError: the code is for another architecture, or cannot be loaded.
        """
        ...

    def unload(self, code: LoadedCode) -> None:
        """Give back a kernel's code, once all work is done that uses it."""
        ...

    def stream(self) -> DeviceStream:
        """A new stream."""
        ...

    def stream_of(self, handle: int) -> DeviceStream:
        """A stream that the caller made: a CUDA stream's handle; closing it leaves it alone."""
        ...

    def synchronise(self) -> None:
        """Wait until everything submitted to all streams is done."""
        ...

    def close(self) -> None:
        """Give everything back; a second call does nothing."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...


@contextmanager
def capturing(stream: DeviceStream) -> Iterator[list[DeviceGraph]]:
    """Capture what the ``with`` block submits; the graph is in the list at its end.

    After an exception the stream captures no more.
    """
    graphs: list[DeviceGraph] = []
    stream.begin_capture()
    try:
        yield graphs
    except BaseException:
        with suppress(DeviceError):
            stream.end_capture().close()
        raise
    graphs.append(stream.end_capture())


def submit(stream: DeviceStream, code: LoadedCode, addresses: dict[str, int]) -> None:
    """Submit one run of a kernel; ``addresses`` of its arguments and workspaces by name."""
    for launch in code.launches:
        stream.launch(launch, [addresses[name] for name in launch.launch.buffers])
