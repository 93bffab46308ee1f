"""Connections to a database: one for each call, so that nothing is shared after ``fork``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from sqlite3 import OperationalError
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import create_engine, event
from sqlalchemy.exc import ArgumentError
from sqlalchemy.pool import NullPool

if TYPE_CHECKING:
    from sqlalchemy import URL, Connection, Engine

# Other writers need milliseconds for a batch; an import has many of them.
_LOCKED_S: Final = 30
_CONNECT_S: Final = 10
# Of PostgreSQL's advisory locks: any number that nobody else in a database takes.
_LOCK: Final = 0x6175746F
_ALONE: Final = (
    f"SET LOCAL lock_timeout = '{_LOCKED_S}s'; SELECT pg_advisory_xact_lock({_LOCK}); "
    "SET LOCAL lock_timeout TO DEFAULT"
)


@contextmanager
def connection_to(url: URL, writes: bool) -> Iterator[Connection]:
    """A connection in a transaction, which is committed when the block succeeds.

    Readers see one state of the database, whatever is written meanwhile.  A writer locks it at
    once: one that has read could not write to SQLite where another has written since, two of
    PostgreSQL that add the same records in another order would wait for each other, and records are
    numbered in the order in which they become visible.
    """
    with _engine(url, writes).connect() as connection, connection.begin():
        yield connection


def file_of(url: URL) -> Path | None:
    """The file of a SQLite database; None: it is on a server, or has an URI of SQLite's own."""
    named = url.get_backend_name() == "sqlite" and "uri" not in url.query
    return Path(url.database) if named and url.database else None


@lru_cache(maxsize=16)  # keeps statements as SQL, and what the server said of itself
def _engine(url: URL, writes: bool) -> Engine:
    if url.get_backend_name() == "sqlite":
        return _sqlite_engine(url, writes)
    given = {} if "connect_timeout" in url.query else {"connect_timeout": _CONNECT_S}
    level = "READ COMMITTED" if writes else "REPEATABLE READ"
    engine = _made(url, given, isolation_level=level)
    if writes:
        event.listen(engine, "begin", lambda connection: connection.exec_driver_sql(_ALONE))
    return engine


def _made(url: URL, given: dict[str, Any], **options: Any) -> Engine:
    try:
        return create_engine(url, poolclass=NullPool, connect_args=given, **options)
    except (TypeError, ValueError) as error:
        raise ArgumentError(f"what follows the ? of its URL makes no sense: {error}") from None


def _sqlite_engine(url: URL, writes: bool) -> Engine:
    given = {} if "timeout" in url.query else {"timeout": _LOCKED_S}
    engine = _made(url, given)

    def opened(raw: Any, _: Any) -> None:
        raw.isolation_level = None  # sqlite3 begins no transaction by itself
        raw.text_factory = _decoded
        if writes:
            raw.execute("PRAGMA synchronous=NORMAL")
            _write_ahead(raw)

    def begun(connection: Connection) -> None:
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

    event.listen(engine, "connect", opened)
    event.listen(engine, "begin", begun)
    return engine


def _decoded(text: bytes) -> str:
    """One damaged line is no reason to read none: its checksum tells."""
    return text.decode(errors="replace")


def _write_ahead(raw: Any) -> None:
    """Readers go on while somebody writes: kept in the file, so a new one is told."""
    if raw.execute("PRAGMA schema_version").fetchone() == (0,):
        with suppress(OperationalError):  # another process is making the tables, and has told it
            raw.execute("PRAGMA journal_mode=WAL")
