"""Records in a database: SQLite or PostgreSQL."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import bindparam, delete, false, select

from autosched.records.errors import RecordError
from autosched.records.log import kept_aside
from autosched.records.reading import RecordSet
from autosched.records.sql.connections import connection_to, file_of
from autosched.records.sql.failures import told_as_records
from autosched.records.sql.insert import insert_rows
from autosched.records.sql.leaders import leading_rows, machines_of
from autosched.records.sql.rows import RowReader, rows_of
from autosched.records.sql.schema import check_schema_of, upgrade
from autosched.records.sql.tables import PLACES, RECORDS, SESSIONS, SKETCHES, TITLES

if TYPE_CHECKING:
    from sqlalchemy import URL, Connection, Select, Table

    from autosched.records.record import Record
    from sketch.target.target import Target

# Rows that are fetched at a time: a store may be larger than memory is.
_FETCHED: Final = 10_000
# Records that are added in one transaction: other writers wait for it.
_ADDED: Final = 5_000
_SKETCH: Final = re.compile(r'"sketch":"([0-9a-f]{16})"')


@dataclass(frozen=True, slots=True)
class DatabaseStore:
    """A store by its URL, see ``RecordStore``.

    Attributes:
        name: the URL without its password.
    """

    _url: URL = field(repr=False)
    name: str

    def exists(self) -> bool:
        with self._tables() as connection:
            return connection is not None

    def check(self) -> None:
        self.exists()

    def check_writable(self) -> None:
        nothing = select(*RECORDS.c).where(false())
        with self._written("cannot be written") as connection:
            connection.execute(RECORDS.insert().from_select(list(RECORDS.c), nothing))

    def append(self, records: Iterable[Record]) -> None:
        batch = list(records)
        try:
            self.add_new(batch)
        except RecordError as error:
            raise kept_aside(batch, error, "URL") from None

    def add_new(self, records: Iterable[Record]) -> int:
        added, rest = 0, iter(records)
        while batch := list(islice(rest, _ADDED)):
            rows = rows_of(batch)
            with self._written(f"cannot take {len(batch)} records") as connection:
                added += insert_rows(connection, rows)
        return added

    def upgrade(self) -> None:
        """Bring the tables to the schema of this release; older releases cannot read them then.

        Raises:
            RecordError: there are none, or they cannot be written.
            NewerSchemaError: a newer release made them.
        """
        with told_as_records("cannot be upgraded", self.name):
            file = file_of(self._url)
            if file is not None and not file.exists():
                raise RecordError("the store does not exist", self.name)
            with connection_to(self._url, writes=True) as connection:
                upgrade(connection, self.name)

    def read(self, tasks: Collection[str] | None = None) -> RecordSet:
        with self._tables() as connection:
            if connection is None:
                return RecordSet((), missing=self.name)
            return _read(connection, RowReader(self.name), tasks)

    def read_best(self, tasks: Collection[str], target: Target) -> RecordSet:
        with self._tables() as connection:
            if connection is None:
                return RecordSet((), missing=self.name)
            return _read_best(connection, RowReader(self.name), tasks, target)

    def replace(self, records: Iterable[Record], of: Iterable[Record] | None = None) -> None:
        rows = rows_of(records)
        gone = None if of is None else rows_of(of).digests - rows.digests
        with self._written("cannot be replaced") as connection:
            if gone is None:
                for table in (PLACES, RECORDS, TITLES, SKETCHES, SESSIONS):
                    connection.execute(delete(table))
            elif gone:
                named = delete(RECORDS).where(RECORDS.c.digest == bindparam("gone"))
                connection.execute(named, [{"gone": digest} for digest in sorted(gone)])
            insert_rows(connection, rows)

    def state(self) -> str:
        last = select(RECORDS.c.id, RECORDS.c.digest).order_by(RECORDS.c.id.desc()).limit(1)
        with self._tables() as connection:
            row = None if connection is None else connection.execute(last).first()
        return "" if row is None else f"{row.id} {bytes(row.digest).hex()}"

    def size_bytes(self) -> int | None:
        file = file_of(self._url)
        if file is None:
            return None
        parts = [file, file.with_name(f"{file.name}-wal")]
        with told_as_records("cannot be read", self.name):
            return sum(part.stat().st_size for part in parts if part.exists())

    @contextmanager
    def _tables(self) -> Iterator[Connection | None]:
        """A connection that reads; None where there are no tables."""
        file = file_of(self._url)
        with told_as_records("cannot be read", self.name):
            if file is not None and not file.exists():
                yield None
                return
            with connection_to(self._url, writes=False) as connection:
                yield connection if check_schema_of(connection, self.name) else None

    @contextmanager
    def _written(self, what: str) -> Iterator[Connection]:
        """A connection that writes; the tables are there."""
        file = file_of(self._url)
        with told_as_records(what, self.name):
            if file is not None:
                file.parent.mkdir(parents=True, exist_ok=True)
            with connection_to(self._url, writes=True) as connection:
                if not check_schema_of(connection, self.name):
                    upgrade(connection, self.name)
                yield connection


def _read(connection: Connection, reader: RowReader, tasks: Collection[str] | None) -> RecordSet:
    def of_tasks(query: Select[Any], table: Table) -> Select[Any]:
        return query if tasks is None else query.where(table.c.task.in_(list(tasks)))

    reader.headers(connection.execute(select(SESSIONS.c.key, SESSIONS.c.line)))
    found = of_tasks(select(SKETCHES.c.key, SKETCHES.c.line), SKETCHES)
    reader.headers(connection.execute(found))
    reader.titles(connection.execute(of_tasks(select(TITLES.c.task, TITLES.c.line), TITLES)))
    query = of_tasks(select(RECORDS.c.id, RECORDS.c.line, RECORDS.c.digest), RECORDS).order_by(
        RECORDS.c.id
    )
    reader.records(connection.execute(query.execution_options(yield_per=_FETCHED)))
    return reader.found()


def _read_best(
    connection: Connection, reader: RowReader, tasks: Collection[str], target: Target
) -> RecordSet:
    reader.headers(connection.execute(select(SESSIONS.c.key, SESSIONS.c.line)))
    machines = machines_of(reader.targets(), connection)
    rows = leading_rows(connection, tasks, machines, target)
    keys = {match[1] for _, line, _ in rows if (match := _SKETCH.search(line)) is not None}
    found = select(SKETCHES.c.key, SKETCHES.c.line).where(SKETCHES.c.key.in_(sorted(keys)))
    reader.headers(connection.execute(found))
    titles = select(TITLES.c.task, TITLES.c.line).where(TITLES.c.task.in_(list(tasks)))
    reader.titles(connection.execute(titles))
    reader.records(rows)
    return reader.found()
