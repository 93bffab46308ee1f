"""Lines of schemas 3 to 5: what many records share is a header, and trials refer to it.

    {"v": 5, "header": "5d0c...", "target": {...}, "versions": {...}, "crc32": "..."}
    {"v": 5, "header": "91ab...", "task": "9f...", "variant": "direct", "steps": [...],
     "decisions": ["0.0@1", "0.1@1"], "crc32": "..."}
    {"v": 5, "session": "5d0c...", "sketch": "91ab...", "values": [4, 16], "result": {...},
     "phase": "trial", "seed": 0, "time": 1.7e9, "trial": 12, "predicted": 1.2e-4, "crc32": "..."}

A header is named by a hash of what it says.  So two processes that share a log, and logs that are
joined, agree on names; a header may be there twice; and one that was altered is nobody's.

A header is written again after its first few trials, and then every so often: a line that is
damaged costs no more than those few, wherever it stands.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache, lru_cache, partial
from types import MappingProxyType
from typing import Any, Final

from autosched.records import fields
from autosched.records.checksum import FIELD as CHECKSUM
from autosched.records.checksum import canonical, with_checksum
from autosched.records.errors import RecordError
from autosched.records.line import decode_line
from autosched.records.record import (
    BY_NAME,
    NAMED_READERS,
    SCHEMA_VERSION,
    SESSION_READERS,
    SKETCH_READERS,
    TRIAL_READERS,
    Reader,
    Record,
    check_schema,
    measured_json,
    read_fields,
    session_json,
    sketch_json,
)
from autosched.records.title import Title, title_line
from sketch.errors import quoted

# How headers and trials begin that a release wrote.
_HEADER: Final = re.compile(rb'\{"v":[%d-%d],"header":' % (BY_NAME, SCHEMA_VERSION))
_KEY_DIGITS: Final = 16
_TRIAL: Final = re.compile(
    rb'\{"v":[%d-%d],"session":"([0-9a-f]{%d})","sketch":"([0-9a-f]{%d})",'
    % (BY_NAME, SCHEMA_VERSION, _KEY_DIGITS, _KEY_DIGITS)
)
# Trials after which a header is written again: its only copy, and any later one.
_TRIALS_OF_THE_FIRST: Final = 4
_TRIALS_OF_A_COPY: Final = 64
_ENCODER: Final = json.JSONEncoder(separators=(",", ":"), allow_nan=False)
_DECISIONS: Final[Mapping[str, Reader]] = {"decisions": fields.name_list}
_REFERENCES: Final[Mapping[str, Reader]] = {"session": fields.name, "sketch": fields.name}
_VALUES: Final[Mapping[str, Reader]] = {"values": fields.counts}
_TRIAL_FIELDS: Final[Mapping[str, Reader]] = {**_REFERENCES, **_VALUES, **TRIAL_READERS}


@dataclass(frozen=True, slots=True)
class Header:
    """What several records share.

    Attributes:
        key: hash of what it says, 16 hex digits.
        values: fields of a record by name; of a sketch also "decisions", their names in order.
    """

    key: str
    values: Mapping[str, Any]


class MissingHeaderError(RecordError):
    """A trial refers to a header that the log does not have, or not whole.

    Attributes:
        key: of the header.
    """

    def __init__(self, key: str, where: str) -> None:
        super().__init__(f"its header {quoted(key)} is missing", where)
        self.key = key


Line = dict[str, Any]


class Splitter:
    """Records as lines: two headers and a trial for each.

    What records share in memory, as those of one run and of one log do, is looked at once.
    """

    def __init__(self) -> None:
        # With a record that has the objects: their places in memory are not used again.
        self._sessions: dict[tuple[Any, ...], tuple[Record, Line]] = {}
        self._sketches: dict[tuple[Any, ...], tuple[Record, Line]] = {}

    def split(self, record: Record) -> tuple[tuple[Line, Line], Line]:
        """The headers of session and sketch, and the trial.

        What is by name stays so: positions are known to who has the program.
        """
        words = (record.task, record.variant, tuple(record.decisions))
        own = id(record.target), id(record.versions), record.by_name
        sketch = id(record.steps), id(record.names), record.by_name, *words
        if own not in self._sessions:
            self._sessions[own] = record, _session_header(session_json(record))
        if sketch not in self._sketches:
            self._sketches[sketch] = record, _sketch_header(sketch_json(record))
        headers = self._sessions[own][1], self._sketches[sketch][1]
        return headers, trial_of(headers, record.decisions.values(), measured_json(record))


def trial_of(
    headers: tuple[Line, Line], values: Iterable[int], measured: Mapping[str, Any]
) -> Line:
    """A trial that refers to its headers; ``measured``: the fields that it shares with no other."""
    session, sketch = headers
    return with_checksum(
        {
            "v": sketch["v"],
            "session": session["header"],
            "sketch": sketch["header"],
            "values": list(values),
            **measured,
        }
    )


def headers_of(data: Mapping[str, Any]) -> tuple[Line, Line]:
    """Of session and sketch of a record's JSON object, see ``record.to_json``."""
    return _session_header(data), _sketch_header(data)


