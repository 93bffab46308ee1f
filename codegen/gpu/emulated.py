"""A GPU that this machine's CPU stands in for: right results, estimated times.

Work is done at once, as it is submitted; the clock of a stream advances by what its caller expects
of each kernel.  A kernel that reads an illegal address ends the process, unless it is checked.
"""

from __future__ import annotations

import ctypes
from bisect import bisect_right, insort
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from threading import RLock
from typing import Final

import numpy as np

from codegen.closeable import Closeable
from codegen.cuda.kernel import CudaKernel
from codegen.errors import CodegenError
from codegen.file_cache import FileCache, user_cache
from codegen.gpu.alignment import DEVICE_ALIGNMENT
from codegen.gpu.emulation.checked import checked_launches
from codegen.gpu.emulation.library import (
    EMULATION,
    EmulationError,
    host_memory,
    load_launches,
    missing_emulator,
)
from codegen.gpu.errors import DeviceError, DeviceLaunchError, DeviceLostError, DeviceMemoryError
from codegen.gpu.protocol import (
    Array,
    DeviceEvent,
    DeviceGraph,
    DeviceMemory,
    LoadedCode,
    LoadedLaunch,
)
from sketch.errors import TargetError
from sketch.target.target import Target


@dataclass(frozen=True, slots=True, eq=False)
class _Kernel:
    """What an emulated device keeps of a launch."""

    run: Callable[[Sequence[int]], None]
    seconds: float


@dataclass(slots=True, eq=False)
class EmulatedEvent:
    """A point in a stream; ``at_s`` on the device's clock."""

    at_s: float = 0.0

    def seconds_since(self, earlier: DeviceEvent) -> float:
        """Seconds on the device's clock; see ``DeviceEvent``."""
        assert isinstance(earlier, EmulatedEvent)
        return self.at_s - earlier.at_s

    def synchronise(self) -> None:
        """Nothing to wait for."""


@dataclass(slots=True, eq=False)
class EmulatedGraph:
    """What was submitted, to be done again."""

    work: list[Callable[[], object]] = field(default_factory=list)

    def close(self) -> None:
        """Forget the work."""
        self.work.clear()


class EmulatedStream:
    """A queue whose work is done at once; see ``DeviceStream``."""

    def __init__(self, device: EmulatedDevice) -> None:
        self._device = device
        self._clock_s = 0.0
        self._captured: EmulatedGraph | None = None

    @property
    def handle(self) -> int:
        """0: there is no CUDA stream."""
        return 0

    def launch(self, code: LoadedLaunch, addresses: Sequence[int]) -> None:
        """Run a kernel; see ``DeviceStream``."""
        buffers = tuple(addresses)

        def run() -> None:
            self._device.run(code, buffers)
            self._clock_s += code.handle.seconds

        self._do(run)

    def copy_in(self, address: int, array: Array) -> None:
        """Copy from the host; see ``DeviceStream``."""
        self._move(address, array.ctypes.data, array.nbytes)

    def copy_out(self, array: Array, address: int) -> None:
        """Copy to the host; see ``DeviceStream``."""
        self._do(lambda: ctypes.memmove(array.ctypes.data, address, array.nbytes))

    def copy(self, target: int, source: int, size: int) -> None:
        """Copy inside the device; see ``DeviceStream``."""
        self._move(target, source, size)
        self._do(lambda: self._spend(2 * size))

    def fill(self, address: int, value: int, size: int) -> None:
        """Set bytes; see ``DeviceStream``."""

        def run() -> None:
            self._device.fill(address, value, size)
            self._spend(size)

        self._do(run)

    def record(self) -> EmulatedEvent:
        """A new event; see ``DeviceStream``."""
        event = EmulatedEvent()

        def run() -> None:
            event.at_s = self._clock_s

        self._do(run)
        return event

    def wait(self, event: DeviceEvent) -> None:
        """Let the clock pass an event of another stream."""
        assert isinstance(event, EmulatedEvent)
        other = event

        def run() -> None:
            self._clock_s = max(self._clock_s, other.at_s)

        self._do(run)

    def begin_capture(self) -> None:
        """Note what is submitted; see ``DeviceStream``.

        Raises:
            DeviceError: the stream is being captured.
        """
        if self._captured is not None:
            raise DeviceError("this stream is being captured already")
        self._captured = EmulatedGraph()

    def end_capture(self) -> EmulatedGraph:
        """What was noted; see ``DeviceStream``.

        Raises:
            DeviceError: the stream is not being captured.
        """
        graph, self._captured = self._captured, None
        if graph is None:
            raise DeviceError("this stream is not being captured", hint="call begin_capture first")
        return graph

    def replay(self, graph: DeviceGraph) -> None:
        """Do what a graph has noted, in this stream's time."""
        assert isinstance(graph, EmulatedGraph)
        for work in graph.work:
            self._do(work)

    def synchronise(self) -> None:
        """Raise DeviceLostError if a kernel did something illegal; nothing to wait for."""
        self._device.check()

    def close(self) -> None:
        """Nothing to give back."""

    def _do(self, work: Callable[[], object]) -> None:
        self._device.check()
        if self._captured is not None:
            self._captured.work.append(work)
        else:
            work()

    def _move(self, target: int, source: int, size: int) -> None:
        def run() -> None:
            self._device.move(target, source, size)

        self._do(run)

    def _spend(self, size: int) -> None:
        """Let the time pass that moving ``size`` bytes of device memory takes."""
        self._clock_s += size / self._device.target.card.memory_bytes_per_s


