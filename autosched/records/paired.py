"""Which of several candidates is the fastest, when all were timed in turns.

Machines drift: a candidate may look faster because its rounds fell into better moments.  Rounds of
one re-measurement are pairs, taken within moments of each other, so candidates are compared round
by round; the one that the search found best keeps its place unless another beats it in clearly more
rounds than chance would give it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median
from typing import Final

from autosched.measure.result import MeasureResult, Timing
from autosched.records.record import Record

_QUICKER: Final = 2.0  # how much quicker a machine may have been before
_ONE_SIDED: Final = 1.64  # standard deviations: of fair coins, one in twenty does so well

APART: Final = 1e-9
"""Of a time, so little that it decides who is first, and nothing else."""


def clearly_faster(challenger: Sequence[float], holder: Sequence[float]) -> bool:
    """Whether the first is faster in clearly more rounds; [rounds] each, in the order taken.

    A sign test: drift moves both of a pair, so only their order in each round counts.  Five rounds
    must all be won, of twenty fourteen.
    """
    pairs = list(zip(challenger, holder, strict=False))
    won = sum(a < b for a, b in pairs)
    lost = sum(a > b for a, b in pairs)
    decided = won + lost
    return decided > 0 and won >= (decided + _ONE_SIDED * math.sqrt(decided)) / 2.0


def winner(results: Sequence[MeasureResult]) -> int | None:
    """Number of the winner of one interleaved re-measurement; None: nothing ran.

    ``results``: of the candidates in the order of the search's own times, fastest first.
    """
    timed = [(n, result) for n, result in enumerate(results) if isinstance(result, Timing)]
    if not timed:
        return None
    holder, best = timed[0]
    for n, result in sorted(timed[1:], key=lambda pair: pair[1].median):
        if clearly_faster(result.seconds, best.seconds):
            holder, best = n, result
    return holder


def paired_first(
    ranked: Sequence[tuple[float, Record]], records: Sequence[Record]
) -> list[tuple[float, Record]]:
    """``ranked``, seconds and records, fastest first, as the last re-measurement has it.

    Its winner comes before the other candidates that took part, though their medians may be lower,
    and before those that were known by then and never were re-measured: their bursts may have been
    timed when the machine was quicker.  No machine becomes so quick that half the time is explained
    by it: such candidates were left out for another reason, an error beyond the budget of the run.
    """
    latest = last_rounds(records)
    number = winner([record.result for record in latest])
    keys = {record.candidate_key for record in latest}
    places = [n for n, (_, record) in enumerate(ranked) if record.candidate_key in keys]
    if number is None or not places:
        return list(ranked)
    wanted = latest[number].candidate_key
    place = next((n for n in places if ranked[n][1].candidate_key == wanted), places[0])
    ahead, behind = ranked[: places[0]], [p for n, p in enumerate(ranked) if n > places[0] - 1]
    behind.remove(ranked[place])
    known, least_s = _bursts_before(records), ranked[place][0] / _QUICKER
    passed = [p for p in ahead if p[1].candidate_key in known and p[0] > least_s]
    kept = [pair for pair in ahead if pair not in passed]
    return [*kept, ranked[place], *passed, *behind]


def _bursts_before(records: Sequence[Record]) -> set[str]:
    """Candidates measured before the last re-measurement, in bursts alone."""
    end = max(n for n, record in enumerate(records) if record.phase == "final")
    finals = {record.candidate_key for record in records if record.phase == "final"}
    later = {record.candidate_key for record in records[end:]}
    return {record.candidate_key for record in records[:end]} - finals - later


def last_rounds(records: Sequence[Record]) -> list[Record]:
    """The records of the last interleaved re-measurement, in the order of the log."""
    finals = [record for record in records if record.phase == "final"]
    found = {r.candidate_key: r for r in finals if r.time == finals[-1].time}
    return list(found.values())


def drift(records: Sequence[Record]) -> dict[float, float]:
    """By the time of an earlier re-measurement: how much slower the machine was in the last one.

    The median ratio over the candidates that took part in both; 1 is left out.
    """
    latest = {r.candidate_key: r.result for r in last_rounds(records)}
    ratios: dict[float, list[float]] = {}
    for record in records:
        now, then = latest.get(record.candidate_key), record.result
        if record.phase == "final" and isinstance(now, Timing) and isinstance(then, Timing):
            ratios.setdefault(record.time, []).append(now.median / then.median)
    return {time: median(found) for time, found in ratios.items() if median(found) != 1.0}
