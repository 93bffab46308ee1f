"""Reading the fields of a record: every value is checked before it is believed.

Each function raises ValueError (or TargetError, ScheduleError) where a value is not what it must
be, and says which.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final, cast

from autosched.measure.result import CACHE_STATES, STAGES, Failure, MeasureResult, Timing
from autosched.records.old_names import Names
from autosched.system.json_values import json_list, json_number, json_object, json_text
from sketch.errors import quoted
from sketch.schedule.step_fields import is_count, is_text, is_writable
from sketch.schedule.step_reading import check_step
from sketch.target.target import Target

# Seconds that some run of a kernel can take: from a picosecond to thirty years.
_FASTEST_S: Final = 1e-12
_SLOWEST_S: Final = 1e9
# Versions and seeds are kept, not computed with; more digits are no seed that anybody gave.
_MOST_BITS: Final = 256


def name(value: Any) -> str:
    """Text that names something."""
    if not is_text(value):
        raise ValueError(f"{quoted(value)} is no name")
    return cast(str, value)


def text(value: Any) -> str:
    """Any text, such as a message."""
    if not is_writable(json_text(value)):
        raise ValueError(f"{quoted(value)} is no text")
    return cast(str, value)


def number(value: Any) -> float:
    """A finite number."""
    return float(json_number(value))


def moment(value: Any) -> float:
    """Seconds since 1970."""
    found = number(value)
    if found < 0:
        raise ValueError(f"{quoted(value)} is no time")
    return found


def seed(value: Any) -> int:
    """The seed of a run."""
    if type(value) is not int or value.bit_length() > _MOST_BITS:
        raise ValueError(f"{quoted(value)} is no seed")
    return value


def one_of(value: Any, known: tuple[str, ...], what: str) -> str:
    """A word of a list."""
    if not isinstance(value, str) or value not in known:
        raise ValueError(f"{what} {quoted(value)} is not one of {', '.join(known)}")
    return value


def decisions(value: Any) -> dict[str, int]:
    """Whole numbers by name; whether a sketch can take them is seen when it is replayed."""
    for key, entry in json_object(value).items():
        if not is_text(key) or not is_count(entry, 0):
            raise ValueError(f"{quoted(key)} is {quoted(entry)}")
    return dict(value)


def name_list(value: Any) -> tuple[str, ...]:
    """Names, each of them once."""
    found = tuple(map(name, json_list(value)))
    if len(set(found)) < len(found):
        raise ValueError("a name is given twice")
    return found


def counts(value: Any) -> tuple[int, ...]:
    """Whole numbers from 0."""
    for entry in json_list(value):
        if not is_count(entry, 0):
            raise ValueError(f"{quoted(entry)} is no count")
    return tuple(value)


def trial(value: Any) -> int | None:
    """The number of a trial, from 1; None: the line does not say."""
    if value is not None and not is_count(value, 1):
        raise ValueError(f"{quoted(value)} is no number of a trial")
    return cast("int | None", value)


def predicted(value: Any) -> float | None:
    """What ranked a candidate, positive; None: nothing did."""
    found = None if value is None else number(value)
    if found is not None and found <= 0:
        raise ValueError(f"{quoted(value)} is no predicted time")
    return found


def versions(value: Any) -> dict[str, str]:
    """Texts by name."""
    return {name(key): text(entry) for key, entry in json_object(value).items()}


def steps(value: Any) -> tuple[Mapping[str, Any], ...]:
    """Steps as JSON values, each with the fields that its kind has."""
    for step in json_list(value):
        check_step(json_object(step))
    return tuple(value)


def names(value: Any) -> Names | None:
    """Names that the steps use."""
    if value is None:
        return None
    data = _only(value, ("inputs", "stages"))
    pairs = [json_list(pair) for pair in json_list(data["stages"])]
    if any(len(pair) != 2 for pair in pairs):
        raise ValueError(f"{quoted(data['stages'])} are no stages with their axes")
    stages = tuple((name(stage), tuple(map(name, json_list(axes)))) for stage, axes in pairs)
    return Names(tuple(map(name, json_list(data["inputs"]))), stages)


def result(value: Any) -> MeasureResult:
    """A timing or a failure."""
    if "seconds" not in json_object(value):
        data = _only(value, ("stage", "kind", "message"))
        stage = one_of(data["stage"], STAGES, "stage")
        return Failure(cast(Any, stage), text(data["kind"]), text(data["message"]))
    data = _only(value, ("seconds", "cache_state"), ("error", "variant_errors", "build_s"))
    state = one_of(data["cache_state"], CACHE_STATES, "cache state")
    error = None if data.get("error") is None else _error(data["error"])
    others = tuple(map(_error, json_list(data.get("variant_errors", []))))
    seconds = tuple(map(_duration, json_list(data["seconds"])))
    build_s = None if "build_s" not in data else _duration(data["build_s"])
    return Timing(seconds, cast(Any, state), error, others, build_s)


def _error(value: Any) -> float:
    error = number(value)
    if error < 0:
        raise ValueError(f"{error} is no error of a result")
    return error


def _duration(value: Any) -> float:
    seconds = value if type(value) is float else number(value)  # no comparison holds of a NaN
    if not _FASTEST_S <= seconds <= _SLOWEST_S:
        raise ValueError(f"nothing takes {quoted(value)} seconds")
    return seconds


def target(value: Any) -> Target:
    """A machine; equal ones are one object."""
    return _target(json.dumps(json_object(value)))


@lru_cache(maxsize=64)
def _target(encoded: str) -> Target:
    return Target.from_json(json.loads(encoded))


def _only(value: Any, needed: tuple[str, ...], optional: tuple[str, ...] = ()) -> Mapping[str, Any]:
    """An object with these fields and no others."""
    data = json_object(value)
    missing = [key for key in needed if key not in data]
    if missing:
        raise ValueError(f"{missing[0]!r} is missing")
    more = sorted(set(data) - set(needed) - set(optional))
    if more:
        raise ValueError(f"{quoted(more[0])} is no field of it")
    return data
