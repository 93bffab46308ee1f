"""The device itself: what it says, the bandwidth of copies and the rate of multiply-adds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from autosched.runtime.gpu.machine import TRIPS, measured_bandwidth, measured_flops, nominal_machine
from benchmarks.gpu_parts.bench import Bench
from benchmarks.gpu_parts.row_log import Row
from codegen.gpu.open import open_device

_COPIED_BYTES: Final = 1 << 30
_SMALL_BYTES: Final = 1 << 20


def run(bench: Bench) -> Iterator[Row]:
    """Three rows; rates are compared with those of the data sheet."""
    with open_device(bench.target) as device:
        memory, target = device.memory(), device.target
        yield {
            "name": "device",
            "done": True,
            "what": device.name,
            "arch": target.arch,
            "processors": target.threads,
            "l2_bytes": target.l2_bytes,
            "free_bytes": memory.free,
            "total_bytes": memory.total,
        }
        nominal = nominal_machine(target, 0)
        size = _SMALL_BYTES if bench.small else _COPIED_BYTES
        bandwidth = measured_bandwidth(device, size)
        yield {
            "name": "copy_bandwidth",
            "done": True,
            "gb_per_s": bandwidth / 1e9,
            "nominal_gb_per_s": nominal.bandwidth / 1e9,
            "ratio": bandwidth / nominal.bandwidth,
            "rival": "data sheet",
            "copied_bytes": size,
        }
        flops = measured_flops(device, 1 if bench.small else TRIPS)
        yield {
            "name": "fma_peak",
            "done": True,
            "gflops": flops / 1e9,
            "nominal_gflops": nominal.flops / 1e9,
            "ratio": flops / nominal.flops,
            "rival": "data sheet",
        }
