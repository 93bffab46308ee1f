"""What a GPU can do at best: measured, or the numbers of its data sheet where it is emulated."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack, closing
from functools import partial
from typing import TYPE_CHECKING, Final

from autosched.runtime.explanation import Machine
from autosched.runtime.memory_plan import align
from codegen.cuda.kernel import CudaKernel, CudaSource, Launch
from codegen.cuda.nvrtc import compile_source
from codegen.gpu.alignment import DEVICE_ALIGNMENT
from codegen.gpu.protocol import capturing
from codegen.kernel import Argument
from sketch.lang.dtypes import size_of
from sketch.target.units import units_of

if TYPE_CHECKING:
    from codegen.gpu.protocol import Device, DeviceStream
    from sketch.target.target import Target

WAKE_S: Final = 0.1
"""So long a GPU that was idle works until its clocks are up."""

CHAINS: Final = 8  # independent multiply-adds of a thread, twice what hides their latency
TRIPS: Final = 20_000  # about a millisecond: launching does not show
_THREADS: Final = 256
_BLOCKS_EACH: Final = 8  # of a processor: as many threads as it holds
_COPIES: Final = 20
_EVENTS: Final = 64
_REPEATS: Final = 5
_LEAST_BYTES: Final = 1 << 25  # smaller copies measure how fast copies start


def nominal_machine(target: Target, working_bytes: int) -> Machine:
    """The numbers of the data sheet."""
    card = target.card
    return Machine(
        2.0 * target.threads * card.fma_lanes * card.hertz,
        card.memory_bytes_per_s,
        working_bytes,
        target.threads,
        on_gpu=True,
        units=nominal_units(target),
        note="nominal numbers of the card, not measured",
    )


def nominal_units(target: Target) -> dict[str, float]:
    """Operations a second of the tensor units of a card, by its data sheet."""
    processors, card = 2.0 * target.threads, target.card
    return {
        unit.name: processors * card.unit_macs(size_of(unit.lhs)) * card.hertz
        for unit in units_of(target)
    }


def device_machine(device: Device, working_bytes: int) -> Machine:
    """A device: measured, which takes some 0.3 s, or nominal where it is emulated.

    Raises:
        DeviceError: the device fails, or has no room.
    """
    if device.kind == "emulated":
        return nominal_machine(device.target, working_bytes)
    size = max(working_bytes, _LEAST_BYTES)
    return Machine(
        measured_flops(device),
        measured_bandwidth(device, size),
        size,
        device.target.threads,
        on_gpu=True,
        units=nominal_units(device.target),
        note=f"copying inside {size / 1e6:.4g} MB again and again: the memory of this network",
    )


def measured_bandwidth(device: Device, size: int) -> float:
    """Bytes a second, read and written, of copies from one half of ``size`` bytes to the other."""
    half = align(size // 2, DEVICE_ALIGNMENT)
    memory = device.allocate(2 * half)

    def copies(stream: DeviceStream) -> None:
        for _ in range(_COPIES):
            stream.copy(memory + half, memory, half)

    try:
        return 2.0 * half * _COPIES / _best_seconds(device, copies)
    finally:
        device.free(memory)


def measured_flops(device: Device, trips: int = TRIPS) -> float:
    """float32 operations a second of chains of multiply-adds in registers, on all processors."""
    target = device.target
    blocks = _BLOCKS_EACH * target.threads
    flops = 2.0 * CHAINS * trips * _THREADS * blocks
    with ExitStack() as stack:
        code = device.load(_chains(target, blocks, trips), flops / nominal_machine(target, 0).flops)
        stack.callback(device.unload, code)
        out = device.allocate(DEVICE_ALIGNMENT)
        stack.callback(device.free, out)
        return flops / _best_seconds(device, lambda s: s.launch(code.launches[0], [out]))


def event_seconds(device: Device) -> float:
    """Seconds that an event between two kernels of a graph adds to them; 0 where it is emulated.

    Raises:
        DeviceError: the device fails, or has no room.
    """
    if device.kind == "emulated":
        return 0.0
    with ExitStack() as stack:
        code = device.load(_chains(device.target, 1, 1), 0.0)
        stack.callback(device.unload, code)
        out = device.allocate(DEVICE_ALIGNMENT)
        stack.callback(device.free, out)

        def launches(stream: DeviceStream, events: int) -> None:
            for number in range(_EVENTS):
                stream.launch(code.launches[0], [out])
                if number < events:
                    stream.record()

        both, plain = (
            _best_seconds(device, partial(launches, events=events)) for events in (_EVENTS, 0)
        )
    return max(0.0, both - plain) / _EVENTS


def _best_seconds(device: Device, work: Callable[[DeviceStream], None]) -> float:
    """Seconds of what ``work`` submits, as a graph: the fastest of a few once clocks are up."""
    with closing(device.stream()) as stream:
        with capturing(stream) as graphs:
            before = stream.record()
            work(stream)
            after = stream.record()
        with closing(graphs[0]) as graph:
            found: list[float] = []
            stop = time.monotonic() + (0.0 if device.kind == "emulated" else WAKE_S)
            while len(found) < _REPEATS or time.monotonic() < stop:
                stream.replay(graph)
                stream.synchronise()
                found.append(after.seconds_since(before))
    return min(found[-_REPEATS:])


def _chains(target: Target, blocks: int, trips: int) -> CudaKernel:
    chains = range(CHAINS)
    lines = [
        'extern "C" __global__ void fma_chains_0(float* out) {',
        *(f"  float x{c} = threadIdx.x + {c}.0f;" for c in chains),
        f"  for (int trip = 0; trip < {trips}; ++trip) {{",
        *(f"    x{c} = x{c} * 0.5f + 1.0f;" for c in chains),
        "  }",
        f"  const float sum = {' + '.join(f'x{c}' for c in chains)};",
        "  if (sum < 0.0f) out[0] = sum;",  # never, which no compiler knows
        "}",
    ]
    launch = Launch("fma_chains_0", blocks, _THREADS, ("out",), ("float*",))
    out = Argument("out", "float32", (1,), "output")
    source = CudaSource("fma_chains", "\n".join(lines) + "\n", (launch,), (out,), ())
    cubin, resources = compile_source(source, target.arch)
    return CudaKernel(source, target, cubin, resources)
