"""Small modules of PyTorch, of every kind that networks are made of."""

from __future__ import annotations

from collections.abc import Mapping

from benchmarks.small_modules import movement, pointwise, products, reductions, windows
from benchmarks.small_modules.case import Case


def cases() -> Mapping[str, Case]:
    """All cases, by name, in the order of their kinds."""
    kinds = (pointwise, reductions, movement, windows, products)
    return {found.name: found for kind in kinds for found in kind.cases()}
