"""The peak of the machine: independent chains of fused multiply-adds, one thread a core.

It is a contender like any other, so that every row's share of the peak comes from the same run.
"""

from __future__ import annotations

import ctypes
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np

from autosched.runtime.probes.peak import CHAINS, SYMBOL, fma_chains
from benchmarks.contender import Prepared
from benchmarks.workloads import Workload

TRIPS = 8_000_000  # 10-20 ms a run, so that handing out the work is below 1 %
NAME = "fma_peak"


@dataclass(frozen=True, slots=True)
class FmaPeak:
    """Runs on every workload, and ignores it."""

    name: str = NAME

    def supports(self, workload: Workload) -> bool:
        return True

    def prepare(self, workload: Workload, threads: int) -> Prepared:
        """Compile the kernel for this CPU and pin one Python thread to each core."""
        lanes = vector_lanes()
        engine = _compile(fma_chains(lanes))
        kernel = ctypes.CFUNCTYPE(ctypes.c_float, ctypes.c_int64)(
            engine.get_function_address(SYMBOL)
        )
        cores = iter(sorted(os.sched_getaffinity(0))[:threads])
        pool = ThreadPoolExecutor(threads, initializer=lambda: _pin_thread(next(cores)))

        def run() -> None:
            list(pool.map(kernel, [TRIPS] * threads))

        flops = np.array([flops_per_run(lanes, threads)], np.float32)
        return Prepared(run, lambda: {"flops": flops}, f"{lanes} lanes", keep_alive=engine)


def flops_per_run(lanes: int, threads: int) -> float:
    """Floating-point operations of one run over all threads."""
    return 2.0 * CHAINS * lanes * TRIPS * threads


def vector_lanes() -> int:
    """Floats in the widest SIMD register of this CPU."""
    from llvmlite import binding

    features = binding.get_host_cpu_features()
    if features.get("avx512f"):
        return 16
    return 8 if features.get("avx") else 4


def _pin_thread(core: int) -> None:
    os.sched_setaffinity(0, [core])


def _compile(text: str) -> Any:
    from llvmlite import binding

    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    machine = binding.Target.from_default_triple().create_target_machine(
        cpu=binding.get_host_cpu_name(),
        features=binding.get_host_cpu_features().flatten(),
        opt=2,
    )
    module = binding.parse_assembly(text)
    module.verify()
    engine = binding.create_mcjit_compiler(module, machine)
    engine.finalize_object()
    return engine
