"""The timing child of a GPU: kernels on a device, timed by its own clock."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Final

from autosched.measure.bind import named_arrays, named_error
from autosched.measure.channel import Channel
from autosched.measure.child import serve
from autosched.measure.device_lock import lock_device
from autosched.measure.messages import TimingSetup
from autosched.measure.result import CacheState, constant_state
from autosched.measure.task_memory import TaskMemory
from autosched.measure.timing_worker import TimingWorker
from codegen.cuda.kernel import CudaKernel
from codegen.file_cache import user_cache
from codegen.gpu.device_kernel import DeviceKernel
from codegen.gpu.open import device_identity, open_device
from codegen.gpu.protocol import Device
from codegen.gpu.resident_arrays import ResidentArrays
from sketch.dag.dag import ComputeDAG
from sketch.population.population import from_rows
from sketch.schedule.decision import DecisionId
from sketch.schedule.sketch import Sketch
from sketch.target.target import Target

# A GPU that had nothing to do for so long runs at a lower clock, and takes so long to be back.
_IDLE_S: Final = 0.1
_WAKE_S: Final = 0.05
# What is shorter runs so often in a graph where one run is asked for, or clocks are to rise.
_SHORT_S: Final = 100e-6
_SHORT_RUNS: Final = 16
# Caches hold nothing of what they held once so many times their size went through them.
_FLUSH_SIZES: Final = 2
# Copies of a task's arrays that stay on the device.
_KEPT_BYTES: Final = 1 << 30
_KEPT_SHARE: Final = 0.25  # of its memory
_LOCKS: Final = "devices"
_SHORTEST_S: Final = 1e-9


class GpuBench:
    """Runs kernels on the device of ``target``; see ``Bench``.

    Raises:
        TargetError: there is no such device.
        MeasureError: another process measures on it.
    """

    def __init__(self, target: Target) -> None:
        if not target.card.emulated:  # any number of devices can be emulated
            name = f"gpu-{device_identity(target)}"
            self._lock = lock_device(user_cache(_LOCKS).folder / name)
        self._device: Device = open_device(target)
        self._flush_bytes = _FLUSH_SIZES * target.l2_bytes
        self._flush_address: int | None = None
        self._last_run = -float("inf")
        most = min(_KEPT_BYTES, int(_KEPT_SHARE * self._device.memory().total))
        self._arrays = ResidentArrays(self._device, most)

    def copies(self, dag: ComputeDAG) -> int:
        """One: caches are flushed instead."""
        return 1

    def load(
        self,
        kernel: CudaKernel,
        memory: TaskMemory,
        sketch: Sketch,
        values: Mapping[DecisionId, int],
    ) -> DeviceKernel:
        """The kernel with its arrays on the device; see ``Bench``.

        Kernels of a task share copies of what they read.
        """
        arrays = named_arrays(kernel, memory, sketch, values)
        shared = self._arrays if memory.fixed else None
        return DeviceKernel(self._device, kernel, arrays, expected_seconds(sketch, values), shared)

    def run(self, loaded: DeviceKernel, runs: int, state: CacheState) -> float:
        """Mean seconds of ``runs`` executions, by the device's clock.

        In another state than "warm" the L2 is filled with something else before each run.  Of a
        short kernel one run means several: the events around it take as long as it does.
        """
        self._wake_up(loaded)
        if constant_state(state) == "warm":
            seconds = loaded.seconds(runs)
            if runs == 1 and seconds < _SHORT_S and self._device.kind != "emulated":
                runs = _SHORT_RUNS
                seconds = loaded.seconds(runs)
        else:
            seconds = sum(self._cold_seconds(loaded) for _ in range(runs))
        self._last_run = time.monotonic()
        return max(seconds, _SHORTEST_S) / runs

    def forget(self) -> None:
        """Free the copies of the arrays of a task."""
        self._arrays.clear()

    def waiting(self) -> float:
        """1: the device's own clock sees no process wait."""
        return 1.0

    def error(self, memory: TaskMemory, loaded: DeviceKernel) -> float:
        """The relative error of the last run's results."""
        return named_error(memory, list(loaded.results().values()))

    def unload(self, loaded: DeviceKernel) -> None:
        """Free the device memory."""
        loaded.close()

    def _cold_seconds(self, loaded: DeviceKernel) -> float:
        if self._flush_address is None:
            self._flush_address = self._device.allocate(self._flush_bytes)
        return loaded.seconds_after_filling(self._flush_address, self._flush_bytes)

    def _wake_up(self, loaded: DeviceKernel) -> None:
        """Run a kernel for a while after a pause, until the clocks are up.

        Once first: a slow kernel takes the time that is left to its candidate.
        """
        if self._device.kind == "emulated" or time.monotonic() - self._last_run < _IDLE_S:
            return
        each_s = spent_s = max(loaded.seconds(1), _SHORTEST_S)
        while spent_s < _WAKE_S:
            runs = _SHORT_RUNS if spent_s + _SHORT_RUNS * each_s <= _WAKE_S else 1
            taken_s = max(loaded.seconds(runs), _SHORTEST_S)
            each_s, spent_s = taken_s / runs, spent_s + taken_s


def expected_seconds(sketch: Sketch, values: Mapping[DecisionId, int]) -> float:
    """The draft model's time of one candidate: by so much an emulated clock advances."""
    from costmodel.extract import draft_seconds

    return float(draft_seconds(from_rows(sketch, [dict(values)]), once=True)[0])


def serve_gpu_timing(channel: Channel, setup: TimingSetup) -> None:
    """Answer timing requests until the channel closes."""
    serve(channel, TimingWorker(setup.options, lambda: GpuBench(setup.target)).methods)
