"""Rows into tables; what is there already stays: headers of others, and records."""

from __future__ import annotations

import json
from collections.abc import Collection
from functools import cache
from operator import itemgetter
from typing import TYPE_CHECKING

from sqlalchemy import text
from sqlalchemy.dialects import sqlite

from autosched.records.sql.tables import PLACES, RECORDS, SESSIONS, SKETCHES, TITLES

if TYPE_CHECKING:
    from sqlalchemy import Connection, Dialect, Table, TextClause

    from autosched.records.sql.rows import Row, Rows


def insert_rows(connection: Connection, rows: Rows) -> int:
    """How many records are new."""
    _add(connection, SESSIONS, rows.sessions.values())
    _add(connection, SKETCHES, rows.sketches.values())
    _add(connection, TITLES, rows.titles.values())
    _add(connection, PLACES, rows.places.values())
    return _add(connection, RECORDS, rows.records)


def _add(connection: Connection, table: Table, rows: Collection[Row]) -> int:
    if not rows:
        return 0
    keys = table.primary_key.columns.keys()
    # Every writer in the same order: two writers cannot block each other.
    ordered = sorted(rows, key=itemgetter(*keys)) if table is not RECORDS else list(rows)
    if connection.dialect.name == "postgresql":
        given = {"rows": json.dumps([_as_json(row) for row in ordered])}
        return int(connection.execute(_from_json(table, connection.dialect), given).rowcount)
    told = sqlite.insert(table).on_conflict_do_nothing()
    told = told.execution_options(preserve_rowcount=True)
    return int(connection.execute(told, ordered).rowcount)


def _as_json(row: Row) -> Row:
    """Bytes as the server reads them."""
    return {name: rf"\x{v.hex()}" if isinstance(v, bytes) else v for name, v in row.items()}


@cache
def _from_json(table: Table, dialect: Dialect) -> TextClause:
    """One statement and one value for all rows: a statement for each takes twice as long, and the
    client writes arrays of texts with quotes in them slowly.  Records are counted in their order.
    """
    columns = [column for column in table.columns if column.autoincrement is not True]
    names = ", ".join(column.name for column in columns)
    typed = ", ".join(f"{c.name} {c.type.compile(dialect)}" for c in columns)
    return text(
        f"INSERT INTO {table.name} ({names}) SELECT {names} "
        f"FROM ROWS FROM (json_to_recordset(CAST(:rows AS json)) AS ({typed})) "
        f"WITH ORDINALITY AS given ({names}, number) ORDER BY number ON CONFLICT DO NOTHING"
    )
