"""A database by its URL: which of them there are, and how connections to them are made."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from autosched.records.errors import RecordError
from autosched.system.optional_packages import require

if TYPE_CHECKING:
    from autosched.records.sql.store import DatabaseStore

_INSTALL: Final = '"autosched[db]"'
_HINT: Final = "give sqlite:///FILE, postgresql://USER@HOST/DATABASE, or a path without ://"
# What users write, and which driver it is.
_DRIVERS: Final = {
    "sqlite": "sqlite+pysqlite",
    "sqlite+pysqlite": "sqlite+pysqlite",
    "postgres": "postgresql+psycopg",
    "postgresql": "postgresql+psycopg",
    "postgresql+psycopg": "postgresql+psycopg",
}


def open_database(url: str) -> DatabaseStore:
    """The store that a URL names; no connection is made yet.

    Raises:
        RecordError: another kind of database, or no URL.
        MissingPackageError: a package of the extra ``db`` is not installed.
    """
    kind = url.partition("://")[0]
    if kind not in _DRIVERS:
        raise RecordError(f"there is no store of kind {kind[:20]!r}", hint=_HINT)
    for package in ("sqlalchemy", "alembic"):
        require(package, "records in a database", _INSTALL)
    if kind.startswith("postgres"):
        require("psycopg", "records in a PostgreSQL database", _INSTALL)
    from sqlalchemy.engine import make_url
    from sqlalchemy.exc import ArgumentError

    from autosched.records.sql.store import DatabaseStore

    try:
        found = make_url(url)
    except (ArgumentError, ValueError):
        # Its text may hold the password.
        raise RecordError(f"this {kind} URL cannot be understood", hint=_HINT) from None
    _check(found, kind)
    return DatabaseStore(found.set(drivername=_DRIVERS[kind]), _shown(found))


def _check(url: Any, kind: str) -> None:
    if kind.startswith("sqlite"):
        if url.host:
            raise RecordError(
                "a sqlite URL names a file, no host", _shown(url), "three slashes: sqlite:///FILE"
            )
        if "\0" in (url.database or ""):
            raise RecordError("no file has such a name", _shown(url))
        if not url.database or ":memory:" in url.database or url.query.get("mode") == "memory":
            raise RecordError(
                "a database in memory is gone when it is closed", _shown(url), "name a file"
            )
    elif not url.database:
        raise RecordError("the URL names no database", _shown(url), _HINT)


def _shown(url: Any) -> str:
    """The URL without its password, which may also stand among its options."""
    secret = [name for name in url.query if "password" in name.lower()]
    shown = url.difference_update_query(secret).update_query_dict(dict.fromkeys(secret, "***"))
    return str(shown.render_as_string(hide_password=True)).replace("%2A", "*")
