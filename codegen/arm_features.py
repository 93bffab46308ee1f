"""What an Arm processor has, as Linux says: LLVM does not ask for all of the features of units."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

# Linux's names and LLVM's.
_NAMES: Final[Mapping[str, str]] = {
    "asimd": "neon", "asimdhp": "fullfp16", "asimddp": "dotprod", "i8mm": "i8mm", "bf16": "bf16",
}  # fmt: skip


def arm_features(cpuinfo: str) -> dict[str, bool]:
    """The features of tensor units, by LLVM's names, that all processors have.

    ``cpuinfo``: the text of ``/proc/cpuinfo``; without a line of features nothing is known.
    """
    lines = (line.partition(":") for line in cpuinfo.splitlines())
    flags = [set(value.split()) for name, _, value in lines if name.strip() == "Features"]
    if not flags:
        return {}
    common = set.intersection(*flags)
    return {name: True for flag, name in _NAMES.items() if flag in common}
