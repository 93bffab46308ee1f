"""How much timings of this machine differ from one another while nothing changes."""

from __future__ import annotations

from collections.abc import Sequence

from autosched.doctor.finding import Finding
from autosched.runtime.probes.calibrate import current_calibration
from autosched.runtime.probes.peak import chain_seconds
from autosched.system.stability import MOST_DEVIATION, Conditions, Stability, Watch
from sketch.target.target import Target

_SAMPLES = 100  # of a few milliseconds each


def noise(target: Target) -> Finding:
    """Time the same work again and again, in one thread, for about half a second."""
    with Watch() as watch:
        seconds = chain_seconds(target, _SAMPLES)
    return noise_of(seconds, watch.conditions)


def noise_of(seconds: Sequence[float], conditions: Conditions) -> Finding:
    """What the times of equal work say, and what else the CPUs did."""
    stability = Stability.of(seconds, conditions)
    if not stability.unstable:
        return Finding("noise", "ok", str(stability))
    return Finding(
        "noise", "advice", str(stability),
        "tune while nothing else runs; `taskset -c` keeps other programs off some CPUs "
        f"(deviations above {MOST_DEVIATION:.0%} hide small gains)".replace("%", " %"),
    )  # fmt: skip


def calibration() -> Finding:
    """Whether the rates of this machine were measured."""
    found = current_calibration()
    if found is None:
        return Finding(
            "calibration", "advice", "nominal rates",
            "on an idle machine, once: autosched calibrate (untuned code gets better)",
        )  # fmt: skip
    if found.disturbed:
        return Finding(
            "calibration", "advice", f"measured while the machine was busy: {found.conditions}",
            "on an idle machine: autosched calibrate",
        )  # fmt: skip
    return Finding("calibration", "ok", "the rates of this machine were measured")
