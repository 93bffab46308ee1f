"""A candidate: one point of the space of a task."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sketch.schedule.decision import DecisionId
    from sketch.schedule.sketch import Sketch


@dataclass(frozen=True, slots=True)
class Candidate:
    """One point of a task's space: a sketch and an integer for each of its decisions."""

    sketch: Sketch
    values: Mapping[DecisionId, int]

    @property
    def key(self) -> tuple[str, tuple[tuple[str, int], ...]]:
        """Equal for equal candidates, in any process; ``values`` in order of name."""
        return self.sketch.key, tuple(sorted((str(k), int(v)) for k, v in self.values.items()))
