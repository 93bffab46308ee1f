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

from benchmarks.contender import Prepared
from benchmarks.workloads import Workload

CHAINS = 12  # covers 4-5 cycles of latency on two units, and fits 16 registers
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
        engine = _compile(_kernel(lanes))
        kernel = ctypes.CFUNCTYPE(ctypes.c_float, ctypes.c_int64)(
            engine.get_function_address("fma_chains")
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


def _kernel(lanes: int) -> str:
    vector = f"<{lanes} x float>"
    zero = f"splat (float {_hex(0.0)})"
    fma = f"@llvm.fma.v{lanes}f32"
    chains = range(CHAINS)
    phis = [f"  %x{c} = phi {vector} [{zero}, %entry], [%y{c}, %loop]" for c in chains]
    factor, term = f"splat (float {_hex(0.5)})", f"splat (float {_hex(1.0)})"
    steps = [
        f"  %y{c} = call {vector} {fma}({vector} %x{c}, {vector} {factor}, {vector} {term})"
        for c in chains
    ]
    sums = [
        f"  %s{c} = fadd {vector} {'%y0' if c == 1 else f'%s{c - 1}'}, %y{c}"
        for c in range(1, CHAINS)
    ]
    return "\n".join(
        [
            f"declare {vector} {fma}({vector}, {vector}, {vector})",
            "define float @fma_chains(i64 %trips) {",
            "entry:",
            "  br label %loop",
            "loop:",
            "  %i = phi i64 [0, %entry], [%next, %loop]",
            *phis,
            *steps,
            "  %next = add i64 %i, 1",
            "  %more = icmp slt i64 %next, %trips",
            "  br i1 %more, label %loop, label %done",
            "done:",
            *sums,
            f"  %result = extractelement {vector} %s{CHAINS - 1}, i32 0",
            "  ret float %result",
            "}",
        ]
    )


def _hex(value: float) -> str:
    """LLVM's exact spelling of a float constant."""
    return f"0x{np.float64(value).view(np.uint64):016X}"


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
