"""Seeds of a task from the best schedules of the nearest tasks, rescaled to its extents.

The steps of a schedule name stages and axes by position, so they fit each program of the same
structure, whatever its extents.  Its decisions become the nearest choices there.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import chain
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from autosched.measure.result import Timing
from autosched.records.best import rank
from autosched.records.identity import compatible, distance, identity
from autosched.records.title import Title, title_of
from autosched.search.recall import runs_on
from autosched.search.sampling import keep_feasible
from autosched.tasks.candidate import Candidate
from sketch.lower import lower
from sketch.population.population import Population, clamp
from sketch.verify import verify

if TYPE_CHECKING:
    from autosched.records.record import Record
    from autosched.tasks.spec import TaskSpec
    from sketch.schedule.sketch import Sketch
    from sketch.target.target import Target

_NONE: Final[Mapping[str, Sketch]] = MappingProxyType({})
# Doublings of extents, over all arrays: what is further away is another kind of work.
_FARTHEST: Final = 12.0
# Another machine's schedule is as good as one for extents that are so many doublings away; one for
# vectors of half or twice the length as one for twice as many.
_FOREIGN: Final = 3.0
# Records that are looked at for each seed wanted: some do not fit, some become equal.
_TRIES: Final = 4
_SHAPE: Final = re.compile(r"\d{1,12}(?:x\d{1,12})*|scalar")
# Names may hold anything, so titles are read from their end: two inputs and two outputs at most.
_PAIR: Final = rf"(?:(?:{_SHAPE.pattern}), )?(?:{_SHAPE.pattern})"
_ARRAYS: Final = re.compile(rf"(?:{_PAIR})? -> {_PAIR}$")


def bests_of_tasks(records: Iterable[Record]) -> tuple[Record, ...]:
    """The record of the fastest candidate of each task on each machine.

    Records without a title are left out: the shapes of their tasks are not known.
    """
    groups: dict[tuple[str, Target], list[Record]] = {}
    for record in records:
        if record.title is not None and isinstance(record.result, Timing):
            groups.setdefault((record.task, identity(record.target)), []).append(record)
    return tuple(rank(group)[0][1] for group in groups.values())


def nearest(
    task: TaskSpec, bests: Sequence[Record], most: int, known: Iterable[Sketch] = ()
) -> tuple[Candidate, ...]:
    """At most ``most`` different candidates from the nearest other tasks, the nearest first.

    Args:
        task: that they are for.
        bests: of any tasks and machines, see ``bests_of_tasks``.
        most: candidates.
        known: sketches of the task; a candidate of an equal one is of that object, for which much
            was computed already.
    """
    sketches = {sketch.key: sketch for sketch in known}
    found: dict[tuple[object, ...], Candidate] = {}
    for record in in_order(task, bests)[: _TRIES * most]:
        candidate = rescaled(task, record, sketches)
        if candidate is not None:
            same = candidate.sketch.key, frozenset(candidate.values.items())
            found.setdefault(same, candidate)
        if len(found) == most:
            break
    return tuple(found.values())


def in_order(task: TaskSpec, bests: Iterable[Record]) -> list[Record]:
    """Records worth a try: near shapes before far ones, for which those of other machines count."""
    mine, names = title_of(task), {variant.name for variant in task.variants}
    ranked = []
    for number, record in enumerate(bests):
        if record.title is None or record.variant not in names:
            continue
        apart = _apart(record.title, mine)
        if apart <= _FARTHEST and runs_on(record, task.target):
            between = distance(record.target, task.target)
            if not compatible(record.target, task.target):
                apart += _FOREIGN * (1.0 + between[0])
            ranked.append((apart, between, number, record))
    return [item[-1] for item in sorted(ranked, key=lambda item: item[:-1])]


def _apart(one: Title, other: Title) -> float:
    """Doublings between the extents of two tasks; infinite where their arrays differ in rank."""
    mine, theirs = _extents(one.text), _extents(other.text)
    if [len(shape) for shape in mine] != [len(shape) for shape in theirs]:
        return math.inf
    pairs = zip(chain.from_iterable(mine), chain.from_iterable(theirs), strict=True)
    return sum([abs(a - b) for a, b in pairs])


@lru_cache(maxsize=4096)
def _extents(title: str) -> tuple[tuple[float, ...], ...]:
    """Binary logarithms of those of the arrays, which follow the name."""
    arrays = _ARRAYS.search(title)
    shapes = _SHAPE.findall(arrays[0]) if arrays is not None else ()
    extents = [re.findall(r"\d+", shape) for shape in shapes]
    return tuple([tuple([math.log2(max(1, int(n))) for n in found]) for found in extents])


def rescaled(
    task: TaskSpec, record: Record, known: Mapping[str, Sketch] = _NONE
) -> Candidate | None:
    """A recorded schedule of another task as one of ``task``; None where it makes none.

    ``known``: sketches of the task, by their keys.
    """
    try:
        there = record.candidate(task.variant(record.variant).dag, task.target, known)
        row = _nearest_row(there)
        if row.count:
            candidate = Candidate(row.sketch, row.row(0))
            if row.sketch.key not in known:
                # The log's own steps: those of the task's rules fit whatever the row.
                verify(lower(row.sketch, dict(candidate.values)))
            return candidate
    except Exception:  # the boundary to what a log holds: it was no promise that it fits
        return None
    return None


def _nearest_row(there: Candidate) -> Population:
    """The decisions as the nearest choices of the sketch; no row where they are not feasible."""
    sketch = there.sketch
    values = [_nearest(d.choices, int(there.values[d.id])) for d in sketch.decisions]
    table: NDArray[np.int64] = np.array([values], dtype=np.int64)
    return keep_feasible(Population(sketch, clamp(sketch, table)))


def _nearest(choices: Sequence[int], value: int) -> int:
    """By the ratio; 0 is nearest to itself."""
    return min(choices, key=lambda choice: (abs(math.log((choice + 0.5) / (value + 0.5))), choice))
