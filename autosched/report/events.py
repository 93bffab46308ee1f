"""What the tuning loop tells: the state of all tasks after every batch."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

from autosched.measure.result import Timing
from autosched.system.stability import UNKNOWN, Conditions, Stability, share


@dataclass(frozen=True, slots=True)
class TaskRow:
    """One task.

    Attributes:
        name, shapes: for people.
        weight: occurrences.
        flops: per execution.
        best_s, last_s: best seconds of the search so far, and of the last batch; infinite without
            a success.
        trials, failed: results, earlier runs included.
        stopped: why it gets no more trials; empty while it does.
        retimed: the winner of the final re-timing, in turns with the other leaders; None before.
        unit: name of the tensor unit that the fastest is computed on; "": plain vectors.
    """

    name: str
    shapes: str
    weight: float
    flops: float
    best_s: float
    last_s: float
    trials: int
    failed: int
    stopped: str
    retimed: Timing | None = None
    unit: str = ""

    @property
    def seconds(self) -> float:
        """The re-timed seconds where there are any, else the search's best."""
        return self.best_s if self.retimed is None else self.retimed.median

    @property
    def flops_per_s(self) -> float:
        """At ``seconds``; 0 without any."""
        return self.flops / self.seconds if math.isfinite(self.seconds) else 0.0


@dataclass(frozen=True, slots=True)
class ProgressSnapshot:
    """All tasks at one moment.

    Attributes:
        rows: in the order of the tasks.
        current: number of the task at work, None between tasks.
        trials, trials_limit: over all tasks; the limit is None where there is none.
        elapsed_s, budget_s: wall-clock time of this run and its limit.
        left_s: expected time to the end; infinite where it is not known.
        stopped: why tuning ended; empty before.
        conditions: what else the CPUs did during the final re-timing.
    """

    rows: tuple[TaskRow, ...]
    current: int | None
    trials: int
    trials_limit: int | None
    elapsed_s: float
    budget_s: float | None
    left_s: float
    stopped: str = ""
    conditions: Conditions = UNKNOWN

    @property
    def retimed(self) -> bool:
        """Whether some task was re-timed."""
        return any(row.retimed is not None for row in self.rows)

    @property
    def unstable(self) -> tuple[str, ...]:
        """Re-timed tasks whose rounds vary too much, with how much."""
        found = [(row.name, Stability.of(row.retimed.seconds)) for row in self.rows if row.retimed]
        return tuple(f"{name} {share(item.deviation)}" for name, item in found if item.unstable)

    @property
    def total_s(self) -> float:
        """Weighted sum of the tasks' ``seconds``; infinite while a task has none."""
        return sum(row.weight * row.seconds for row in self.rows)


class Progress(Protocol):
    """Whoever shows what happens.  A call should cost far less than a batch."""

    def start(self, view: ProgressSnapshot) -> None:
        """Tuning begins."""
        ...

    def update(self, view: ProgressSnapshot) -> None:
        """A batch was measured, or a task's leaders are about to be re-measured."""
        ...

    def message(self, text: str) -> None:
        """One line that the user should see: a warning."""
        ...

    def finish(self, view: ProgressSnapshot) -> None:
        """Tuning ended, for whatever reason."""
        ...


class Quiet:
    """Tells nobody."""

    def start(self, view: ProgressSnapshot) -> None: ...

    def update(self, view: ProgressSnapshot) -> None: ...

    def message(self, text: str) -> None: ...

    def finish(self, view: ProgressSnapshot) -> None: ...
