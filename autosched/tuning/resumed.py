"""What a log knows of tasks, in the times of the machine as it is now.

A log may be of an hour when other processes had the machine, or of one when it was quicker.  Old
times would make each new candidate look like a gain, or hide all of them, and a model would learn
the difference between two hours.  So the fastest of each task are timed again before the search
goes on.  Where they take as long as they did, nothing changes; else all that is known of the task
is scaled by what changed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import TYPE_CHECKING, Final

from autosched.measure.protocol import MeasuredTask, Runner
from autosched.measure.result import CacheState, MeasureResult, Timing, scaled
from autosched.records.error_budget import held_to
from autosched.records.paired import APART
from autosched.records.record import Record
from autosched.search.recall import TaskHistory, recall
from autosched.tasks.candidate import Candidate
from autosched.tuning.options import TuneOptions
from autosched.tuning.remaining import History, history_of

if TYPE_CHECKING:
    from autosched.tasks.spec import TaskSpec

_LEADERS: Final = 3
_ROUNDS: Final = 3


@dataclass(frozen=True, slots=True)
class Resumed:
    """What the search of a task goes on from.

    Attributes:
        memory: what the log says.
        results: of its candidates, as they would be now.
        best_s: best time, in seconds.
        history: how the search came to it; empty where that says little about what there is to
            find: on a machine that was slower than now, or without a variant that there is now.
        leaders, again: candidates that were timed again, and their results, where these say that
            the machine has changed.
        slowdown: how many times as long they take now.
    """

    memory: TaskHistory
    results: tuple[MeasureResult, ...]
    best_s: float
    history: History
    leaders: tuple[Candidate, ...] = ()
    again: tuple[MeasureResult, ...] = ()
    slowdown: float = 1.0


def resumed(
    tasks: Sequence[TaskSpec],
    records: Sequence[Record],
    cache_state: CacheState | None,
    runner: Runner,
    options: TuneOptions,
    elapsed: Callable[[], float],
) -> list[Resumed]:
    """Of each task, what the search goes on from; those that take most of the total come first.

    Args:
        tasks: that are tuned.
        records: of a log.
        cache_state: of the runner; records taken in another one do not count.  None: all count.
        runner: times again.
        options: ``slowdown`` (from which it is believed), limits of trials and time: where nothing
            is left to search for, and when ``retiming_share`` of the time has passed, the log's
            times count.  So they do on machines that are told apart by the runner.
        elapsed: seconds since the run began.
    """
    memories = [
        recall(task, held_to(records, task, options.accuracy, searched=True), cache_state)
        for task in tasks
    ]
    found = [_as_known(memory, task) for memory, task in zip(memories, tasks, strict=True)]
    limit_s = options.retiming_share * (options.budget_s or math.inf)
    trials = sum(len(memory.results) for memory in memories)
    if runner.trials_in_flight or (options.trials is not None and trials >= options.trials):
        return found
    order = sorted(range(len(tasks)), key=lambda n: -tasks[n].weight * memories[n].best_s)
    for n in order:
        if elapsed() >= limit_s:
            break
        if math.isfinite(memories[n].best_s) and not tasks[n].target.card.emulated:
            try:
                found[n] = _as_now(found[n], tasks[n], runner, options.slowdown)
            except KeyboardInterrupt:  # noted: the search, which has not begun, ends with it
                break
    return found


def changes(found: Sequence[Resumed]) -> str:
    """One line on the tasks whose times have changed; empty without any."""
    changed = [known.slowdown for known in found if known.leaders]
    if not changed:
        return ""
    some = "1 task takes" if len(changed) == 1 else f"{len(changed)} tasks take"
    least, most = f"{min(changed):.2g}", f"{max(changed):.2g}"
    factors = least if least == most else f"{least} to {most}"
    return (
        f"{some} {factors} times as long now as in the log: "
        "what it says of each is taken times that"
    )


def _as_known(memory: TaskHistory, task: TaskSpec) -> Resumed:
    tried = {candidate.sketch.variant for candidate in memory.candidates}
    complete = tried.issuperset(variant.name for variant in task.variants)
    history = history_of(memory.results) if complete else ()
    results = tuple(_beside(memory, n, result) for n, result in enumerate(memory.results))
    return Resumed(memory, results, memory.best_s, history)


def _beside(memory: TaskHistory, number: int, result: MeasureResult) -> MeasureResult:
    """A result next to what was timed in turns: no lucky burst of another one is faster; what would
    be stays in its order.
    """
    best_s, best = memory.best_s, number == memory.best
    if not isinstance(result, Timing) or not (best or result.median <= best_s):
        return result
    behind = 0.0 if best else APART * result.median / best_s
    return scaled(result, best_s * (1.0 + behind) / result.median)


def _as_now(known: Resumed, task: MeasuredTask, runner: Runner, least: float) -> Resumed:
    timed = [(r.median, n) for n, r in enumerate(known.results) if isinstance(r, Timing)]
    fastest = [n for _, n in sorted(timed)[:_LEADERS]]
    leaders = tuple(known.memory.candidates[n] for n in fastest)
    again = tuple(runner.remeasure(task, leaders, _ROUNDS))
    pairs = [
        (known.results[n], now)
        for n, now in zip(fastest, again, strict=True)
        if isinstance(now, Timing)
    ]
    ratios = [now.median / then.median for then, now in pairs if isinstance(then, Timing)]
    slowdown = median(ratios) if ratios else 1.0
    if not ratios or 1.0 / least < slowdown < least:
        return known
    results = tuple(scaled(result, slowdown) for result in known.results)
    return replace(
        known,
        results=results,
        best_s=min(now.median for _, now in pairs),
        history=history_of(results) if slowdown > 1.0 and known.history else (),
        leaders=leaders,
        again=again,
        slowdown=slowdown,
    )
