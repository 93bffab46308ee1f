"""One trial as one JSON object that stands alone.

    {"v": 5, "task": "9f...", "target": {...}, "variant": "direct", "steps": [...],
     "decisions": {"0.1@1": 4}, "phase": "trial", "result": {"seconds": [...],
     "cache_state": "warm", "error": 1e-7}, "seed": 0, "versions": {"autosched": "0.1.0"},
     "time": 1.7e9, "trial": 12, "predicted": 1.2e-4, "crc32": "0a1b2c3d"}

The number of the trial and what the search predicted are there where they are known, and so is
"build_s" in a timing; version 4 had none of them.  Timings of a variant that changes the arithmetic
have ``"variant_errors": [3e-7, 2e-7]``, too.  A failed trial has
``"result": {"stage": "compile", "kind": "...", "message": "..."}``.  Steps call stages, axes and
loops by position and decisions by number, see ``sketch.schedule.step_json``.

Versions 1 to 3 called everything by name, those of the program in the field "names".  Version 1 had
no checksum, and LLVM's whole list of features in the target.  From version 3 on, logs hold only
once what many records share, see ``records.shared``.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Literal, cast, get_args

from autosched.measure.result import Failure, MeasureResult
from autosched.records import fields
from autosched.records.checksum import FIELD as CHECKSUM
from autosched.records.checksum import canonical, checksum, with_checksum
from autosched.records.errors import RecordError
from autosched.records.identity import recorded
from autosched.records.old_names import Names, positions
from autosched.records.title import Title
from autosched.tasks.candidate import Candidate
from sketch.errors import ScheduleError, TargetError, quoted
from sketch.lang.kept import kept
from sketch.population.recorded_range import check_steps, check_structure
from sketch.schedule.sketch import Sketch, sketch_from_steps
from sketch.schedule.step_json import steps_to_json
from sketch.schedule.step_reading import steps_from_json
from sketch.target.target import Target

if TYPE_CHECKING:
    from sketch.dag.dag import ComputeDAG

SCHEMA_VERSION: Final = 5
# The newest schema whose steps call stages, axes and decisions by name.
BY_NAME: Final = 3
# The newest of them whose lines stand alone.
_ALONE_BY_NAME: Final = 2
# Lines of this schema have no checksum.
_WITHOUT_CHECKSUM: Final = 1
_NONE: Final[Mapping[str, Sketch]] = MappingProxyType({})
Phase = Literal["trial", "final"]
Reader = Callable[[Any], Any]
PHASES: Final[tuple[Phase, ...]] = get_args(Phase)


@dataclass(frozen=True, slots=True)
class Record:
    """One measured candidate.

    Attributes:
        task: key of the task.
        target: the machine it was measured on.
        variant: name of the variant that the sketch computes.
        steps: the sketch's steps as JSON values; replay uses these, never regenerated sketches.
        decisions: the value of each decision, as it is printed; steps call them by their number.
        result: a timing or the reason why there is none.
        phase: "trial" for a burst of runs, "final" for an interleaved re-measurement.
        seed: seed of the run that proposed the candidate.
        versions: software versions, by name.
        time: seconds since 1970.
        trial: its number among the trials of its task, from 1, failures and earlier runs included;
            None: unknown.
        predicted: what the search ranked it by, see ``Candidate``.
        by_name: whether steps and decisions are by name, as in logs of older schemas.
        names: these names; None for those of the program.
        title: of the task, for people; None where the log does not say.
        where: file and line that it was read from, for messages.
    """

    task: str
    target: Target
    variant: str
    steps: tuple[Mapping[str, Any], ...]
    decisions: Mapping[str, int]
    result: MeasureResult
    phase: Phase = "trial"
    seed: int = 0
    versions: Mapping[str, str] = field(default_factory=dict)
    time: float = 0.0
    trial: int | None = None
    predicted: float | None = None
    by_name: bool = False
    names: Names | None = None
    title: Title | None = field(default=None, compare=False, repr=False)
    where: str = field(default="", compare=False, repr=False)
    _key: str = field(default="", init=False, compare=False, repr=False)

    @property
    def candidate_key(self) -> str:
        """Equal for records of the same candidate of the same task, on any target.

        Records by name and by position have different keys, see ``search.by_position``.
        """
        if not self._key:  # it is asked for again and again
            words = canonical([self.task, self.variant, self.by_name])
            key = f"{words}{_text_of(_Same(self.steps))}{canonical(self.decisions)}"
            object.__setattr__(self, "_key", key)
        return self._key

    @property
    def sketch_key(self) -> str:
        """Equal for records of one sketch of one task, on any target: 8 hex digits."""
        words = canonical([self.by_name, self.task, self.variant])
        text = f"{words[:-1]},{_text_of(_Same(self.steps))}]"
        return hashlib.sha256(text.encode()).hexdigest()[:8]

    def candidate(
        self, dag: ComputeDAG, target: Target | None = None, known: Mapping[str, Sketch] = _NONE
    ) -> Candidate:
        """The candidate again, by replaying the record's own steps on the variant's ``dag``.

        Args:
            dag: of the variant.
            target: replay for another machine than the record's, as a seed.
            known: sketches of ``dag`` for that machine, by their keys: of what is one of them, the
                steps are right.

        Raises:
            ScheduleError: the steps do not fit ``dag``, or make no reasonable schedule of it.
        """
        check_steps(dag, self.steps)
        written, places = self.steps, tuple(self.decisions)
        if self.by_name:
            written, places = positions(dag, self.names, written, places)
        steps, decisions = steps_from_json(dag, written, places)
        values = dict(zip(decisions, self.decisions.values(), strict=True))
        if known:
            own = known.get(Sketch(dag, steps, target or self.target, self.variant).key)
            if own is not None:
                return Candidate(own, values)
        sketch = sketch_from_steps(dag, steps, self.variant, target or self.target)
        check_structure(sketch)
        return Candidate(sketch, values)


@dataclass(frozen=True, slots=True, eq=False)
class _Same:
    """Steps by where they are in memory: the records of a sketch share them."""

    steps: tuple[Mapping[str, Any], ...]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self.steps is other.steps

    def __hash__(self) -> int:
        return id(self.steps)


@lru_cache(maxsize=4096)  # keeps the steps, too: nothing else comes to be where they are
def _text_of(steps: _Same) -> str:
    return canonical(steps.steps)


def record_of(
    task_key: str,
    candidate: Candidate,
    target: Target,
    result: MeasureResult,
    *,
    phase: Phase = "trial",
    seed: int = 0,
    versions: Mapping[str, str] | None = None,
    time: float = 0.0,
    trial: int | None = None,
    title: Title | None = None,
) -> Record:
    """The record of a measured candidate.

    Args:
        task_key: of the task.
        candidate: sketch and decisions.
        target: the machine it ran on.
        result: times or a failure.
        phase: of the run: a trial, or a comparison at its end.
        seed: of the run that proposed the candidate.
        versions: of the software; None: those of this process.
        time: of the measurement, in seconds since 1970.
        trial: its number among those of the task.
        title: of the task, for people.
    """
    sketch = candidate.sketch
    steps, decisions = _stored(sketch)
    values = [int(candidate.values[decision.id]) for decision in sketch.decisions]
    return Record(
        task_key,
        recorded(target),
        sketch.variant,
        steps,
        dict(zip(decisions, values, strict=True)),
        result,
        phase,
        seed,
        versions or {},
        time,
        trial,
        None if candidate.predicted is None else _short(candidate.predicted),
        title=title,
    )


@kept
def _stored(sketch: Sketch) -> tuple[tuple[Mapping[str, Any], ...], tuple[str, ...]]:
    """The steps as JSON values, and the decisions as they are printed."""
    decisions = [decision.id for decision in sketch.decisions]
    return steps_to_json(sketch.program, sketch.steps, decisions)


def to_json(record: Record) -> dict[str, Any]:
    """The JSON object of a record that stands alone, with its checksum."""
    shared = {**session_json(record), **sketch_json(record)}
    return with_checksum({**shared, **measured_json(record)})


def session_json(record: Record) -> dict[str, Any]:
    """The schema, and the fields that records of one session share."""
    return {
        "v": _version(record),
        "target": recorded(record.target).compact_json(),
        "versions": dict(record.versions),
    }


def sketch_json(record: Record) -> dict[str, Any]:
    """The schema, and the fields that records of one sketch share; with its decisions."""
    data: dict[str, Any] = {
        "v": _version(record),
        "task": record.task,
        "variant": record.variant,
        "steps": [dict(step) for step in record.steps],
        "decisions": dict(record.decisions),
    }
    if record.names is not None:
        stages = [[stage, list(axes)] for stage, axes in record.names.stages]
        data["names"] = {"inputs": list(record.names.inputs), "stages": stages}
    return data


def _version(record: Record) -> int:
    return _ALONE_BY_NAME if record.by_name else SCHEMA_VERSION


def measured_json(record: Record) -> dict[str, Any]:
    """The fields of a record that it shares with no other."""
    data: dict[str, Any] = {
        "result": _result_to_json(record.result),
        "phase": record.phase,
        "seed": record.seed,
        "time": record.time,
    }
    for name in _MEASURED_KNOWN:
        if getattr(record, name) is not None:
            data[name] = getattr(record, name)
    return data


def _result_to_json(result: MeasureResult) -> dict[str, Any]:
    if isinstance(result, Failure):
        return {"stage": result.stage, "kind": result.kind, "message": result.message}
    data: dict[str, Any] = {"seconds": list(result.seconds), "cache_state": result.cache_state}
    if result.error is not None:
        data["error"] = result.error
    if result.variant_errors:
        data["variant_errors"] = list(result.variant_errors)
    if result.build_s is not None:
        data["build_s"] = _short(result.build_s)
    return data


def _short(value: float) -> float:
    """Three digits: enough to compare, and few bytes."""
    return float(f"{value:.3g}")


def from_json(data: Any, where: str = "") -> Record:
    """The inverse of ``to_json``; also reads objects of older schemas.

    Raises:
        RecordError: a newer schema, a wrong checksum, a field that is missing or unknown, or a
            value of a wrong type or size; says which.
    """
    if not isinstance(data, dict):
        raise RecordError(f"a record must be a JSON object, got {type(data).__name__}", where)
    check_schema(data, where)
    by_name = data["v"] <= BY_NAME
    readers = {**_READERS, **_NAMES} if by_name else _READERS
    return Record(**read_fields(data, readers, where), by_name=by_name, where=where)


def read_fields(
    data: Mapping[str, Any], readers: Mapping[str, Reader], where: str
) -> dict[str, Any]:
    """The value of each field of a line, by name, besides its schema and checksum.

    Raises:
        RecordError: a field is missing or unknown, or has a wrong value.
    """
    unknown = sorted(data.keys() - readers.keys() - {"v", CHECKSUM})
    if unknown:
        raise RecordError(f"field {quoted(unknown[0])} is unknown", where)
    missing = readers.keys() - data.keys() - _OPTIONAL
    found: dict[str, Any] = {}
    try:
        for name, read in readers.items():
            if name in missing:
                raise RecordError(f"field {name!r} is missing", where)
            found[name] = read(data.get(name))
    except (TypeError, ValueError, OverflowError, TargetError, ScheduleError) as error:
        raise RecordError(f"field {name!r} has a wrong value: {error}", where) from error
    return found


def check_schema(data: object, where: str = "", intact: bool = False) -> None:
    """Raise RecordError unless ``data`` is whole and names a schema that this release reads.

    ``intact``: another hash has told already that it is as it was written.
    """
    if not isinstance(data, dict):
        raise RecordError(f"{quoted(data)} is no record", where)
    version = data.get("v")
    if type(version) is not int or version < 1:
        raise RecordError(f"record schema {quoted(version)} is unknown", where)
    if not intact and CHECKSUM in data and data[CHECKSUM] != checksum(data):
        raise RecordError("damaged: the checksum is of something else", where)
    if version > SCHEMA_VERSION:
        raise NewerSchemaError(
            f"record schema {quoted(version)} is newer than {SCHEMA_VERSION}, which this release "
            "reads",
            where,
            "update autosched, or use another log",
        )
    if version > _WITHOUT_CHECKSUM and CHECKSUM not in data:
        raise RecordError("damaged: the checksum is missing", where)


class NewerSchemaError(RecordError):
    """A log was written by a newer release."""


def _phase(value: Any) -> Phase:
    return cast(Phase, fields.one_of(value, PHASES, "phase"))


_READERS: Final[Mapping[str, Reader]] = {
    "task": fields.name,
    "target": fields.target,
    "variant": fields.name,
    "steps": fields.steps,
    "decisions": fields.decisions,
    "result": fields.result,
    "phase": _phase,
    "seed": fields.seed,
    "versions": fields.versions,
    "time": fields.moment,
    "trial": fields.trial,
    "predicted": fields.predicted,
}
_NAMES: Final[Mapping[str, Reader]] = {"names": fields.names}
# What all records of one session say, all of one sketch, and each trial for itself.
SESSION_READERS: Final = {name: _READERS[name] for name in ("target", "versions")}
SKETCH_READERS: Final = {name: _READERS[name] for name in ("task", "variant", "steps")}
NAMED_READERS: Final = {**SKETCH_READERS, **_NAMES}
TRIAL_READERS: Final = {
    name: _READERS[name] for name in ("result", "phase", "seed", "time", "trial", "predicted")
}
_MEASURED_KNOWN: Final = ("trial", "predicted")
_OPTIONAL: Final = frozenset(("names", *_MEASURED_KNOWN))
