"""What the task scheduler keeps of each task, and what it hands out."""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass, field

from autosched.tuning.remaining import History


@dataclass(frozen=True, slots=True)
class TaskInfo:
    """What the scheduler knows of a task beforehand.

    Attributes:
        weight: occurrences.
        flops: per execution.
        estimate_s: guess of its time, before there is a measurement.
        kind: tasks of equal kind are expected to reach similar FLOP/s.
    """

    weight: float
    flops: float
    estimate_s: float
    kind: Hashable = None


@dataclass(frozen=True, slots=True)
class Turn:
    """Measure at most ``trials`` candidates of task number ``task``.

    ``finish``: by coordinate descent from the best, not by searching widely.
    """

    task: int
    trials: int
    finish: bool = False


@dataclass(slots=True)
class TaskProgress:
    """How far a task is.

    Attributes:
        best_s: best seconds; infinite without a success.
        trials, failed, batches: results so far.
        void: those of the trials that do not count any more: no schedule of theirs may be used.
        seconds: wall-clock time spent on it in this run, for ``timed_trials`` trials.
        history: (trials, best seconds) after each batch that left a success.
        earlier: the same of earlier runs, after each improvement.
        improved_at, improved_to_s: trials, and best seconds, at the last real improvement.
        stopped: why it gets no more trials; empty while it does.
    """

    info: TaskInfo
    best_s: float = math.inf
    trials: int = 0
    failed: int = 0
    batches: int = 0
    void: int = 0
    seconds: float = 0.0
    timed_trials: int = 0
    history: list[tuple[int, float]] = field(default_factory=list)
    earlier: tuple[tuple[int, float], ...] = ()
    improved_at: int = 0
    improved_to_s: float = math.inf
    stopped: str = ""

    @property
    def known_s(self) -> float:
        """Best seconds, or the estimate where there are none."""
        return self.best_s if math.isfinite(self.best_s) else self.info.estimate_s

    def restore(self, trials: int, failed: int, best_s: float, history: History) -> None:
        """Begin with the results of an earlier run.

        Args:
            trials: results.
            failed: results that are failures.
            best_s: best seconds of them.
            history: how the task came to that.
        """
        self.trials, self.failed, self.best_s = trials, failed, best_s
        self.improved_at, self.improved_to_s = trials, best_s
        if math.isfinite(best_s):
            self.earlier = tuple(history)
            self.history.append((trials, best_s))

    def restart(self, trials: int, best_s: float) -> None:
        """Go on as if only a part of the trials had been made.

        Args:
            trials: those that count.
            best_s: the best time of those, in seconds.
        """
        self.best_s, self.void = best_s, self.trials - trials
        self.batches, self.earlier = 0, ()
        self.improved_at, self.improved_to_s = self.trials, best_s
        self.history = [(trials, best_s)] if math.isfinite(best_s) else []
        if self.stopped != "trials":
            self.stopped = ""

    def scale(self, factor: float) -> None:
        """Multiply all times."""
        self.best_s, self.improved_to_s = factor * self.best_s, factor * self.improved_to_s
        self.history = [(trials, factor * seconds) for trials, seconds in self.history]
        self.earlier = tuple((trials, factor * seconds) for trials, seconds in self.earlier)

    def note_improvement(self, least: float) -> None:
        """Count what all trials since the last real improvement have gained together.

        ``least``: part of the time that is one.
        """
        if self.best_s < self.improved_to_s * (1.0 - least):
            self.improved_at, self.improved_to_s = self.trials, self.best_s

    @property
    def counted(self) -> int:
        """Trials that say something of what may still be found."""
        return self.trials - self.void

    def recent_gain(self, window: int) -> float:
        """Seconds gained per trial over the last ``window`` batches."""
        recent = self.history[-window - 1 :]
        if len(recent) < 2:
            return 0.0
        (first, slow), (last, fast) = recent[0], recent[-1]
        return (slow - fast) / max(1, last - first)
