"""From a log back to candidates: what a task already knows, and its best."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from statistics import median
from typing import TYPE_CHECKING, Final, TypeVar

from autosched.measure.result import CacheState, Failure, MeasureResult, Timing, is_wrong, scaled
from autosched.records.accuracy import ACCURACIES, Accuracy
from autosched.records.best import DRIFTED, by_distance, rank, seeds, select, target_warning
from autosched.records.error_budget import held_to
from autosched.records.identity import executable, has_units_of
from autosched.records.record import Record
from autosched.records.store import AnyLog, open_store
from autosched.search.by_position import by_position, steps_key
from autosched.search.space import draft_candidate
from autosched.system.limits import check_choice
from autosched.system.user_warnings import notify
from autosched.tasks.candidate import Candidate
from sketch.errors import AutoschedError
from sketch.lang.kept import kept
from sketch.lower import lower
from sketch.population.population import from_rows
from sketch.population.recorded_range import check_row
from sketch.schedule.decision import DecisionId
from sketch.schedule.sketch import Sketch
from sketch.schedule.steps import Tensorize
from sketch.target.target import Target
from sketch.verify import verify

if TYPE_CHECKING:
    from autosched.tasks.spec import TaskSpec

_Built = TypeVar("_Built")
# Private buffers of a recorded candidate may take so many times what the search lets them have:
# sizes of caches say how good a schedule is, not whether it runs.
_ROOM: Final = 16


@dataclass(frozen=True, slots=True)
class Recalled:
    """A candidate of a log.

    Attributes:
        candidate: replayed from the record's own steps.
        seconds: estimate from all its records; infinite where it failed.
        record: the record it comes from.
    """

    candidate: Candidate
    seconds: float
    record: Record

    @property
    def checked(self) -> bool:
        """Whether its results were compared with the oracle's when it was timed."""
        return isinstance(self.record.result, Timing) and self.record.result.error is not None


@dataclass(frozen=True, slots=True)
class TaskHistory:
    """What a log says of one task.

    Attributes:
        candidates, results: the trials, one result each, in the order of the log; a candidate that
            was found to be wrong later has that failure.
        best_s: best estimate, re-measurements included; infinite without a success.
        seeds: good candidates of other machines.
        warnings: records that do not replay any more, and why.
        best: number of the candidate that takes ``best_s``; None without a success.
    """

    candidates: tuple[Candidate, ...]
    results: tuple[MeasureResult, ...]
    best_s: float
    seeds: tuple[Candidate, ...]
    warnings: tuple[str, ...]
    best: int | None = None


class Replayer:
    """Replays records of one task; equal steps give one and the same sketch object.

    The boundary to what a log holds: whatever a record makes the code below raise, it is this
    record that does not replay.
    """

    def __init__(self, task: TaskSpec) -> None:
        self._task = task
        # By `steps_key`: the sketch, and what its program calls each decision of the record.
        self._sketches: dict[str, tuple[Sketch, dict[str, DecisionId]]] = {}
        self._warnings: dict[str, list[str]] = {}

    def replay(self, record: Record, verified: bool = False) -> Candidate | None:
        """The candidate, or None (and a warning) when it does not fit this release's task.

        ``verified``: also check the loop nest of this very row, rather than of the first row of
        its sketch; needed where the code will run in this process.
        """
        try:
            return self._replay(record, verified)
        except Exception as error:  # steps that no rule makes
            self._skip(record, _reason(error))
        return None

    def _replay(self, record: Record, verified: bool) -> Candidate:
        key = steps_key(record)
        known = self._sketches.get(key)
        if known is None:
            dag = self._task.variant(record.variant).dag
            first = record.candidate(dag, self._task.target)
            known = first.sketch, dict(zip(record.decisions, first.values, strict=True))
        sketch, names = known
        values = {names.get(name, name): value for name, value in record.decisions.items()}
        check_row(_roomy(sketch), values)
        if verified or key not in self._sketches:
            verify(lower(sketch, dict(values)))
        self._sketches[key] = known
        return Candidate(sketch, from_rows(sketch, [values]).row(0))

    def _skip(self, record: Record, reason: str) -> None:
        self._warnings.setdefault(reason, []).append(record.where)

    def report(self) -> tuple[str, ...]:
        """One line per reason since the last report."""
        lines = []
        for reason, places in self._warnings.items():
            count = "a record" if len(places) == 1 else f"{len(places)} records"
            place = f"{places[0]}: " if places[0] else ""
            does = "does" if len(places) == 1 else "do"
            lines.append(f"{place}{count} of {self._task.name} {does} not replay: {reason}")
        self._warnings.clear()
        return tuple(lines)