@dataclass(frozen=True, slots=True)
class Copies:
    """How often a log has a header.

    Attributes:
        written: lines that hold it whole.
        trials: that refer to it, after the last of them.
    """

    written: int
    trials: int = 0

    @property
    def enough(self) -> bool:
        """Whether another trial may refer to it before it is written again."""
        return self.trials < (_TRIALS_OF_THE_FIRST if self.written == 1 else _TRIALS_OF_A_COPY)


def lines_of(
    records: Iterable[Record], known: Mapping[str, Copies], titled: Iterable[str] = ()
) -> Iterator[bytes]:
    """The lines of records for a log that has the headers ``known`` already, by their keys, and
    titles of the tasks ``titled``.
    """
    copies, tasks, splitter = dict(known), set(titled), Splitter()
    for record in records:
        if record.title is not None and record.task not in tasks:
            tasks.add(record.task)
            yield encoded(title_line(SCHEMA_VERSION, record.task, record.title))
        headers, trial = splitter.split(record)
        for header in headers:
            key = header["header"]
            before = copies.get(key, Copies(0))
            if not before.written or not before.enough:
                before = Copies(before.written + 1)
                yield encoded(header)
            copies[key] = replace(before, trials=before.trials + 1)
        yield encoded(trial)


def headers_in(text: bytes, before: Mapping[str, Copies] | None = None) -> dict[str, Copies]:
    """The headers in the bytes of a log by key, without those that are damaged.

    ``before``: of the part of the log that precedes them.
    """
    copies = dict(before or {})
    for line in text.split(b"\n"):
        if (key := _header_key(line) if _HEADER.match(line) else None) is not None:
            copies[key] = Copies(copies[key].written + 1 if key in copies else 1)
        elif (keys := references(line)) is not None:
            for key in keys:
                if key in copies:
                    copies[key] = replace(copies[key], trials=copies[key].trials + 1)
    return copies


# Who appends reads its own headers back, and copies of them.
@lru_cache(maxsize=4096)
def _header_key(line: bytes) -> str | None:
    try:
        return read_header(decode_line(line, ""), "").key
    except RecordError:
        return None


def references(line: bytes) -> tuple[str, str] | None:
    """The keys of session and sketch of a trial as releases write it; None: another line."""
    found = _TRIAL.match(line)
    return None if found is None else (found[1].decode(), found[2].decode())


def is_header(value: Any) -> bool:
    """Whether the JSON value of a line is a header."""
    return _is_shared(value) and "header" in value


def is_trial(value: Any) -> bool:
    """Whether the JSON value of a line is a trial that refers to headers."""
    return _is_shared(value) and "header" not in value and "task" not in value


