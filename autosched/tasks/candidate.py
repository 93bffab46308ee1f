"""A candidate: one point of the space of a task."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sketch.nest.loopnest import LoopNest
    from sketch.schedule.decision import DecisionId
    from sketch.schedule.sketch import Sketch


@dataclass(frozen=True, slots=True)
class Candidate:
    """One point of a task's space.

    Attributes:
        sketch: the schedule but for its decisions.
        values: an integer for each of its decisions.
        predicted: by what the search ranked it before it was measured: seconds up to a factor;
            None where it was not ranked.
    """

    sketch: Sketch
    values: Mapping[DecisionId, int]
    predicted: float | None = field(default=None, compare=False)

    @property
    def key(self) -> tuple[str, tuple[tuple[str, int], ...]]:
        """Equal for equal candidates, in any process; ``values`` in order of name."""
        return self.sketch.key, tuple(sorted((k, int(v)) for k, v in self.named.items()))

    def nest(self) -> LoopNest:
        """The candidate as loops.

        Raises:
            LoweringError, ScheduleError: its steps and decisions make none.
        """
        from sketch.lower import lower

        return lower(self.sketch, dict(self.values))

    @property
    def unit(self) -> str:
        """The name of the tensor unit that its contraction is computed on; "": plain vectors."""
        from sketch.rules.unit_fit import unit_of
        from sketch.target.units import units_of

        found = unit_of(self.sketch, units_of(self.sketch.target))
        return "" if found is None else found.name

    @property
    def named(self) -> dict[str, int]:
        """``values`` for printing, by what the program calls each decision."""
        labels = self.sketch.labels
        return {labels.get(name, str(name)): value for name, value in self.values.items()}