@kept
def _roomy(sketch: Sketch) -> Sketch:
    """The sketch for a machine of more cache: it was measured, whatever fits the cache here."""
    target = sketch.target
    return replace(sketch, target=replace(target, l2_bytes=_ROOM * target.l2_bytes))


def recall(
    task: TaskSpec, records: Sequence[Record], cache_state: CacheState | None = None
) -> TaskHistory:
    """Everything that records say of a task on its target.

    Where leaders were timed again on a machine that had become slower or quicker, all results
    before that are scaled by what changed.
    """
    replayer = Replayer(task)
    known = by_position(task, records)
    mine = select(known, task.key, task.target, cache_state)
    candidates: dict[str, Candidate] = {}
    results: dict[str, MeasureResult] = {}
    for moment, group in groupby(mine, lambda r: r.time if r.phase == "final" else None):
        members = list(group)
        if moment is not None:
            factor = _change(results, members)
            results = {key: scaled(result, factor) for key, result in results.items()}
        for record in members:
            key = record.candidate_key
            if key not in candidates:
                candidate = replayer.replay(record)
                if candidate is None:
                    continue
                candidates[key] = candidate
            if key not in results or _outweighs(record, results[key]):
                results[key] = record.result
    ranked = ((seconds, record.candidate_key) for seconds, record in rank(mine))
    best_s, best = next((pair for pair in ranked if pair[1] in candidates), (math.inf, ""))
    foreign = [replayer.replay(record) for record in seeds(known, task.key, task.target)]
    return TaskHistory(
        tuple(candidates.values()),
        tuple(results.values()),
        best_s,
        tuple(candidate for candidate in foreign if candidate is not None),
        replayer.report(),
        list(candidates).index(best) if best else None,
    )


def _change(known: Mapping[str, MeasureResult], again: Sequence[Record]) -> float:
    """How many times as long candidates take that were timed again; 1 where luck explains it."""
    pairs = [(known.get(record.candidate_key), record.result) for record in again]
    ratios = [
        now.median / then.median
        for then, now in pairs
        if isinstance(then, Timing) and isinstance(now, Timing)
    ]
    ratio = median(ratios) if ratios else 1.0
    return 1.0 if 1.0 / DRIFTED < ratio < DRIFTED else ratio


def _outweighs(record: Record, known: MeasureResult) -> bool:
    """Whether a later record says something else of a candidate: what was wrong stays so.

    What was timed again on a quieter machine has a burst that is faster.
    """
    result = record.result
    if isinstance(result, Timing) and isinstance(known, Timing):
        return record.phase == "trial" and result.median < known.median
    return not is_wrong(known) and isinstance(result, Failure) != isinstance(known, Failure)


def usable(
    task: TaskSpec,
    records: Iterable[Record],
    cache_state: CacheState | None = None,
    variant: str | None = None,
) -> Iterator[Recalled]:
    """Candidates to compile a task with, the best first.

    Those that were measured in ``cache_state`` come first, then those of other states; where the
    task's target has none, those of other machines, the nearest first (``records.identity``).
    Warns of records that are better than what is asked for and do not replay.

    Args:
        task: what is computed.
        records: of the task and others.
        cache_state: that is preferred; None: all are alike.
        variant: the only one that is wanted, though the records of all say how times have changed;
            None: all are.
    """
    replayer = Replayer(task)
    seen: set[str] = set()
    for seconds, record in _in_order(task, by_position(task, records), cache_state):
        if record.candidate_key in seen or variant not in (None, record.variant):
            continue
        seen.add(record.candidate_key)
        candidate = replayer.replay(record, verified=True)
        notify(replayer.report())
        if candidate is not None:
            yield Recalled(candidate, seconds, record)


