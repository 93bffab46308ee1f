"""Questions to a log: the best candidate of a task, and seeds from other machines."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import median
from typing import Final

from autosched.measure.result import WRONG_RESULT, CacheState, Failure, Timing
from autosched.records.record import Record
from sketch.target import Target

# Fields that steer the search only: the same code runs on the same hardware without them.
_SEARCH_FIELDS: Final = ("instruction_budget", "fma_accumulators")


def target_difference(recorded: Target, wanted: Target) -> tuple[str, ...]:
    """What differs between two machines, ``threads: 2, not 4``; empty when records carry over."""
    have, want = recorded.to_json(), wanted.to_json()
    names = [name for name in have if name not in _SEARCH_FIELDS]
    return tuple(f"{n}: {have[n]!r}, not {want[n]!r}" for n in names if have[n] != want[n])


def compatible(recorded: Target, wanted: Target) -> bool:
    """Whether a time measured for ``recorded`` is a time for ``wanted``."""
    return not target_difference(recorded, wanted)


def target_warnings(records: Iterable[Record], target: Target) -> tuple[str, ...]:
    """One line per foreign machine in a log: how many records serve as seeds only, and why."""
    counts: dict[tuple[str, ...], int] = {}
    for record in records:
        difference = target_difference(record.target, target)
        if difference:
            counts[difference] = counts.get(difference, 0) + 1
    return tuple(
        f"{count} records are of another target and serve as seeds only ({'; '.join(difference)})"
        for difference, count in counts.items()
    )


def estimate(history: Sequence[Record]) -> float | None:
    """Seconds of one candidate from all its records; None when it failed or is wrong.

    An interleaved re-measurement outweighs bursts; the latest one counts.  A wrong result
    disqualifies for good, another failure unless a later record is a timing.
    """
    failures = [r.result for r in history if isinstance(r.result, Failure)]
    if any(f.kind == WRONG_RESULT for f in failures) or isinstance(history[-1].result, Failure):
        return None
    timed = [(r.phase, r.result) for r in history if isinstance(r.result, Timing)]
    finals = [timing for phase, timing in timed if phase == "final"]
    if finals:
        return finals[-1].median
    return min((timing.median for _, timing in timed), default=None)


def rank(records: Iterable[Record]) -> list[tuple[float, Record]]:
    """Candidates with their estimated seconds, fastest first, each by its latest timed record.

    Where some candidates were re-measured, the others' bursts are scaled by what that changed: the
    fastest bursts are the luckiest ones, and must not win for not having been looked at again.

    The records should be of one task, target and cache state.  Ties keep the order of the log.
    """
    histories: dict[str, list[Record]] = {}
    for record in records:
        histories.setdefault(record.candidate_key, []).append(record)
    scale = _final_over_burst(histories.values())
    ranked: list[tuple[float, Record]] = []
    for history in histories.values():
        seconds = estimate(history)
        if seconds is not None:
            last = next(r for r in reversed(history) if isinstance(r.result, Timing))
            settled = any(r.phase == "final" and isinstance(r.result, Timing) for r in history)
            ranked.append((seconds if settled else seconds * scale, last))
    return sorted(ranked, key=lambda pair: pair[0])


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

    Failures hold in any cache state, so they are in every group of their task and target; the
    state is None where there is nothing else.
    """
    tasks: dict[tuple[str, Target], list[Record]] = {}
    for record in records:
        tasks.setdefault((record.task, record.target), []).append(record)
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

    ``cache_state``: only timings taken in that state; None: all.
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
    """The fastest candidate's record, or None when the log has no success for the task."""
    ranked = rank(select(records, task_key, target, cache_state))
    return ranked[0][1] if ranked else None


def seeds(
    records: Iterable[Record], task_key: str, target: Target, limit: int = 16
) -> list[Record]:
    """Good candidates of the task from other machines or thread counts, fastest first per machine.

    Their times say nothing about ``target``; their steps and decisions are worth a try.
    """
    others: dict[Target, list[Record]] = {}
    for record in records:
        same_kind = record.target.kind == target.kind
        if record.task == task_key and same_kind and not compatible(record.target, target):
            others.setdefault(record.target, []).append(record)
    ranked = [[record for _, record in rank(group)] for group in others.values()]
    depth = max((len(group) for group in ranked), default=0)
    interleaved = [group[n] for n in range(depth) for group in ranked if n < len(group)]
    return interleaved[:limit]
