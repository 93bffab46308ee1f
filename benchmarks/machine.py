"""Where and with what a benchmark ran: written into every JSON file."""

from __future__ import annotations

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

DISTRIBUTIONS = (
    "autosched",
    "llvmlite",
    "lightgbm",
    "numpy",
    "onnxruntime",
    "openvino",
    "torch",
    "onnx",
)
_CACHES = Path("/sys/devices/system/cpu/cpu0/cache")


def machine() -> dict[str, Any]:
    """CPU, cores that this process may use, caches of the first core, memory, kernel, load."""
    return {
        "cpu": _cpu_model(),
        "architecture": platform.machine(),
        "cores": len(os.sched_getaffinity(0)),
        "caches": _caches(),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "kernel": platform.release(),
        "load_average_1min": os.getloadavg()[0],
    }


def versions() -> dict[str, str]:
    """Python's and the installed libraries'."""
    found = {"python": platform.python_version()}
    for name in DISTRIBUTIONS:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "not installed"
    return found


def _cpu_model() -> str:
    fields: dict[str, str] = {}
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        key, _, value = line.partition(":")
        fields.setdefault(key.strip(), value.strip())
    family, model = fields.get("cpu family", "?"), fields.get("model", "?")
    return f"{fields.get('model name', platform.processor())} (family {family}, model {model})"


def _caches() -> dict[str, str]:
    caches = {}
    for index in sorted(_CACHES.glob("index*")):
        kind = (index / "type").read_text().strip()
        if kind != "Instruction":
            level = (index / "level").read_text().strip()
            caches[f"L{level}"] = (index / "size").read_text().strip()
    return caches
