"""From the bytes of a log to its records: lines that cannot be read become warnings."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from io import BytesIO
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
    references,
)
from autosched.records.title import Title, is_title, read_title
from autosched.system.numbers import counted
from autosched.system.optional_packages import data_frame
from autosched.system.user_warnings import notify
from sketch.errors import quoted

NO_LOG: Final = "this is no log: none of its lines is a record"
NO_LOG_HINT: Final = "name a log that tuning wrote, or a new file"
_MOST_WARNINGS: Final = 8  # of one log


@dataclass(frozen=True, slots=True)
class RecordSet:
    """What a log holds.

    Attributes:
        records: in the order they were appended.
        warnings: one line of text per line that was skipped, with file and line number; of many
            the first ones, and how many more there are.
        missing: the name of the log, where there is no such log; else empty.
    """

    records: tuple[Record, ...]
    warnings: tuple[str, ...] = ()
    missing: str = ""

    def __repr__(self) -> str:
        records = counted(len(self.records), "record")
        tasks = counted(len({record.task for record in self.records}), "task")
        skipped = f", {counted(len(self.warnings), 'warning')}" if self.warnings else ""
        return f"RecordSet({records} of {tasks}{skipped})"

    def to_pandas(self) -> Any:
        """A pandas DataFrame: one row a record, the columns of ``rows.row_of``.

        Warns of a log that does not exist, of which the table is empty.

        Raises:
            MissingPackageError: pandas is not installed.
        """
        from autosched.records.rows import COLUMNS, row_of

        self._tell_missing()
        return data_frame([row_of(record) for record in self.records], COLUMNS)

    def to_csv(self, path: str | os.PathLike[str]) -> None:
        """Write the same table as CSV; raises RecordError when the file cannot be written."""
        from autosched.records.rows import write_csv

        self._tell_missing()
        write_csv(self.records, path)

    def _tell_missing(self) -> None:
        if self.missing:
            notify([f"log {self.missing} does not exist: the table is empty"])

    def unmatched(self, log: str, what: str) -> str:
        """One line where it has no record of ``what``, such as "network mlp"; empty where it has.

        ``log``: its name.
        """
        if self.records:
            return ""
        if self.missing:
            return f"log {log} does not exist: {what} has no records"
        return f"log {log}: none of its records is for {what}"


def parse_lines(text: bytes, where: str, tasks: Collection[str] | None = None) -> RecordSet:
    """Records from the bytes of a log.

    The text is gone through twice, and no line is kept: a trial may stand before a copy of its
    header, as in joined files.

    Args:
        text: lines; the last one may be torn.
        where: names it in warnings.
        tasks: only of the tasks with these keys.  Trials of others are not parsed, so nothing is
            said of those that are damaged.

    Raises:
        RecordError: there are lines, and we wrote none of them.
        NewerSchemaError: a line was written by a newer release.
    """
    reader = _Reader(text, where)
    reader.read_shared()
    records = tuple(reader.records(tasks))
    warnings = reader.warnings()
    if warnings and not records and not any(map(looks_recorded, BytesIO(text))):
        raise RecordError(f"{NO_LOG}; {warnings[0]}", where, NO_LOG_HINT)
    return RecordSet(records, warnings)


def told(warnings: Sequence[str], where: str) -> tuple[str, ...]:
    """Warnings as somebody reads them: of many the first ones, and how many more there are."""
    if len(warnings) <= _MOST_WARNINGS:
        return tuple(warnings)
    more = len(warnings) - _MOST_WARNINGS
    return *warnings[:_MOST_WARNINGS], f"{where}: skipped: {more} more"


class _Reader:
    """The lines of a log by number, and why some of them are skipped."""

    def __init__(self, text: bytes, where: str) -> None:
        self._text, self._where = text, where
        self._titles: dict[str, Title] = {}
        self._headers: dict[str, Header] = {}
        self._shared: set[int] = set()  # titles and headers
        self._skipped: dict[int, str] = {}
        self._damaged: dict[str, int] = {}  # headers
        self._orphans: dict[str, list[int]] = {}  # trials by their missing headers

    def read_shared(self) -> None:
        """Titles, the last of each task, and headers."""
        for number, line in enumerate(BytesIO(self._text), start=1):
            for value in self._values(number, line) if references(line) is None else ():
                if is_title(value):
                    self._read_title(number, value)
                elif is_header(value):
                    self._read_header(number, value)

    def records(self, tasks: Collection[str] | None) -> Iterator[Record]:
        """In the order of their lines."""
        for number, line in enumerate(BytesIO(self._text), start=1):
            if number in self._shared or number in self._skipped or self._is_foreign(line, tasks):
                continue
            for value in self._values(number, line):
                record = self._record(number, value)
                if record is not None and (tasks is None or record.task in tasks):
                    yield record

    def warnings(self) -> tuple[str, ...]:
        """One for each line that was skipped, and for each header that is missing."""
        skipped = dict(self._skipped)
        torn = 1 + self._text.count(b"\n")  # of a whole log there is no such line
        if torn in skipped:
            skipped[torn] = "the last line is torn (its writer died)"
        for key, places in self._orphans.items():
            skipped[places[0]] = _orphaned(key, len(places) - 1, self._damaged.get(key))
        return told(
            [f"{self._place(n)}: skipped: {why}" for n, why in sorted(skipped.items())], self._where
        )

    def _place(self, number: int) -> str:
        return f"{self._where}:{number}"

    def _values(self, number: int, line: bytes) -> tuple[Any, ...]:
        """One, or none: the line is blank, or skipped."""
        if not line.strip():
            return ()
        try:
            return (decode_line(line.removesuffix(b"\n"), self._place(number)),)
        except RecordError as error:
            self._skipped[number] = error.what
            return ()

    def _read_title(self, number: int, value: Any) -> None:
        self._shared.add(number)
        try:
            check_schema(value, self._place(number))
            task, title = read_title(value, self._place(number))
            self._titles[task] = title
        except NewerSchemaError:
            raise
        except RecordError as error:
            self._skipped[number] = error.what

    def _read_header(self, number: int, value: Any) -> None:
        self._shared.add(number)
        try:
            header = read_header(value, self._place(number))
            self._headers[header.key] = header
        except RecordError as error:
            self._skipped[number] = error.what
            self._damaged[str(value["header"])] = number

    def _is_foreign(self, line: bytes, tasks: Collection[str] | None) -> bool:
        """Whether a line is a trial of another task."""
        found = None if tasks is None else references(line)
        header = None if found is None else self._headers.get(found[1])
        return header is not None and header.values.get("task") not in (tasks or ())

    def _record(self, number: int, value: Any) -> Record | None:
        place = self._place(number)
        try:
            if is_trial(value):
                return read_trial(value, self._headers, place, self._titles)
            return _titled(from_json(value, place), self._titles)
        except NewerSchemaError:
            raise
        except MissingHeaderError as error:
            self._orphans.setdefault(error.key, []).append(number)
        except RecordError as error:
            self._skipped[number] = error.what
        return None


def _titled(record: Record, titles: Mapping[str, Title]) -> Record:
    """A line that stands alone is told its title afterwards."""
    title = titles.get(record.task)
    return record if title is record.title else replace(record, title=title)


def _orphaned(key: str, others: int, line: int | None) -> str:
    """Why trials are skipped: ``others`` more than the one that the warning is for."""
    also = f", and {others} more of it" if others else ""
    state = "is missing or torn" if line is None else f"of line {line} is damaged"
    return f"its header {quoted(key)} {state}{also}"
