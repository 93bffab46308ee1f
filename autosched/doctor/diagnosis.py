"""All that ``autosched doctor`` looks at."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from autosched.doctor import device, memory, noise, packages, processor, software
from autosched.doctor.finding import Finding, Verdict
from autosched.runtime.table import render_table
from autosched.system.release import __version__
from codegen.host import host_target


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What was found about this machine, in the order in which it is told."""

    findings: tuple[Finding, ...]

    def having(self, verdict: Verdict) -> tuple[Finding, ...]:
        """The findings with one verdict."""
        return tuple(finding for finding in self.findings if finding.verdict == verdict)

    def to_json(self) -> list[Mapping[str, Any]]:
        """Fields of every finding by name."""
        return [asdict(finding) for finding in self.findings]

    def __str__(self) -> str:
        rows = [(found.topic, found.verdict, found.found) for found in self.findings]
        advice = [f"{found.topic}: {found.remedy}" for found in self.findings if found.remedy]
        table = render_table(("", "verdict", "found"), rows, left=(0, 1, 2))
        return "\n".join([table, *(["", "what to do:"] if advice else []), *advice])


def examine() -> Diagnosis:
    """Look at this machine; about a second.

    Nothing is changed.

    Raises:
        TargetError: the processor is none that we have code for.
    """
    target = host_target()
    return Diagnosis((
        Finding("autosched", "ok", f"{__version__}, Python {platform.python_version()}"),
        processor.simd(target),
        processor.cpus(),
        processor.cores(),
        processor.pinning(),
        processor.governor(),
        memory.memory(),
        memory.huge_pages(),
        noise.noise(target),
        noise.calibration(),
        software.openmp(),
        software.linker(),
        software.counters(),
        software.folders(),
        device.gpu(),
        device.nvrtc(),
        device.emulator(),
        *packages.extras(),
    ))  # fmt: skip
