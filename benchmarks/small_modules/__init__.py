"""Small modules of PyTorch, of every kind that networks are made of."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from benchmarks.small_modules import movement, pointwise, products, reductions, windows
from benchmarks.small_modules.case import Case

KINDS: Final[Mapping[str, Callable[[], list[Case]]]] = {
    "functions of elements": pointwise.cases,
    "reductions, scans, norms, losses": reductions.cases,
    "layouts, padding, gathers, resampling": movement.cases,
    "convolutions, pools, image blocks": windows.cases,
    "products, attention, sequences": products.cases,
}
"""What makes the cases of each kind."""


def cases() -> Mapping[str, Case]:
    """All cases, by name, in the order of their kinds."""
    return {found.name: found for make in KINDS.values() for found in make()}


def kinds() -> Mapping[str, str]:
    """The kind of each case, by its name."""
    return {found.name: kind for kind, make in KINDS.items() for found in make()}