def _in_order(
    task: TaskSpec, records: Sequence[Record], cache_state: CacheState | None
) -> Iterator[tuple[float, Record]]:
    """``records``: of the task."""
    states = (None,) if cache_state is None else (cache_state, None)
    for state in states:
        yield from rank(select(records, task.key, task.target, state))
    for _, group in by_distance(records, task.target):
        yield from rank(r for r in group if runs_on(r, task.target))


def runs_on(record: Record, target: Target) -> bool:
    """Whether a schedule makes sense on a machine: it has its vectors, and its units if any."""
    used = any(step.get("kind") == Tensorize.kind for step in record.steps)
    units = not used or has_units_of(record.target, target)
    return units and executable(record.target, target)


def build_best(
    task: TaskSpec,
    log: AnyLog | None,
    build: Callable[[Candidate], _Built],
    accuracy: Accuracy = "default",
) -> _Built:
    """``build_recorded``; without a record, what ``build`` makes of the draft model's favourite.

    Args:
        task: what is built.
        log: its path or URL; None: there is none.
        build: may refuse a candidate of the log by any exception.
        accuracy: records of variants that it does not allow are not used.
    """
    found = build_recorded(task, log, build, accuracy)
    return build(draft_candidate(task)) if found is None else found[0]


def build_recorded(
    task: TaskSpec,
    log: AnyLog | None,
    build: Callable[[Candidate], _Built],
    accuracy: Accuracy = "default",
) -> tuple[_Built, Recalled] | None:
    """What ``build`` makes of the best candidate of a log that it accepts, and that candidate.

    None without one.  Warns of lines that cannot be read, of records that are not accepted, of a
    log that does not exist or has no record of the task, and of one without a record of the task's
    target.

    Args:
        task: what is built.
        log: its path or URL; None: there is none.
        build: may refuse a candidate by any exception.
        accuracy: records of variants that it does not allow are not used.

    Raises:
        OptionError: ``accuracy`` is no such word.
    """
    check_choice("accuracy", accuracy, ACCURACIES)
    records: Sequence[Record] = ()
    if log is not None:
        store = open_store(log)
        found = store.read_best((task.key,), task.target)
        unmatched = found.unmatched(store.name, f"task {task.name}")
        warning = target_warning(found.records, task.target)
        notify((*found.warnings, *filter(None, [unmatched, warning])))
        records = held_to(found.records, task, accuracy)
    return build_usable(task, records, build)


def build_usable(
    task: TaskSpec, records: Iterable[Record], build: Callable[[Candidate], _Built]
) -> tuple[_Built, Recalled] | None:
    """What ``build`` makes of the best candidate that it accepts, and that candidate.

    None without one.  Warns of records that are not accepted.

    Args:
        task: what is built.
        records: that are allowed, of the task and others.
        build: may refuse a candidate by any exception.
    """
    for recalled in usable(task, records):
        try:
            return build(recalled.candidate), recalled
        except Exception as error:  # the boundary to what a log holds, as in Replayer
            notify([unbuildable(recalled.record, error)])
    return None


def best_of(
    task: TaskSpec,
    records: Iterable[Record],
    cache_state: CacheState | None = None,
    measured: Sequence[tuple[Record, Candidate]] = (),
) -> Recalled | None:
    """The fastest candidate that was measured on the task's target and still replays, or None.

    Warns of faster ones that do not.

    Args:
        task: whose candidate.
        records: of any tasks.
        cache_state: in which they were measured; None: any.
        measured: those of ``records`` whose candidates are known, which are not replayed.
    """
    replayer, known = Replayer(task), by_position(task, records)
    best: Recalled | None = None
    for seconds, record in rank(select(known, task.key, task.target, cache_state)):
        ours = (candidate for own, candidate in measured if own is record)
        candidate = next(ours, None) or replayer.replay(record, verified=True)
        if candidate is not None:
            best = Recalled(candidate, seconds, record)
            break
    notify(replayer.report())
    return best


def unbuildable(record: Record, error: Exception) -> str:
    """One line: no code can be made of a record."""
    return f"{record.where}: a record of {record.task} cannot be built: {_reason(error)}"


def _reason(error: Exception) -> str:
    return str(error) if isinstance(error, AutoschedError) else f"{type(error).__name__}: {error}"
