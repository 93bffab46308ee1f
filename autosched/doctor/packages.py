"""Optional packages: which extras of the distribution are installed."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, requires, version
from typing import Final

from autosched.doctor.finding import Finding

_DISTRIBUTION: Final = "autosched"
# `onnx>=1.17; extra == "onnx"`, `cuda-toolkit[nvrtc]==13.0.2; extra == 'cuda'`
_OPTIONAL: Final = re.compile(r"([\w.-]+).*;.*\bextra *== *[\"']([\w-]+)[\"']")
# What developers of autosched install.
_DEVELOPERS: Final = ("dev", "rivals")


def extras(requirements: Sequence[str] | None = None) -> list[Finding]:
    """One finding for each extra.

    Args:
        requirements: of the distribution, as its metadata has them; None: of the one installed.
    """
    try:
        lines = (requires(_DISTRIBUTION) or []) if requirements is None else requirements
    except PackageNotFoundError:
        return [Finding("extras", "absent", "autosched runs from its sources, not installed")]
    return [
        _finding(extra, packages)
        for extra, packages in _by_extra(lines).items()
        if extra not in _DEVELOPERS
    ]


def _by_extra(requirements: Sequence[str]) -> Mapping[str, list[str]]:
    found: dict[str, list[str]] = {}
    for line in requirements:
        match = _OPTIONAL.match(line)
        if match is not None:
            found.setdefault(match[2], []).append(match[1])
    return found


def _finding(extra: str, packages: Sequence[str]) -> Finding:
    versions = {name: _version(name) for name in packages}
    absent = [name for name, number in versions.items() if number is None]
    topic = f"extra {extra}"
    if absent:
        install = f'pip install "{_DISTRIBUTION}[{extra}]"'
        return Finding(topic, "absent", f"without {', '.join(absent)}", install)
    return Finding(topic, "ok", ", ".join(f"{name} {number}" for name, number in versions.items()))


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
