"""One trial as one JSON object, schema version 1.

    {"v": 1, "task": "9f...", "target": {...}, "variant": "direct", "steps": [...],
     "decisions": {"i_0": 4}, "phase": "trial", "result": {"seconds": [...], "cache_state": "warm",
     "error": 1e-7}, "seed": 0, "versions": {"autosched": "0.1.0"}, "time": 1.7e9}

A failed trial has ``"result": {"stage": "compile", "kind": "...", "message": "..."}``.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, cast, get_args

from autosched.measure.protocol import Candidate
from autosched.measure.result import STAGES, Failure, MeasureResult, Timing
from autosched.records.errors import RecordError
from sketch.errors import TargetError
from sketch.rename import Names, names_of, rename
from sketch.sketch import sketch_from_steps
from sketch.steps import step_from_json, step_to_json
from sketch.target import Target

if TYPE_CHECKING:
    from sketch.dag import ComputeDAG

SCHEMA_VERSION: Final = 1
Phase = Literal["trial", "final"]
PHASES: Final[tuple[Phase, ...]] = get_args(Phase)


@dataclass(frozen=True, slots=True)
class Record:
    """One measured candidate.

    Attributes:
        task: key of the task.
        target: the machine it was measured on.
        variant: name of the variant that the sketch computes.
        steps: the sketch's steps as JSON values; replay uses these, never regenerated sketches.
        decisions: the value of each decision, by name.
        result: a timing or the reason why there is none.
        phase: "trial" for a burst of runs, "final" for an interleaved re-measurement.
        seed: seed of the run that proposed the candidate.
        versions: software versions, by name.
        time: seconds since 1970.
        names: names that the steps use; a program of the same structure may have others.
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
    names: Names | None = None

    @property
    def candidate_key(self) -> str:
        """Equal for records of the same candidate of the same task, on any target."""
        program = [self.task, self.variant, list(self.steps), dict(self.decisions)]
        return json.dumps(program, sort_keys=True, separators=(",", ":"))

    def candidate(self, dag: ComputeDAG, target: Target | None = None) -> Candidate:
        """The candidate again, by replaying the record's own steps on the variant's ``dag``.

        ``target``: replay for another machine than the record's, as a seed.
        """
        steps = tuple(step_from_json(dict(step)) for step in self.steps)
        decisions = dict(self.decisions)
        if self.names is not None:
            steps, decisions = rename(steps, decisions, self.names, dag)
        sketch = sketch_from_steps(dag, steps, self.variant, target or self.target)
        return Candidate(sketch, decisions)


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
) -> Record:
    """The record of a measured candidate."""
    steps = tuple(step_to_json(step) for step in candidate.sketch.steps)
    decisions = {name: int(value) for name, value in candidate.values.items()}
    variant = candidate.sketch.variant
    return Record(
        task_key,
        target,
        variant,
        steps,
        decisions,
        result,
        phase,
        seed,
        versions or {},
        time,
        names_of(candidate.sketch.dag),
    )


def to_json(record: Record) -> dict[str, Any]:
    """The JSON object of a record."""
    data = {
        "v": SCHEMA_VERSION,
        "task": record.task,
        "target": record.target.to_json(),
        "variant": record.variant,
        "steps": [dict(step) for step in record.steps],
        "decisions": dict(record.decisions),
        "phase": record.phase,
        "result": _result_to_json(record.result),
        "seed": record.seed,
        "versions": dict(record.versions),
        "time": record.time,
    }
    if record.names is None:
        return data
    stages = [[stage, list(axes)] for stage, axes in record.names.stages]
    return data | {"names": {"inputs": list(record.names.inputs), "stages": stages}}


def _names_from_json(data: Any) -> Names | None:
    if data is None:
        return None
    stages = tuple((str(stage), tuple(map(str, axes))) for stage, axes in data["stages"])
    return Names(tuple(map(str, data["inputs"])), stages)


def _result_to_json(result: MeasureResult) -> dict[str, Any]:
    if isinstance(result, Failure):
        return {"stage": result.stage, "kind": result.kind, "message": result.message}
    data: dict[str, Any] = {"seconds": list(result.seconds), "cache_state": result.cache_state}
    return data if result.error is None else data | {"error": result.error}


def from_json(data: Any, where: str = "") -> Record:
    """The inverse of ``to_json``.

    Raises:
        RecordError: a newer schema, a missing field, or a value of a wrong type; says which.
    """
    if not isinstance(data, dict):
        raise RecordError(f"a record must be a JSON object, got {type(data).__name__}", where)
    check_schema(data, where)
    return Record(**{name: _field(name, read, data, where) for name, read in _READERS.items()})


def _field(name: str, read: Callable[[Any], Any], data: Mapping[str, Any], where: str) -> Any:
    if name not in data and name not in _OPTIONAL:
        raise RecordError(f"field {name!r} is missing", where)
    try:
        return read(data.get(name))
    except KeyError as error:
        raise RecordError(f"field {name!r} lacks {error}", where) from error
    except (TypeError, ValueError, AttributeError, OverflowError, TargetError) as error:
        raise RecordError(f"field {name!r} has a wrong value: {error}", where) from error


def check_schema(data: Mapping[str, Any], where: str = "") -> None:
    """Raise RecordError unless ``data`` names a schema version that this release reads."""
    version = data.get("v")
    if version == SCHEMA_VERSION:
        return
    if isinstance(version, int) and version > SCHEMA_VERSION:
        raise NewerSchemaError(
            f"record schema {version} is newer than {SCHEMA_VERSION}, which this release reads",
            where,
            "update autosched, or use another log",
        )
    raise RecordError(f"record schema {version!r} is unknown", where)


class NewerSchemaError(RecordError):
    """A log was written by a newer release."""


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{value!r} is no text")
    return value


def _number(value: Any) -> float:
    if not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(f"{value!r} is no finite number")
    return float(value)


def _phase(value: Any) -> Phase:
    if value not in PHASES:
        raise ValueError(f"phase {value!r} is not one of {', '.join(PHASES)}")
    return cast(Phase, value)


def _result_from_json(data: Mapping[str, Any]) -> MeasureResult:
    if "seconds" in data:
        error = data.get("error")
        seconds = tuple(map(_number, data["seconds"]))
        return Timing(seconds, data["cache_state"], None if error is None else _number(error))
    if data["stage"] not in STAGES:
        raise ValueError(f"stage {data['stage']!r} is not one of {', '.join(STAGES)}")
    return Failure(data["stage"], str(data["kind"]), str(data["message"]))


_READERS: Final[Mapping[str, Callable[[Any], Any]]] = {
    "task": _text,
    "target": Target.from_json,
    "variant": _text,
    "steps": lambda steps: tuple(dict(step) for step in steps),
    "decisions": lambda values: {str(name): int(value) for name, value in values.items()},
    "result": _result_from_json,
    "phase": _phase,
    "seed": int,
    "versions": lambda values: {str(name): str(value) for name, value in values.items()},
    "time": _number,
    "names": _names_from_json,
}
_OPTIONAL: Final = ("names",)
