"""The processor: its SIMD instructions, the CPUs that we may use, their clocks."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from autosched.doctor.finding import Finding, text_of
from autosched.measure.pinning import siblings
from codegen.control_groups import PROCESS
from codegen.cpu_share import cpu_quota
from sketch.target.target import Target

_CPUS: Final = Path("/sys/devices/system/cpu")
_SHORTEST_BYTES: Final = 32  # of AVX2; x86 has had it since 2013
_FASTEST: Final = "performance"


def simd(target: Target) -> Finding:
    """The vectors of this machine's CPU target."""
    bits, count = 8 * target.vector_bytes, target.registers
    found = f"{target.arch}: {count} registers of {bits} bits"
    if "sse" in target.features and target.vector_bytes < _SHORTEST_BYTES:
        return Finding(
            "SIMD", "advice", f"{found}, no AVX2",
            "a virtual machine may hide what its host has: give it the host's CPU model",
        )  # fmt: skip
    return Finding("SIMD", "ok", found)


def cpus(process: Path = PROCESS) -> Finding:
    """CPUs of the affinity, and the quota of the control groups.

    ``process``: folder of this process in ``/proc``.
    """
    count, quota = len(os.sched_getaffinity(0)), cpu_quota(process)
    found = f"{count} of {os.cpu_count()} CPUs"
    if math.isinf(quota):
        return Finding("CPUs", "ok", f"{found}, no quota")
    found += f", a quota of {quota:g}"
    if quota >= count:
        return Finding("CPUs", "ok", found)
    return Finding(
        "CPUs", "advice", found,
        "threads beyond the quota are stopped in the middle of kernels: give the container whole "
        "CPUs (docker --cpuset-cpus) rather than a share of their time (--cpus)",
    )  # fmt: skip


def cores(numbers: Sequence[int] | None = None) -> Finding:
    """Whether the CPUs that we may use are cores of their own.

    ``numbers``: of the CPUs; None: those of this process.
    """
    mine = sorted(os.sched_getaffinity(0)) if numbers is None else numbers
    count = len({siblings(cpu) for cpu in mine})
    found = f"{len(mine)} CPUs on {count} cores"
    if count == len(mine):
        return Finding("cores", "ok", found)
    return Finding(
        "cores", "advice", found,
        f"two threads of a core share its SIMD units: compare --threads {count} with the default",
    )  # fmt: skip


def pinning() -> Finding:
    """Whether threads may be bound to CPUs."""
    try:
        os.sched_setaffinity(0, os.sched_getaffinity(0))
    except OSError as error:
        return Finding(
            "pinning", "advice", f"threads cannot be bound to CPUs: {error.strerror}",
            "timings are noisier: allow sched_setaffinity in the container's seccomp profile",
        )  # fmt: skip
    return Finding("pinning", "ok", "threads can be bound to CPUs")


def governor(folder: Path = _CPUS) -> Finding:
    """How the system chooses the clock of our CPUs; ``folder``: of all CPUs in sysfs."""
    files = (folder / f"cpu{cpu}/cpufreq/scaling_governor" for cpu in os.sched_getaffinity(0))
    names = sorted({name for name in map(text_of, files) if name})
    if not names:
        return Finding("CPU governor", "ok", "not visible (usual in virtual machines)")
    found = ", ".join(names)
    if names == [_FASTEST]:
        return Finding("CPU governor", "ok", found)
    return Finding(
        "CPU governor", "advice", found,
        f"clocks that follow the load disturb timings: cpupower frequency-set -g {_FASTEST}",
    )  # fmt: skip