def read_header(data: Mapping[str, Any], where: str, keyed: bool = False) -> Header:
    """The header that a line holds; ``keyed``: its key, a hash of the same fields, is enough.

    Raises:
        RecordError: its checksum or its key is of something else, or a field has a wrong value.
    """
    check_schema(data, where, keyed)
    if data.get("header") != _key(data):
        raise RecordError("damaged: the key of the header is of something else", where)
    rest = {name: value for name, value in data.items() if name != "header"}
    readers = SESSION_READERS if "target" in rest else _sketch_readers(data["v"] <= BY_NAME)
    return Header(data["header"], read_fields(rest, readers, where))


def read_trial(
    data: Mapping[str, Any],
    headers: Mapping[str, Header],
    where: str,
    titles: Mapping[str, Title] = MappingProxyType({}),
    intact: bool = False,
) -> Record:
    """The record of a trial, with what its headers say.

    Args:
        data: the JSON value of its line.
        headers: of the log, by key.
        where: of the line, for messages.
        titles: of tasks, by key.
        intact: as in ``check_schema``.

    Raises:
        MissingHeaderError: a header is not among ``headers``.
        RecordError: the checksum is of something else, or a field has a wrong value.
    """
    check_schema(data, where, intact)
    own = read_fields(data, _TRIAL_FIELDS, where)
    find = partial(_referred, headers=headers, where=where)
    session = find(own.pop("session"), SESSION_READERS)
    sketch = find(own.pop("sketch"), _sketch_readers(data["v"] <= BY_NAME))
    names, values = sketch.pop("decisions"), own.pop("values")
    if len(names) != len(values):
        raise RecordError(f"{len(values)} values are not those of {len(names)} decisions", where)
    decisions = dict(zip(names, values, strict=True))
    by_name = data["v"] <= BY_NAME
    return Record(
        **session, **sketch, **own, decisions=decisions, by_name=by_name, where=where,
        title=titles.get(sketch["task"]),
    )  # fmt: skip


@cache
def _sketch_readers(by_name: bool) -> Mapping[str, Reader]:
    return {**(NAMED_READERS if by_name else SKETCH_READERS), **_DECISIONS}


def _referred(
    key: str, wanted: Mapping[str, Reader], headers: Mapping[str, Header], where: str
) -> dict[str, Any]:
    header = headers.get(key)
    if header is None:
        raise MissingHeaderError(key, where)
    if header.values.keys() != wanted.keys():
        raise RecordError(f"header {key} is of another kind", where)
    return dict(header.values)


def _session_header(data: Mapping[str, Any]) -> Line:
    return _header(max(data["v"], BY_NAME), _part(data, SESSION_READERS))


def _sketch_header(data: Mapping[str, Any]) -> Line:
    version = max(data["v"], BY_NAME)
    content = _part(data, NAMED_READERS if version == BY_NAME else SKETCH_READERS)
    return _header(version, {**content, "decisions": list(data["decisions"])})


def _part(data: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    return {name: data[name] for name in names if name in data}


def _header(version: int, content: dict[str, Any]) -> dict[str, Any]:
    line = {"v": version, "header": _key({"v": version, **content}), **content}
    return with_checksum(line)


def _key(content: Mapping[str, Any]) -> str:
    """The name of a header: a hash of all its fields but the name itself and the checksum."""
    rest = {name: value for name, value in content.items() if name not in ("header", CHECKSUM)}
    text = canonical(rest)
    return hashlib.sha256(text.encode("ascii")).hexdigest()[:_KEY_DIGITS]


def _is_shared(value: Any) -> bool:
    return isinstance(value, dict) and value.get("v") in range(BY_NAME, SCHEMA_VERSION + 1)


def encoded(line: Any) -> bytes:
    """A JSON value as a line of a log has it."""
    return _ENCODER.encode(line).encode()
