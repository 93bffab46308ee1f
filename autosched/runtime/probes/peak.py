"""The peak of the machine, measured: chains of fused multiply-adds on every thread."""

from __future__ import annotations

import time
from functools import cache
from typing import Final

from autosched.runtime.peaks import Peaks
from autosched.runtime.probes.chains import (
    CHAINS,
    ChainedInstruction,
    load_chains,
    multiply_add,
    unit_product,
)
from autosched.runtime.probes.pinned_threads import best_seconds
from autosched.runtime.probes.tile_chains import tile_peak
from codegen.backend import check_runs
from sketch.errors import TargetError
from sketch.target.target import Target
from sketch.target.units import units_of

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


@cache
def measured_unit_peak(target: Target, unit: str) -> float:
    """Operations a second of a tensor unit, by its name, all threads together.

    Raises:
        TargetError: not this machine, or it has no such unit.
    """
    check_runs(target, "measure the peak")
    found = next((known for known in units_of(target) if known.name == unit), None)
    if found is None:
        raise TargetError(f"{target.label} has no unit {unit}")
    return tile_peak(found, target) if found.tiles else _peak_of(unit_product(found), target)


def measured_peaks(target: Target) -> Peaks:
    """``measured_peak`` and that of each unit of the target.

    Raises:
        TargetError: not this machine.
    """
    units = {unit.name: measured_unit_peak(target, unit.name) for unit in units_of(target)}
    return Peaks(measured_peak(target), units)


def chained_peak(target: Target) -> float:
    """Floating-point operations a second of all threads of this machine, measured anew."""
    return _peak_of(multiply_add(target.lanes(4)), target)


def _peak_of(instruction: ChainedInstruction, target: Target) -> float:
    _library, run = load_chains(instruction, target)
    seconds = best_seconds(lambda _: run(_TRIPS), target.threads, _REPEATS)
    return instruction.operations * CHAINS * _TRIPS * target.threads / seconds


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
