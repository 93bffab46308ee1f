"""Versions of the software that decides what is measured: part of every record."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version

_DISTRIBUTIONS = ("autosched", "llvmlite", "lightgbm", "numpy")


def software_versions() -> dict[str, str]:
    """Version by distribution name; what is not installed is left out."""
    found = {"python": platform.python_version()}
    for name in _DISTRIBUTIONS:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found
