"""What the rest of a budget is still worth: the fall of the objective to expect of it.

The best time of a task falls with the logarithm of its trials, ever more slowly: each doubling of
them gains ``shrink`` of what the one before it gained.  The next one is estimated from the last
ones, the latest counting most; those that nobody made yet promise ``hope``, and a little of that is
never given up.  The trials that are left are shared out as they gain most.  In the logs of four
networks the estimate was one to three times what the rest of the search gained.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from autosched.measure.result import MeasureResult, Timing

if TYPE_CHECKING:
    from autosched.tuning.options import SchedulerOptions

History = Sequence[tuple[int, float]]
"""(trials, best seconds then), trials ascending, seconds descending."""


def fall_of_doubling(history: History, trials: int, options: SchedulerOptions) -> float:
    """Expected fall of the logarithm of a task's best time when its trials are doubled.

    Args:
        history: of the task.
        trials: that it has had.
        options: ``doublings``, ``shrink``, ``hope`` and ``hope_share``.
    """
    fall, weight = options.hope_share * options.hope, options.hope_share
    for n in range(options.doublings):
        late, early = (_best_after(history, trials / 2 ** (n + k)) for k in (0, 1))
        known = math.isfinite(early)
        gained = options.shrink ** (n + 1) * math.log(early / late) if known else options.hope
        fall += gained / 2**n
        weight += 1 / 2**n
    return fall / weight if weight else 0.0


def _best_after(history: History, trials: float) -> float:
    """Seconds; infinite before the first success."""
    return min((seconds for count, seconds in history if count <= trials), default=math.inf)


def worth_of(falls: Sequence[float], trials: Sequence[int], left: float) -> float:
    """What ``left`` more trials gain, shared out over the tasks as they gain most.

    Task ``i`` gains ``falls[i] * log2(1 + n / trials[i])`` from ``n`` of them, so that all that get
    some have equal ``falls[i] / (trials[i] + n)``.

    Args:
        falls: of each task in a doubling, in parts of the objective.
        trials: that each task has had.
        left: trials to share out.
    """
    tasks = [(fall, max(1, count)) for fall, count in zip(falls, trials, strict=True) if fall > 0]
    tasks.sort(key=lambda task: task[1] / task[0])  # who would get the first trial, and so on
    level = total_fall = total_trials = 0.0
    for fall, count in tasks:
        if total_fall and count / fall >= level:
            break
        total_fall += fall
        total_trials += count
        level = (left + total_trials) / total_fall
    return sum(fall * math.log2(max(1.0, level * fall / count)) for fall, count in tasks)


def history_of(results: Sequence[MeasureResult]) -> tuple[tuple[int, float], ...]:
    """Of trials in the order they were made: after each that was the best so far."""
    found: list[tuple[int, float]] = []
    for number, result in enumerate(results, 1):
        if isinstance(result, Timing) and (not found or result.median < found[-1][1]):
            found.append((number, result.median))
    return tuple(found)
