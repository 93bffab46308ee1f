"""From readings to counts of each step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from autosched.runtime.counters.events import CYCLES, INSTRUCTIONS, Event

INSTRUCTIONS_PER_CYCLE = "instructions per cycle"
Counts = Mapping[str, float]


@dataclass(frozen=True, slots=True)
class StepCounts:
    """What was counted.

    Attributes:
        events: names, in the order of columns.
        steps: for each step, the count in one run by event; an event that was never really
            counted during the step (more events than the processor has counters) is left out.
        note: one line about what could not be counted; empty when all was.
    """

    events: tuple[str, ...]
    steps: tuple[Counts, ...]
    note: str = ""

    @property
    def total(self) -> Counts:
        """Over all steps, of events that every step has."""
        return {
            name: sum(step[name] for step in self.steps)
            for name in self.events
            if all(name in step for step in self.steps)
        }


def step_counts(
    events: Sequence[Event], differences: NDArray[np.int64], runs: int, note: str = ""
) -> StepCounts:
    """Counts of one run, all threads together.

    Where the processor has fewer counters than events, they take turns; each count is scaled by the
    time for which it was wanted over the time for which it really ran.

    Args:
        events: what was counted.
        differences: int64 ``[steps, events, threads, 3]``: count, nanoseconds enabled and
            nanoseconds running, summed over the runs.
        runs: number of runs.
        note: see ``StepCounts``.
    """
    count, enabled, running = (differences[..., n].astype(np.float64) for n in range(3))
    never = (running == 0) & (enabled > 0)
    scale = np.divide(enabled, running, out=np.ones_like(enabled), where=running > 0)
    values = (count * scale).sum(axis=2) / runs
    known = ~never.any(axis=2)
    steps = tuple(
        {
            event.name: float(values[step, column])
            for column, event in enumerate(events)
            if known[step, column]
        }
        for step in range(len(differences))
    )
    return StepCounts(tuple(event.name for event in events), steps, note)


def instructions_per_cycle(counts: Counts) -> float | None:
    """None where one of the two was not counted."""
    cycles, instructions = counts.get(CYCLES.name), counts.get(INSTRUCTIONS.name)
    return instructions / cycles if cycles and instructions is not None else None
