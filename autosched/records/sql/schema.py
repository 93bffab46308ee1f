"""Which schema the tables of a store have, and how they get that of this release."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from sqlalchemy import inspect, text

from autosched.records.errors import RecordError
from autosched.records.record import NewerSchemaError
from autosched.records.sql.tables import VERSION_TABLE

if TYPE_CHECKING:
    from sqlalchemy import Connection

SCHEMAS: Final = ("1", "2", "3")
"""All there were, the present one last; the names of the migrations that lead to them."""


def schema_of(connection: Connection) -> str | None:
    """The schema of the tables; None where there are none."""
    if not inspect(connection).has_table(VERSION_TABLE):
        return None
    found = connection.execute(text(f"SELECT version_num FROM {VERSION_TABLE}")).scalar()
    return None if found is None else str(found)


def check_schema_of(connection: Connection, where: str) -> bool:
    """Whether there are tables.

    Raises:
        NewerSchemaError: a newer release made them.
        RecordError: an older release made them, or the file is a database of something else.
    """
    found = schema_of(connection)
    if found == SCHEMAS[-1]:
        return True
    if found is None:
        _check_empty(connection, where)
        return False
    if found in SCHEMAS:
        raise RecordError(
            f"the store has schema {found}, this release needs {SCHEMAS[-1]}",
            where,
            "upgrade it: autosched records upgrade URL (older releases cannot read it then)",
        )
    raise NewerSchemaError(
        f"the store has schema {found[:20]!r}, this release knows {', '.join(SCHEMAS)}",
        where,
        "update autosched, or use another store",
    )


def upgrade(connection: Connection, where: str) -> None:
    """Make the tables, or bring them to the schema of this release, on a connection that writes.

    Raises:
        RecordError: see ``check_schema_of``.
    """
    from alembic import command
    from alembic.config import Config

    found = schema_of(connection)
    if found not in SCHEMAS:
        check_schema_of(connection, where)
    if found == SCHEMAS[-1]:
        return
    config = Config()
    folder = str(Path(__file__).with_name("migrations"))
    config.set_main_option("script_location", folder.replace("%", "%%"))
    config.attributes["connection"] = connection
    command.upgrade(config, "head")


def _check_empty(connection: Connection, where: str) -> None:
    """A server's database may have other tables; a file that has some is somebody else's."""
    if connection.dialect.name == "sqlite" and inspect(connection).get_table_names():
        raise RecordError(
            "this is no store: the database has other tables", where, "name a store, or a new file"
        )
