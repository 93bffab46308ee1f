"""The peak of the machine, measured: independent chains of fused multiply-adds on every thread."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable
from functools import cache
from typing import Final

import numpy as np

from autosched.runtime.probes.pinned_threads import best_seconds
from codegen.backend import check_runs
from codegen.kernel import Kernel
from codegen.llvm.jit import Library, load
from codegen.llvm.machine import emit_object
from sketch.target.target import Target

# Covers 4-5 cycles of latency on two FMA units; with their operands they fit 16 registers.
CHAINS: Final = 12
_TRIPS: Final = 1_000_000  # a few milliseconds, so that handing out the work does not show
_REPEATS: Final = 15
SYMBOL: Final = "fma_chains"


def measured_peak(target: Target) -> float:
    """Floating-point operations a second in float32, all threads of ``target`` together.

    Takes about 100 ms; the threads are pinned as those of a kernel are.

    Raises:
        TargetError: not this machine.
    """
    check_runs(target, "measure the peak")
    return _known(target)


@cache
def _known(target: Target) -> float:
    return chained_peak(target)


def chained_peak(target: Target) -> float:
    """Floating-point operations a second of all threads of this machine, measured anew."""
    _library, run = _chains(target)
    seconds = best_seconds(lambda _: run(_TRIPS), target.threads, _REPEATS)
    return 2.0 * CHAINS * target.lanes(4) * _TRIPS * target.threads / seconds


def chain_seconds(target: Target, samples: int) -> list[float]:
    """Seconds of equal work of a few milliseconds in the calling thread, one after another."""
    _library, run = _chains(target)
    run(_TRIPS)
    seconds = []
    for _ in range(samples):
        began = time.perf_counter()
        run(_TRIPS)
        seconds.append(time.perf_counter() - began)
    return seconds


def _chains(target: Target) -> tuple[Library, Callable[[int], float]]:
    """The function of trips; it lives as long as its library."""
    text = fma_chains(target.lanes(4))
    kernel = Kernel("fma_peak", SYMBOL, emit_object(text, target), (), 0, target, CHAINS)
    library = load([kernel])
    return library, ctypes.CFUNCTYPE(ctypes.c_float, ctypes.c_int64)(library.address(SYMBOL))


def fma_chains(lanes: int) -> str:
    """LLVM IR of a function from trips (int64) to float: trips times ``CHAINS`` vector FMAs."""
    vector, chains = f"<{lanes} x float>", range(CHAINS)
    fma = f"@llvm.fma.v{lanes}f32"
    factor, term = (f"splat (float {_exact(value)})" for value in (0.5, 1.0))
    phis = [f"  %x{c} = phi {vector} [zeroinitializer, %entry], [%y{c}, %loop]" for c in chains]
    steps = [
        f"  %y{c} = call {vector} {fma}({vector} %x{c}, {vector} {factor}, {vector} {term})"
        for c in chains
    ]
    sums = [
        f"  %s{c} = fadd {vector} {'%y0' if c == 1 else f'%s{c - 1}'}, %y{c}" for c in chains[1:]
    ]
    return "\n".join([
        f"declare {vector} {fma}({vector}, {vector}, {vector})",
        f"define float @{SYMBOL}(i64 %trips) {{",
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
    ])  # fmt: skip


def _exact(value: float) -> str:
    """LLVM's exact spelling of a float constant."""
    return f"0x{np.float64(value).view(np.uint64):016X}"
