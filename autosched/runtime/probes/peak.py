"""The peak of the machine, measured: chains of fused multiply-adds on every thread."""

from __future__ import annotations

import time
from functools import cache
from typing import Final

from autosched.runtime.probes.chains import CHAINS, load_chains, multiply_add
from autosched.runtime.probes.pinned_threads import best_seconds
from codegen.backend import check_runs
from sketch.target.target import Target

_TRIPS: Final = 1_000_000  # a few milliseconds, so that handing out the work does not show
_REPEATS: Final = 15


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
    fma = multiply_add(target.lanes(4))
    _library, run = load_chains(fma, target)
    seconds = best_seconds(lambda _: run(_TRIPS), target.threads, _REPEATS)
    return fma.operations * CHAINS * _TRIPS * target.threads / seconds


def chain_seconds(target: Target, samples: int) -> list[float]:
    """Seconds of equal work of a few milliseconds in the calling thread, one after another."""
    _library, run = load_chains(multiply_add(target.lanes(4)), target)
    run(_TRIPS)
    seconds = []
    for _ in range(samples):
        began = time.perf_counter()
        run(_TRIPS)
        seconds.append(time.perf_counter() - began)
    return seconds
