"""Questions to a log: the best candidate of a task, and seeds from other machines."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import median
from typing import Final

from autosched.measure.result import CacheState, Failure, Timing, is_wrong
from autosched.records.identity import (
    compatible,
    distance,
    executable,
    identity,
    target_difference,
)
from autosched.records.paired import drift, last_rounds, paired_first
from autosched.records.record import Record
from sketch.target.target import Target

DRIFTED: Final = 1.15
"""Times again over times before: more is no luck of those, but the machine."""


def target_warning(records: Iterable[Record], target: Target) -> str:
    """One line on the tasks that a log only has records of other machines for; "" without any.

    Names the nearest machine, whose records are used as long as there are no others.
    """
    everything = list(records)
    own = {record.task for record in everything if compatible(record.target, target)}
    foreign = by_distance((r for r in everything if r.task not in own), target)
    if not foreign:
        return ""
    nearest, group = foreign[0]
    count = sum(len(members) for _, members in foreign)
    difference = "; ".join(target_difference(nearest, target))
    same = all(compatible(other.with_threads(target.threads), target) for other, _ in foreign)
    if count == 1:
        used = "it is used" if executable(nearest, target) else "it cannot be used"
        whose = "for another number of threads" if same else "of another machine"
        return f"1 record is {whose}, {used} ({difference})"
    used = "the nearest are used" if executable(nearest, target) else "none can be used"
    whose = "for another number of threads" if same else "of other machines"
    return f"{count} records are {whose}, {used} ({len(group)} with {difference})"


def by_distance(records: Iterable[Record], target: Target) -> list[tuple[Target, list[Record]]]:
    """The records of other machines of the same kind, machine by machine, the nearest first."""
    groups: dict[Target, list[Record]] = {}
    for record in records:
        if record.target.kind == target.kind and not compatible(record.target, target):
            groups.setdefault(identity(record.target), []).append(record)
    pairs = [(members[0].target, members) for members in groups.values()]
    return sorted(
        pairs, key=lambda pair: (not executable(pair[0], target), distance(pair[0], target))
    )


def estimate(history: Sequence[Record]) -> float | None:
    """Seconds of one candidate from all its records; None when it failed or is wrong.

    An interleaved re-measurement outweighs bursts; the latest one counts.  A wrong result
    disqualifies for good, another failure unless a later record is a timing.
    """
    if any(is_wrong(r.result) for r in history) or isinstance(history[-1].result, Failure):
        return None
    timed = [(r.phase, r.result) for r in history if isinstance(r.result, Timing)]
    finals = [timing for phase, timing in timed if phase == "final"]
    if finals:
        return finals[-1].median
    return min((timing.median for _, timing in timed), default=None)


def rank(records: Iterable[Record]) -> list[tuple[float, Record]]:
    """Candidates with their estimated seconds, fastest first, each by its latest timed record.

    Where some candidates were re-measured, the others' bursts are scaled by what that changed: the
    fastest bursts are the luckiest ones, and must not win for not having been looked at again.  A
    change that luck does not explain is one of the machine, which later bursts have seen, too.
    Times of earlier re-measurements are scaled by the machine's drift since then, and of those that
    were last timed in turns the one that won comes first (see ``paired``).  Scaled times are at
    least its own: nothing becomes the best by having been timed beside one that was held up.

    The records should be of one task, target and cache state.  Ties keep the order of the log.
    """
    known = list(records)
    histories: dict[str, list[Record]] = {}
    for record in known:
        histories.setdefault(record.candidate_key, []).append(record)
    scale, drifts = _final_over_burst(histories.values()), drift(known)
    latest = {record.candidate_key: record.result for record in last_rounds(known)}
    last_final = max((r.time for r in known if r.phase == "final"), default=0.0)
    least_s = min((r.median for r in latest.values() if isinstance(r, Timing)), default=0.0)
    ranked: list[tuple[float, Record]] = []
    for history in histories.values():
        seconds = estimate(history)
        if seconds is not None:
            last = next(r for r in reversed(history) if isinstance(r.result, Timing))
            final = [r for r in history if r.phase == "final" and isinstance(r.result, Timing)]
            older = history[-1].time <= last_final or scale < DRIFTED
            factor = drifts.get(final[-1].time, 1.0) if final else scale if older else 1.0
            ranked.append((max(seconds * factor, min(seconds, least_s)), last))
    ranked.sort(key=lambda pair: (pair[0], pair[1].candidate_key not in latest))
    return paired_first(ranked, known)


def _final_over_burst(histories: Iterable[Sequence[Record]]) -> float:
    """Median ratio of re-measured to burst times, at least 1; 1 where nothing was re-measured."""
    ratios: list[float] = []
    for history in histories:
        seconds = estimate(history)
        bursts = [
            r.result.median for r in history if r.phase == "trial" and isinstance(r.result, Timing)
        ]
        if seconds is not None and bursts and any(r.phase == "final" for r in history):
            ratios.append(seconds / min(bursts))
    return max(1.0, median(ratios)) if ratios else 1.0


def comparable(
    records: Iterable[Record],
) -> dict[tuple[str, Target, CacheState | None], list[Record]]:
    """Records whose times compare, by task, target and cache state, in the order of the log.

    Targets that differ in the sizes of their caches only are one, see ``records.identity``.

    Failures hold in any cache state, so they are in every group of their task and target; the
    state is None where there is nothing else.
    """
    tasks: dict[tuple[str, Target], list[Record]] = {}
    for record in records:
        tasks.setdefault((record.task, identity(record.target)), []).append(record)
    groups: dict[tuple[str, Target, CacheState | None], list[Record]] = {}
    for (task, target), members in tasks.items():
        states = dict.fromkeys(
            r.result.cache_state for r in members if isinstance(r.result, Timing)
        )
        for state in states or (None,):
            groups[task, target, state] = [
                r for r in members if isinstance(r.result, Failure) or r.result.cache_state == state
            ]
    return groups


def select(
    records: Iterable[Record],
    task_key: str,
    target: Target,
    cache_state: CacheState | None = None,
) -> list[Record]:
    """Records of one task measured on a compatible target; failures are kept.

    Args:
        records: of a log.
        task_key: of the task.
        target: the machine.
        cache_state: only timings taken in that state; None: all.
    """
    return [
        r
        for r in records
        if r.task == task_key
        and compatible(r.target, target)
        and (
            cache_state is None
            or isinstance(r.result, Failure)
            or r.result.cache_state == cache_state
        )
    ]


def best(
    records: Iterable[Record],
    task_key: str,
    target: Target,
    cache_state: CacheState | None = None,
) -> Record | None:
    """The fastest candidate's record, or None when the log has no success for the task.

    Args:
        records: of a log.
        task_key: of the task.
        target: the machine.
        cache_state: only timings taken in that state; None: all.
    """
    ranked = rank(select(records, task_key, target, cache_state))
    return ranked[0][1] if ranked else None


def seeds(
    records: Iterable[Record], task_key: str, target: Target, limit: int = 16
) -> list[Record]:
    """Good candidates of the task from other machines or thread counts, fastest first per machine.

    Their times say nothing about ``target``; their steps and decisions are worth a try.

    Args:
        records: of a log.
        task_key: of the task.
        target: the machine.
        limit: most records.
    """
    mine = [record for record in records if record.task == task_key]
    ranked = [
        [record for _, record in rank(group)]
        for machine, group in by_distance(mine, target)
        if executable(machine, target)
    ]
    depth = max((len(group) for group in ranked), default=0)
    interleaved = [group[n] for n in range(depth) for group in ranked if n < len(group)]
    return interleaved[:limit]
