"""Records in a database: SQLite or PostgreSQL."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import delete, select
from sqlalchemy.dialects import postgresql, sqlite

from autosched.records.reading import RecordSet
from autosched.records.sql.connections import connection_to, file_of
from autosched.records.sql.failures import told_as_records
from autosched.records.sql.rows import RowReader, Rows, rows_of
from autosched.records.sql.schema import check_schema_of, upgrade
from autosched.records.sql.tables import RECORDS, SESSIONS, SKETCHES, TITLES

if TYPE_CHECKING:
    from sqlalchemy import URL, Connection, Select, Table

    from autosched.records.record import Record

_INSERTS: Final = {"sqlite": sqlite.insert, "postgresql": postgresql.insert}
# Rows that are fetched at a time: a store may be larger than memory is.
_FETCHED: Final = 10_000
_READ: Final = "cannot be read"


@dataclass(frozen=True, slots=True)
class DatabaseStore:
    """A store by its URL, see ``RecordStore``.

    Attributes:
        name: the URL without its password.
    """

    _url: URL = field(repr=False)
    name: str

    def exists(self) -> bool:
        file = file_of(self._url)
        if file is not None:
            return file.exists()
        with self._connected(_READ) as connection:
            return check_schema_of(connection, self.name)

    def check(self) -> None:
        file = file_of(self._url)
        if file is None or file.exists():
            with self._connected(_READ) as connection:
                check_schema_of(connection, self.name)

    def check_writable(self) -> None:
        with self._written("cannot be written"):
            pass

    def append(self, records: Iterable[Record]) -> None:
        batch = list(records)
        if batch:
            rows = rows_of(batch)
            with self._written(f"cannot take {len(batch)} records") as connection:
                _insert(connection, rows)

    def read(self, tasks: Collection[str] | None = None) -> RecordSet:
        file = file_of(self._url)
        if file is not None and not file.exists():
            return RecordSet(())
        with self._connected(_READ) as connection:
            if not check_schema_of(connection, self.name):
                return RecordSet(())
            return _read(connection, RowReader(self.name), tasks)

    def replace(self, records: Iterable[Record]) -> None:
        rows = rows_of(records)
        with self._written("cannot be replaced") as connection:
            for table in (RECORDS, TITLES, SKETCHES, SESSIONS):
                connection.execute(delete(table))
            _insert(connection, rows)

    def state(self) -> str:
        if not self.exists():
            return ""
        last = select(RECORDS.c.id, RECORDS.c.digest).order_by(RECORDS.c.id.desc()).limit(1)
        with self._connected(_READ) as connection:
            row = connection.execute(last).first()
        return "" if row is None else f"{row.id} {bytes(row.digest).hex()}"

    def size_bytes(self) -> int | None:
        file = file_of(self._url)
        if file is None:
            return None
        parts = [file, file.with_name(f"{file.name}-wal")]
        return sum(part.stat().st_size for part in parts if part.exists())

    @contextmanager
    def _connected(self, what: str) -> Iterator[Connection]:
        with told_as_records(what, self.name), connection_to(self._url, writes=False) as connection:
            yield connection

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


def _insert(connection: Connection, rows: Rows) -> None:
    """What is there already stays: headers of others, and records that are imported again."""
    _add(connection, SESSIONS, rows.sessions.values())
    _add(connection, SKETCHES, rows.sketches.values())
    _add(connection, TITLES, rows.titles.values())
    _add(connection, RECORDS, rows.records)


def _add(connection: Connection, table: Table, rows: Iterable[dict[str, Any]]) -> None:
    key = table.primary_key.columns.keys()[0]
    # Every writer in the same order: two writers cannot block each other.
    ordered = sorted(rows, key=lambda row: row[key]) if table is not RECORDS else list(rows)
    if ordered:
        insert = _INSERTS[connection.dialect.name](table).on_conflict_do_nothing()
        connection.execute(insert, ordered)


def _read(connection: Connection, reader: RowReader, tasks: Collection[str] | None) -> RecordSet:
    def of_tasks(query: Select[Any], table: Table) -> Select[Any]:
        return query if tasks is None else query.where(table.c.task.in_(list(tasks)))

    reader.headers(connection.execute(select(SESSIONS.c.key, SESSIONS.c.line)))
    found = of_tasks(select(SKETCHES.c.key, SKETCHES.c.line), SKETCHES)
    reader.headers(connection.execute(found))
    reader.titles(connection.execute(of_tasks(select(TITLES.c.task, TITLES.c.line), TITLES)))
    query = of_tasks(select(RECORDS.c.id, RECORDS.c.line), RECORDS).order_by(RECORDS.c.id)
    reader.records(connection.execute(query.execution_options(yield_per=_FETCHED)))
    return reader.found()
