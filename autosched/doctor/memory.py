"""Memory: how much there is, and whether it comes in huge pages."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Final

from autosched.doctor.finding import Finding, text_of
from autosched.runtime.table import size_text
from autosched.system.memory_limit import available_bytes
from codegen.control_groups import PROCESS, group_folders

_HUGE_PAGES: Final = Path("/sys/kernel/mm/transparent_hugepage/enabled")
# ResNet-50 or BERT-base with the processes that measure; smaller networks need less.
_ROOMY_BYTES: Final = 4e9
# What a group may use; version 2, version 1, which writes a huge number for "no limit".
_LIMITS: Final = ("memory.max", "memory.limit_in_bytes")
_NO_LIMIT: Final = float(1 << 60)


def memory(process: Path = PROCESS) -> Finding:
    """What may still be used; ``process``: folder of this process in ``/proc``."""
    free, limit = available_bytes(), group_limit(process)
    found = "unknown" if free is None else f"{size_text(free)} available"
    if not math.isinf(limit):
        found += f", the container's limit is {size_text(int(limit))}"
    if min(limit, math.inf if free is None else free) >= _ROOMY_BYTES:
        return Finding("memory", "ok", found)
    return Finding(
        "memory", "advice", found,
        "large networks may not fit: each of the processes that build and time kernels needs some "
        "hundred megabytes",
    )  # fmt: skip


def group_limit(process: Path = PROCESS) -> float:
    """Bytes that the control groups of a process allow, the smallest; infinite without a limit."""
    texts = (text_of(folder / n) for folder in group_folders("memory", process) for n in _LIMITS)
    limits = [float(text) for text in texts if text is not None and text.isdigit()]
    return min((limit for limit in limits if limit < _NO_LIMIT), default=math.inf)


def huge_pages(file: Path = _HUGE_PAGES) -> Finding:
    """Whether memory comes in pages of 2 MB where that is asked for; ``file``: what sysfs says."""
    chosen = re.search(r"\[(\w+)\]", text_of(file) or "")
    if chosen is None:
        return Finding(
            "huge pages", "advice", "the kernel has no transparent huge pages",
            "reading large weights takes more time: use a kernel with them",
        )  # fmt: skip
    if chosen[1] == "never":
        return Finding(
            "huge pages", "advice", "never", f"as root: echo madvise > {file}"
        )  # fmt: skip
    return Finding("huge pages", "ok", chosen[1])
