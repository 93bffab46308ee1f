"""Records as rows of the tables, and back."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from autosched.measure.result import Timing
from autosched.records.errors import RecordError
from autosched.records.line import decode_line
from autosched.records.reading import RecordSet, told
from autosched.records.record import (
    SCHEMA_VERSION,
    NewerSchemaError,
    Record,
    check_schema,
)
from autosched.records.shared import Header, Splitter, encoded, read_header, read_trial
from autosched.records.title import Title, read_title, title_line
from sketch.target.target import Target

Row = dict[str, Any]
RecordRow = tuple[int, str, bytes]
"""Number, line and digest."""
_PLACE = ("task", "machine", "variant", "state")
_DIGEST_BYTES = 16
# What fits a signed integer of eight bytes.
_CANDIDATE_BYTES = 8
_MACHINE_BYTES = 8


@dataclass(slots=True)
class Rows:
    """What a batch adds to each table; headers and titles once, by their key."""

    sessions: dict[str, Row] = field(default_factory=dict)
    sketches: dict[str, Row] = field(default_factory=dict)
    titles: dict[str, Row] = field(default_factory=dict)
    records: list[Row] = field(default_factory=list)
    places: dict[tuple[str, ...], Row] = field(default_factory=dict)

    @property
    def digests(self) -> set[bytes]:
        """Of the records."""
        return {row["digest"] for row in self.records}


def rows_of(records: Iterable[Record]) -> Rows:
    """The rows of a batch."""
    found, splitter = Rows(), Splitter()
    for record in records:
        if record.title is not None and record.task not in found.titles:
            line = title_line(SCHEMA_VERSION, record.task, record.title)
            found.titles[record.task] = {"task": record.task, "line": _text(line)}
        (session, sketch), trial = splitter.split(record)
        if session["header"] not in found.sessions:
            found.sessions[session["header"]] = _session_row(session)
        if sketch["header"] not in found.sketches:
            row = {"key": sketch["header"], "task": record.task, "line": _text(sketch)}
            found.sketches[row["key"]] = row
        machine = found.sessions[session["header"]]["machine"]
        row = _record_row(record, trial, machine)
        found.records.append(row)
        place = record.task, machine, record.variant, row["state"] or ""
        if place not in found.places:
            found.places[place] = dict(zip(_PLACE, place, strict=True))
    return found


def _session_row(header: Mapping[str, Any]) -> Row:
    machine = hashlib.sha256(encoded(header["target"])).hexdigest()[: 2 * _MACHINE_BYTES]
    return {"key": header["header"], "machine": machine, "line": _text(header)}


def _record_row(record: Record, trial: Mapping[str, Any], machine: str) -> Row:
    line = encoded(trial)
    result = record.result
    timing = result if isinstance(result, Timing) else None
    program = hashlib.sha256(encoded([trial["sketch"], trial["values"]])).digest()
    errors = () if timing is None else timing.variant_errors
    return {
        "digest": _digest(line),
        "task": record.task,
        "machine": machine,
        "variant": record.variant,
        "candidate": int.from_bytes(program[:_CANDIDATE_BYTES], signed=True),
        "phase": record.phase,
        "state": None if timing is None else timing.cache_state,
        "seconds": None if timing is None else timing.median,
        "error": None if timing is None else timing.error,
        "variant_error": max(errors, default=None),
        "line": line.decode(),
    }


def _digest(line: bytes) -> bytes:
    return hashlib.sha256(line).digest()[:_DIGEST_BYTES]


def _text(line: Mapping[str, Any]) -> str:
    return encoded(line).decode()


def text_of(line: object) -> str:
    """A line as it comes from a database; SQLite has columns of text that hold bytes, too."""
    return line.decode(errors="replace") if isinstance(line, bytes) else str(line)


@dataclass(slots=True)
class RowReader:
    """From rows to records; a row that cannot be read becomes a warning.

    Attributes:
        where: the store, for messages.
    """

    where: str
    _headers: dict[str, Header] = field(default_factory=dict)
    _titles: dict[str, Title] = field(default_factory=dict)
    _records: list[Record] = field(default_factory=list)
    _warnings: list[str] = field(default_factory=list)

    def headers(self, rows: Iterable[tuple[str, str]]) -> None:
        """Keys and lines of headers; trials need theirs first."""
        for key, line in rows:
            place = f"{self.where}: header {key}"
            try:
                header = read_header(decode_line(text_of(line).encode(), place), place, True)
                self._headers[header.key] = header
            except NewerSchemaError:
                raise
            except RecordError as error:
                self._skip(place, error)

    def titles(self, rows: Iterable[tuple[str, str]]) -> None:
        """Keys of tasks, and the lines of their titles."""
        for key, line in rows:
            place = f"{self.where}: title of {key}"
            try:
                value = decode_line(text_of(line).encode(), place)
                check_schema(value, place)
                task, title = read_title(value, place)
                self._titles[task] = title
            except NewerSchemaError:
                raise
            except RecordError as error:
                self._skip(place, error)

    def targets(self) -> dict[str, Target]:
        """Machines by the key of the header of a session."""
        return {
            key: header.values["target"]
            for key, header in self._headers.items()
            if "target" in header.values
        }

    def records(self, rows: Iterable[RecordRow]) -> None:
        """Rows of records."""
        for number, text, digest in rows:
            place, line = f"{self.where}: record {number}", text_of(text).encode()
            try:
                value, intact = decode_line(line, place), digest == _digest(line)
                record = read_trial(value, self._headers, place, self._titles, intact)
            except NewerSchemaError:
                raise
            except RecordError as error:
                self._skip(place, error)
                continue
            self._records.append(record)

    def found(self) -> RecordSet:
        """All that could be read."""
        return RecordSet(tuple(self._records), told(self._warnings, self.where))

    def _skip(self, place: str, error: RecordError) -> None:
        self._warnings.append(f"{place}: skipped: {error.what}")
