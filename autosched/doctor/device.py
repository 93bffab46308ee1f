"""NVIDIA GPUs: the driver, the compiler, and what stands in for them."""

from __future__ import annotations

from autosched.doctor.finding import Finding
from codegen.cuda.nvrtc import missing_compiler, release_of_compiler
from codegen.gpu.emulation.library import compiler, missing_emulator
from codegen.gpu.missing import missing_gpu


def gpu() -> Finding:
    """The driver, and whether it finds a device."""
    missing = missing_gpu()
    if missing is None:
        return Finding("NVIDIA driver", "ok", "it finds a device")
    return _absent("NVIDIA driver", missing)


def nvrtc() -> Finding:
    """The compiler of CUDA kernels."""
    missing = missing_compiler()
    if missing is None:
        return Finding("NVRTC", "ok", ".".join(map(str, release_of_compiler())))
    return _absent("NVRTC", missing)


def emulator() -> Finding:
    """What the emulated device needs."""
    missing = missing_emulator()
    if missing is None:
        return Finding("emulated GPU", "ok", f"compiled by {compiler()}")
    return _absent("emulated GPU", missing)


def _absent(topic: str, why: str) -> Finding:
    """``why``: "what is missing: what to do"."""
    found, _, remedy = why.rpartition(": ")
    return Finding(topic, "absent", found, f"for cuda targets: {remedy}")