class EmulatedDevice(Closeable):
    """The emulated device of a GPU target; see ``Device``.

    A kernel that ran on some buffers is not run again on them as long as nothing wrote to them
    since: it is a function of its inputs, and only the clock advances.  So a graph of many copies
    costs one.

    Args:
        target: a GPU with a card's numbers.  Where its card is checked, every access to memory is,
            in a process of its own, some hundred times slower: races and illegal accesses lose the
            device, with a message that says where.
        cache: where compiled programs are kept; None: the user's.

    Raises:
        TargetError: there is no C++ compiler.
    """

    kind: Final = "emulated"
    ordinal: Final = 0

    def __init__(self, target: Target, cache: FileCache | None = None) -> None:
        missing = missing_emulator()
        if missing is not None:
            raise TargetError(missing)
        self._target, self._checked = target, target.card.checked
        self._cache = cache or user_cache(EMULATION)
        self._blocks: dict[int, Array] = {}
        self._used = 0
        self._starts: list[int] = []  # of the blocks, ascending
        # What ran, and the blocks of its buffers.
        self._done: dict[tuple[object, ...], frozenset[int | None]] = {}
        self._lost = ""
        # Memory, and what is known of it, change together.
        self._lock = RLock()

    @property
    def name(self) -> str:
        """What stands in for what."""
        return f"emulated {self._target.card.name or self._target.arch}"

    @property
    def target(self) -> Target:
        """The GPU that is emulated."""
        return self._target

    @property
    def lost(self) -> bool:
        """Whether a kernel did something illegal; see ``Device``."""
        return bool(self._lost)

    def check(self) -> None:
        """Raise DeviceLostError once a kernel did something illegal."""
        if self._lost:
            raise DeviceLostError(self._lost, self.name, "use the device in a new process")

    def memory(self) -> DeviceMemory:
        """As much as the card has."""
        total = self._target.card.memory_bytes
        return DeviceMemory(total - self._used, total)

    def allocate(self, size: int) -> int:
        """New memory; see ``Device``.

        Raises:
            DeviceMemoryError: there are too few free bytes, on the device or on this machine.
        """
        self.check()
        free = self.memory().free
        if size > free:
            raise DeviceMemoryError(
                f"{size} bytes of device memory are wanted, {free} are free",
                self.name,
                "use smaller shapes, or a card with more memory",
            )
        block = host_memory(size + DEVICE_ALIGNMENT)
        address = -(-int(block.ctypes.data) // DEVICE_ALIGNMENT) * DEVICE_ALIGNMENT
        with self._lock:
            self._blocks[address] = block
            insort(self._starts, address)
            self._used += size
        return address

    def free(self, address: int) -> None:
        """Give memory back; see ``Device``."""
        with self._lock:
            self._done.clear()
            self._starts.remove(address)
            self._used -= self._blocks.pop(address).nbytes - DEVICE_ALIGNMENT

    def host_array(self, size: int) -> Array:
        """uint8 [size]; all memory is the host's."""
        return np.empty(size, np.uint8)

    def load(self, kernel: CudaKernel, expected_s: float) -> LoadedCode:
        """Compile a kernel's text, or find it compiled; see ``Device``.

        Raises:
            DeviceLaunchError: the code is for another architecture, or cannot be loaded.
        """
        self.check()
        if kernel.target.arch != self._target.arch:
            raise DeviceLaunchError(
                f"the code is for {kernel.target.arch}, the device is {self._target.arch}",
                kernel.name,
            )
        source, cache = kernel.source, self._cache
        wanted = max((launch.shared_bytes for launch in source.launches), default=0)
        if wanted > self._target.most_shared_bytes:
            raise DeviceLaunchError(f"a block wants {wanted} bytes of shared memory", kernel.name)
        try:
            if self._checked:
                runs = [each.run_at for each in checked_launches(source, cache)]
            else:
                runs = [each.run for each in load_launches(source, cache)]
        except (CodegenError, OSError) as error:
            raise DeviceLaunchError(f"the kernel cannot be loaded: {error}", kernel.name) from error
        made = [_Kernel(run, expected_s / max(1, len(runs))) for run in runs]
        return LoadedCode(kernel, tuple(map(LoadedLaunch, source.launches, made)), made)

    def unload(self, code: LoadedCode) -> None:
        """Libraries stay in the process: they are small, and may be wanted again."""

    def stream(self) -> EmulatedStream:
        """A new stream."""
        return EmulatedStream(self)

    def stream_of(self, handle: int) -> EmulatedStream:
        """A new stream: an emulated device has none that others could have made."""
        return EmulatedStream(self)

    def synchronise(self) -> None:
        """Raise DeviceLostError if a kernel did something illegal; nothing to wait for."""
        self.check()

    def close(self) -> None:
        """Give all memory back."""
        self._blocks.clear()
        self._starts.clear()
        self._done.clear()
        self._used = 0

    def run(self, code: LoadedLaunch, addresses: tuple[int, ...]) -> None:
        """Run a launch, unless it would do what it did; used by streams."""
        launch, kernel = code.launch, code.handle
        written = [
            address
            for address, kind in zip(addresses, launch.parameters, strict=True)
            if not kind.startswith("const ")
        ]

        def run() -> None:
            try:
                kernel.run(addresses)
            except EmulationError as error:
                self._lost = error.what

        self._once((kernel, launch.symbol, *addresses), addresses, written, run)

    def fill(self, address: int, value: int, size: int) -> None:
        """Set bytes, unless they are set; used by streams."""
        key = ("fill", address, value, size)
        self._once(key, [address], [address], lambda: ctypes.memset(address, value, size))

    def move(self, target: int, source: int, size: int) -> None:
        """Copy bytes, after which kernels must run again; used by streams."""
        with self._lock:
            self._done.clear()
            ctypes.memmove(target, source, size)

    def _once(
        self,
        key: tuple[object, ...],
        used: Sequence[int],
        written: Sequence[int],
        work: Callable[[], object],
    ) -> None:
        """Do work that is a function of the memory it reads, unless that was done."""
        with self._lock:
            blocks = {address: self._block(address) for address in used}
            if None in blocks.values():
                self._lost = f"{key[1]} reads or writes an illegal address"
                return
            if key in self._done:
                return
            changed = {blocks[address] for address in written}
            done = self._done.items()
            self._done = {known: others for known, others in done if not others & changed}
            self._done[key] = frozenset(blocks.values())
            work()

    def _block(self, address: int) -> int | None:
        """The start of the allocation that an address is in."""
        place = bisect_right(self._starts, address) - 1
        if place < 0:
            return None
        start = self._starts[place]
        size = self._blocks[start].nbytes - DEVICE_ALIGNMENT
        return start if address < start + max(size, 1) else None
