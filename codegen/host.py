"""CPU targets: the machine we run on, and named instruction sets."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path

import llvmlite.binding as llvm

from codegen.arm_features import arm_features
from codegen.calibration import calibrated
from codegen.cpu_share import usable_cpus
from codegen.llvm.permission import usable_features
from sketch.errors import TargetError, suggestion
from sketch.target.rates import nominal_rates
from sketch.target.target import Target

_CACHES = Path("/sys/devices/system/cpu/cpu0/cache")
_PROCESSORS = Path("/proc/cpuinfo")


@dataclass(frozen=True, slots=True)
class InstructionSet:
    """A named instruction set: LLVM's CPU and features, SIMD bytes and registers, nominal caches.

    ``caches``: bytes of L1 and L2 of a core, and of the L3 that all share, as the first common
    server processor with these instructions has them.  A named set is the same target wherever
    the code is compiled, so nothing of the compiling machine goes into it.
    ``accumulators``: FMA latency (4 cycles) * 2 units = 8, and half as much again for scheduling;
    12 wherever there are 16 registers or more.
    """

    name: str
    arch: str
    features: str
    vector_bytes: int
    registers: int
    caches: tuple[int, int, int]
    accumulators: int = 12


_AVX2 = "+sse3,+ssse3,+sse4.1,+sse4.2,+popcnt,+avx,+avx2,+fma,+f16c,+bmi,+bmi2,+lzcnt,+movbe"
_KB, _MB = 1024, 1024**2
INSTRUCTION_SETS = (
    InstructionSet("cpu-sse2", "x86-64", "+sse2", 16, 16, (32 * _KB, 256 * _KB, 8 * _MB)),
    InstructionSet("cpu-avx2", "x86-64-v3", _AVX2, 32, 16, (32 * _KB, 256 * _KB, 16 * _MB)),
    InstructionSet(
        "cpu-avx512",
        "x86-64-v4",
        _AVX2 + ",+avx512f,+avx512bw,+avx512cd,+avx512dq,+avx512vl",
        64,
        32,
        (32 * _KB, 1 * _MB, 16 * _MB),
    ),
    InstructionSet("cpu-neon", "generic", "+neon", 16, 32, (64 * _KB, 1 * _MB, 16 * _MB)),
    # of AWS's Graviton 3; vectors are those of NEON, which is what its tensor units take
    InstructionSet(
        "cpu-neoverse-v1",
        "neoverse-v1",
        "+neon,+dotprod,+fullfp16,+i8mm,+bf16,-sve",
        16,
        32,
        (64 * _KB, 1 * _MB, 32 * _MB),
    ),
)


# No processor on the market has more L3 for each of its CPUs.
_L3_BYTES_PER_CPU = 16 * _MB


def _read_size(index: int) -> tuple[int, str, int] | None:
    """(level, type, bytes) of a cache from sysfs."""
    folder = _CACHES / f"index{index}"
    try:
        level = int((folder / "level").read_text())
        kind = (folder / "type").read_text().strip()
        text = (folder / "size").read_text().strip()
    except (OSError, ValueError):
        return None
    units = {"K": 1024, "M": 1024**2}
    digits = text.rstrip("KM")
    if not digits.isdigit():
        return None
    return level, kind, int(digits) * units.get(text[-1:], 1)


def cache_sizes() -> dict[int, int]:
    """Bytes of the data caches by level; 32 KB, 1 MB, 16 MB where sysfs does not tell.

    L3 is what the CPUs that we see can count on: a virtual machine reports the whole cache of its
    host, which others use as well.
    """
    sizes = {1: 32 * _KB, 2: 1 * _MB, 3: 16 * _MB}
    for index in range(8):
        found = _read_size(index)
        if found is not None and found[1] != "Instruction" and found[0] in sizes:
            sizes[found[0]] = found[2]
    sizes[3] = min(sizes[3], _L3_BYTES_PER_CPU * (os.cpu_count() or 1))
    return sizes


def _cpuinfo() -> str:
    try:
        return _PROCESSORS.read_text()
    except OSError:
        return ""


def _target(choice: InstructionSet, threads: int) -> Target:
    l1_bytes, l2_bytes, l3_bytes = choice.caches
    return Target(
        kind="cpu",
        arch=choice.arch,
        features=choice.features,
        threads=threads,
        vector_bytes=choice.vector_bytes,
        registers=choice.registers,
        fma_accumulators=choice.accumulators,
        l1_bytes=l1_bytes,
        l2_bytes=l2_bytes,
        l3_bytes=l3_bytes,
        rates=nominal_rates(choice.vector_bytes),
    )


def host_target(threads: int | None = None) -> Target:
    """This machine, with all its instructions.

    Its rates are those that ``autosched calibrate`` measured here, else nominal ones.
    Unless told otherwise as many threads as the process may keep busy: CPUs of its affinity, within
    the CPU quotas of its control groups (containers).
    """
    found = usable_features(llvm.get_host_cpu_features())
    if "aarch64" in llvm.get_default_triple():
        found.update(arm_features(_cpuinfo()))
        names: tuple[str, ...] = ("cpu-neon",)
    else:
        names = tuple(
            name
            for flag, name in (("avx512f", "cpu-avx512"), ("avx2", "cpu-avx2"))
            if found.get(flag)
        ) or ("cpu-sse2",)
    features = found.flatten()
    base = next(choice for choice in INSTRUCTION_SETS if choice.name == names[0])
    sizes = cache_sizes()
    here = replace(
        base,
        name="cpu",
        arch=llvm.get_host_cpu_name(),
        features=features,
        caches=(sizes[1], sizes[2], sizes[3]),
    )
    return calibrated(_target(here, usable_cpus() if threads is None else threads))


def cpu_target(name: str = "cpu", threads: int | None = None) -> Target:
    """A CPU target by name: ``cpu`` is this machine, ``cpu-avx512``, ``cpu-avx2``, ``cpu-sse2``,
    ``cpu-neon`` and ``cpu-neoverse-v1`` are instruction sets (to compile for, or to run where the
    machine has them), with nominal caches.

    Raises TargetError on an unknown name.
    """
    if name == "cpu":
        return host_target(threads)
    for choice in INSTRUCTION_SETS:
        if choice.name == name:
            return _target(choice, usable_cpus() if threads is None else threads)
    known = ("cpu", *(choice.name for choice in INSTRUCTION_SETS), "cuda")
    raise TargetError(f"unknown target {name!r}", hint=suggestion(name, known))
