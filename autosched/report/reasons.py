"""Why a schedule is as fast as it is: what binds it, what drives its score, what the next one has.

What binds a program is said by the draft model, which knows the machine and no measurement.  What
drives its score is said by the cost model that the log teaches.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from autosched.records.identity import compatible
from autosched.records.record import Record
from autosched.search.learner import training_data
from autosched.search.models import usual_model
from autosched.search.recall import Recalled, recall
from autosched.search.space import space_of
from costmodel.attribution import Attributing, ScoreDriver, drivers
from costmodel.checked import checked_prediction, checked_ready, checked_update
from costmodel.dataset import Dataset
from costmodel.errors import ModelFaultError
from costmodel.extract import features_of
from costmodel.extract.bounds import TERM_NAMES, program_terms
from costmodel.extract.extra import ExtraColumns
from costmodel.feature_table import FEATURE_INDEX, FEATURES
from sketch.population.population import from_rows

if TYPE_CHECKING:
    from autosched.tasks.candidate import Candidate
    from autosched.tasks.spec import TaskSpec
    from costmodel.features import Features

_MEANING: Final[Mapping[str, str]] = {
    "compute": "the arithmetic units are busy",
    "L2": "data between the second cache and the cores",
    "memory": "data that all cores share: the last cache, and memory",
    "latency": "waiting: for results that the next step needs, for loops, threads or barriers",
}
_MOST_DECISIONS: Final = 12


@dataclass(frozen=True, slots=True)
class DraftTerm:
    """A term of the draft model.

    Attributes:
        name: "compute", "L2", "memory" or "latency".
        seconds: on all threads, as if nothing overlapped.
        share: of the sum of all terms.
    """

    name: str
    seconds: float
    share: float


@dataclass(frozen=True, slots=True)
class RunnerUp:
    """The second fastest schedule.

    Attributes:
        ratio: its measured time over that of the best.
        differences: what the two decide differently, one line each.
        terms: of the draft model.
    """

    ratio: float
    differences: tuple[str, ...]
    terms: tuple[DraftTerm, ...]


@dataclass(frozen=True, slots=True)
class Reasons:
    """Why a schedule is as fast as it is; ``asd.plots.reasons`` draws it.

    Attributes:
        task: its name.
        terms: of the draft model.
        drivers: groups of features that move the predicted time, the strongest first; none where no
            model has learned from the task.
        programs: that the schedule is compared with: those of the log, or random ones.
        runner_up: None: there is no second one that was measured.
        fault: what was wrong with the model; empty: nothing.
    """

    task: str
    terms: tuple[DraftTerm, ...]
    drivers: tuple[ScoreDriver, ...]
    programs: int
    runner_up: RunnerUp | None
    fault: str = ""

    @property
    def bound(self) -> str:
        """The largest term."""
        return max(self.terms, key=lambda term: term.share).name

    def __str__(self) -> str:
        return "\n".join([*self._bound_lines(), *self._driver_lines(), *self._rival_lines()])

    def __repr__(self) -> str:
        return str(self)

    def _bound_lines(self) -> list[str]:
        shares = ", ".join(f"{term.name} {term.share:.0%}" for term in self.terms)
        return [
            f"bound by {self.bound}: {_MEANING[self.bound]}",
            f"  terms of the draft model, none overlapped: {shares}",
        ]

    def _driver_lines(self) -> list[str]:
        if self.fault:
            return [f"no model says what drives the time: {self.fault}"]
        if not self.drivers:
            return ["no model has learned from this task: too few programs ran"]
        return [
            f"what drives its predicted time, against the mean of {self.programs} programs:",
            *(f"  {item.change:+7.1%}  {item.name}{_feature_text(item)}" for item in self.drivers),
        ]

    def _rival_lines(self) -> list[str]:
        rival = self.runner_up
        if rival is None:
            return []
        pairs = zip(rival.terms, self.terms, strict=True)
        terms = ", ".join(
            f"{own.name} {_ratio_text(other.seconds, own.seconds)}" for other, own in pairs
        )
        left = len(rival.differences) - _MOST_DECISIONS
        return [
            f"{_rival_text(rival.ratio)}; it differs in",
            *(f"  {line}" for line in rival.differences[:_MOST_DECISIONS]),
            *([f"  and {left} more"] if left > 0 else []),
            f"  its terms over those of the best: {terms}",
        ]


def reasons_of(
    task: TaskSpec, best: Candidate, ranked: Sequence[Recalled], records: Sequence[Record]
) -> Reasons:
    """Why a candidate is as fast as it is.

    Args:
        task: it is of.
        best: the candidate.
        ranked: the best two measured ones of a log, fastest first.
        records: what a model learns from.
    """
    terms = _terms(best, task)
    found, programs, fault = _drivers(task, best, records)
    rival = _runner_up(task, best, ranked)
    return Reasons(task.name, terms, found, programs, rival, fault)


def _terms(candidate: Candidate, task: TaskSpec) -> tuple[DraftTerm, ...]:
    seconds = program_terms(candidate.nest(), task.target).by_name()
    total = sum(seconds.values()) or 1.0
    return tuple(DraftTerm(name, seconds[name], seconds[name] / total) for name in TERM_NAMES)


def _drivers(
    task: TaskSpec, best: Candidate, records: Sequence[Record]
) -> tuple[tuple[ScoreDriver, ...], int, str]:
    """What drives the prediction against how many programs, and what was wrong with the model."""
    memory = recall(task, records)
    dataset = Dataset()
    others: list[Features] = []
    for taught in training_data(memory.candidates, memory.results, _no_extra()):
        dataset.append(task.key, taught.features, taught.seconds, taught.members)
        others.append(taught.features)
    model, own = usual_model(task.target), features_of(from_rows(best.sketch, [best.values]))
    try:
        if others:
            checked_update(model, dataset)
        ready = checked_ready(model)
        if ready:
            checked_prediction(model, own)
    except ModelFaultError as error:
        return (), 0, str(error)
    if not (ready and isinstance(model, Attributing)):
        return (), 0, ""
    if not others:  # a model of the release knows how it differs from chance
        others = [features_of(rows) for rows in space_of(task).samples]
    return drivers(model, own, others), sum(features.count for features in others), ""


def _no_extra() -> ExtraColumns:
    return ExtraColumns((), lambda name, text: None)


def _runner_up(task: TaskSpec, best: Candidate, ranked: Sequence[Recalled]) -> RunnerUp | None:
    timed = [r for r in ranked if math.isfinite(r.seconds) and _measured_here(task, r.record)]
    if len(timed) < 2 or timed[0].candidate.key != best.key:
        return None
    first, second = timed[:2]
    return RunnerUp(
        second.seconds / first.seconds,
        _differences(second.candidate, best),
        _terms(second.candidate, task),
    )


def _measured_here(task: TaskSpec, record: Record) -> bool:
    return compatible(record.target, task.target)


def _differences(other: Candidate, best: Candidate) -> tuple[str, ...]:
    """One line for the structure, and one for each decision that both have."""
    lines = []
    if other.sketch.variant != best.sketch.variant:
        lines.append(f"variant {other.sketch.variant}, the best is {best.sketch.variant}")
    elif other.sketch.key != best.sketch.key:
        lines.append("the structure of its loops")
    theirs, ours = other.named, best.named
    lines += [
        f"{name} = {theirs[name]}, the best has {ours[name]}"
        for name in ours
        if name in theirs and theirs[name] != ours[name]
    ]
    return tuple(lines)


def _feature_text(driver: ScoreDriver) -> str:
    """In brackets: the feature that does most of it."""
    if not driver.feature:
        return ""
    place = FEATURE_INDEX.get(driver.feature)
    meaning = "" if place is None else f": {FEATURES[place].doc}"
    return f" (most by {driver.feature}{meaning})"


def _rival_text(ratio: float) -> str:
    """How the second fastest compares; ``rank`` may put what won in turns before a shorter time."""
    if ratio >= 1:
        return f"the runner-up takes {ratio:.3g} times as long"
    return (
        f"the time of the runner-up in the log is {ratio:.3g} of that of the best, which was "
        "faster when the leaders were timed in turns"
    )


def _ratio_text(one: float, other: float) -> str:
    if one == other:
        return "x 1"
    return f"x {one / other:.3g}" if other else "more"
