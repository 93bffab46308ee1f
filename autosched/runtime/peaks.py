"""The arithmetic peaks of a machine: of its vectors, and of each of its tensor units."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Peaks:
    """Operations a second of all threads together.

    Attributes:
        flops: in float32 on plain vectors.
        units: of tensor units, by name.
    """

    flops: float
    units: Mapping[str, float] = field(default_factory=dict)

    def of(self, unit: str) -> float:
        """The peak of what is computed on ``unit``; "": on plain vectors."""
        return self.units.get(unit, self.flops)
