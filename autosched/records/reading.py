"""From the bytes of a log to its records: lines that cannot be read become warnings."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from autosched.records.errors import RecordError
from autosched.records.line import decode_line, looks_recorded
from autosched.records.record import NewerSchemaError, Record, check_schema, from_json
from autosched.records.shared import (
    Header,
    MissingHeaderError,
    is_header,
    is_trial,
    read_header,
    read_trial,
)
from autosched.records.title import Title, is_title, read_title
from autosched.system.optional_packages import data_frame
from sketch.errors import quoted

NO_LOG: Final = "this is no log: none of its lines is a record"
NO_LOG_HINT: Final = "name a log that tuning wrote, or a new file"


@dataclass(frozen=True, slots=True)
class RecordSet:
    """What a log holds.

    Attributes:
        records: in the order they were appended.
        warnings: one line of text per line that was skipped, with file and line number.
    """

    records: tuple[Record, ...]
    warnings: tuple[str, ...] = ()

    def to_pandas(self) -> Any:
        """A pandas DataFrame: one row a record, the columns of ``rows.row_of``.

        Raises:
            MissingPackageError: pandas is not installed.
        """
        from autosched.records.rows import COLUMNS, row_of

        return data_frame([row_of(record) for record in self.records], COLUMNS)

    def to_csv(self, path: str | os.PathLike[str]) -> None:
        """Write the same table as CSV; raises RecordError when the file cannot be written."""
        from autosched.records.rows import write_csv

        write_csv(self.records, path)


def parse_lines(text: bytes, where: str) -> RecordSet:
    """Records from the bytes of a log; ``where`` names it in warnings.

    Headers are read first: a trial may stand before a copy of its header, as in joined files.

    Raises:
        RecordError: there are lines, and we wrote none of them.
        NewerSchemaError: a line was written by a newer release.
    """
    lines = text.split(b"\n")
    torn = len(lines)  # of a whole log the last one is empty
    skipped: dict[int, str] = {}
    values: dict[int, Any] = {}
    for number, line in enumerate(lines, start=1):
        if line.strip():
            try:
                values[number] = decode_line(line, f"{where}:{number}")
            except RecordError as error:
                skipped[number] = error.what
    titles = _titles(values, where, skipped)
    headers, damaged = _headers(values, where, skipped)
    records, orphans = _records(values, headers, titles, where, skipped)
    if torn in skipped:
        skipped[torn] = "the last line is torn (its writer died)"
    for key, places in orphans.items():
        skipped[places[0]] = _orphaned(key, len(places) - 1, damaged.get(key))
    warnings = tuple(f"{where}:{number}: skipped: {why}" for number, why in sorted(skipped.items()))
    if warnings and not records and not any(map(looks_recorded, lines)):
        raise RecordError(f"{NO_LOG}; {warnings[0]}", where, NO_LOG_HINT)
    return RecordSet(records, warnings)


def _titled(record: Record, titles: Mapping[str, Title]) -> Record:
    """A line that stands alone is told its title afterwards."""
    title = titles.get(record.task)
    return record if title is record.title else replace(record, title=title)


def _titles(values: dict[int, Any], where: str, skipped: dict[int, str]) -> dict[str, Title]:
    """Titles by the keys of their tasks, the last of each; takes them out of ``values``."""
    titles: dict[str, Title] = {}
    for number in [number for number, value in values.items() if is_title(value)]:
        value, place = values.pop(number), f"{where}:{number}"
        try:
            check_schema(value, place)
            task, title = read_title(value, place)
            titles[task] = title
        except NewerSchemaError:
            raise
        except RecordError as error:
            skipped[number] = error.what
    return titles


def _headers(
    values: dict[int, Any], where: str, skipped: dict[int, str]
) -> tuple[dict[str, Header], dict[str, int]]:
    """Headers by key, and the lines of those that cannot be read; takes them out of ``values``."""
    headers: dict[str, Header] = {}
    damaged: dict[str, int] = {}
    for number in [number for number, value in values.items() if is_header(value)]:
        value = values.pop(number)
        try:
            header = read_header(value, f"{where}:{number}")
            headers[header.key] = header
        except RecordError as error:
            skipped[number] = error.what
            damaged[str(value["header"])] = number
    return headers, damaged


def _records(
    values: Mapping[int, Any],
    headers: Mapping[str, Header],
    titles: Mapping[str, Title],
    where: str,
    skipped: dict[int, str],
) -> tuple[tuple[Record, ...], dict[str, list[int]]]:
    """The records, and the lines whose header is not there by its key."""
    records: list[Record] = []
    orphans: dict[str, list[int]] = {}
    for number, value in values.items():
        place = f"{where}:{number}"
        try:
            records.append(
                read_trial(value, headers, place, titles)
                if is_trial(value)
                else _titled(from_json(value, place), titles)
            )
        except NewerSchemaError:
            raise
        except MissingHeaderError as error:
            orphans.setdefault(error.key, []).append(number)
        except RecordError as error:
            skipped[number] = error.what
    return tuple(records), orphans


def _orphaned(key: str, others: int, line: int | None) -> str:
    """Why trials are skipped: ``others`` more than the one that the warning is for."""
    also = f", and {others} more of it" if others else ""
    state = "is missing or torn" if line is None else f"of line {line} is damaged"
    return f"its header {quoted(key)} {state}{also}"
