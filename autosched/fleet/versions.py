"""Machines of a fleet must run the same software: kernels and pickles go from one to another."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from autosched.fleet.errors import FleetError

# What makes kernels and what carries them; the cost model stays with the tuner.
_ALIKE: Final = ("autosched", "python", "numpy", "llvmlite", "code")


def check_versions(machine: str, found: Mapping[str, str], ours: Mapping[str, str]) -> None:
    """Raise FleetError unless a machine runs what we run.

    Args:
        machine: for the message.
        found: versions there, by name; "code" is a digest of our sources.
        ours: versions here.
    """
    differences = [
        f"{name} {found.get(name, 'missing')}, not {ours.get(name, 'missing')}"
        for name in _ALIKE
        if found.get(name) != ours.get(name)
    ]
    if differences:
        raise FleetError(
            f"machine {machine} has {'; '.join(differences)}",
            hint="install the same release on all machines",
        )
