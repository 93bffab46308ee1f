"""The tables of a store: lines as a log has them, and beside them what is looked up.

A line keeps its checksum, so a database and a file are read by the same code.  The migrations in
``versions`` make these tables; a test compares them.
"""

from __future__ import annotations

from typing import Final

from sqlalchemy import (  # fmt: skip
    BigInteger,
    Column,
    Float,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
    text,
)

METADATA: Final = MetaData()
VERSION_TABLE: Final = "autosched_schema"
"""Where alembic keeps which migration was the last."""
PREFIX: Final = "autosched_"
_KEY: Final = String(16)
# SQLite counts rows by itself in a column of this very type only.
_NUMBER: Final = BigInteger().with_variant(Integer, "sqlite")


def _part(name: str, *columns: str, where: str) -> Index:
    """An index of few rows."""
    return Index(
        f"{PREFIX}records_{name}", *columns,
        sqlite_where=text(where), postgresql_where=text(where),
    )  # fmt: skip


SESSIONS: Final = Table(
    f"{PREFIX}sessions",
    METADATA,
    Column("key", _KEY, primary_key=True),
    Column("machine", _KEY, nullable=False),
    Column("line", Text, nullable=False),
)
"""Headers of sessions; ``machine`` is a hash of the target, as records keep it."""

SKETCHES: Final = Table(
    f"{PREFIX}sketches",
    METADATA,
    Column("key", _KEY, primary_key=True),
    Column("task", Text, nullable=False, index=True),
    Column("line", Text, nullable=False),
)
"""Headers of sketches."""

TITLES: Final = Table(
    f"{PREFIX}titles",
    METADATA,
    Column("task", Text, primary_key=True),
    Column("line", Text, nullable=False),
)

RECORDS: Final = Table(
    f"{PREFIX}records",
    METADATA,
    Column("id", _NUMBER, primary_key=True, autoincrement=True),
    Column("digest", LargeBinary(16), nullable=False),
    Column("task", Text, nullable=False),
    Column("machine", _KEY, nullable=False),
    Column("variant", Text, nullable=False),
    Column("candidate", BigInteger, nullable=False),
    Column("phase", String(16), nullable=False),
    Column("state", String(16)),
    Column("seconds", Float),
    Column("error", Float),
    Column("variant_error", Float),
    Column("line", Text, nullable=False),
    UniqueConstraint("digest", name=f"{PREFIX}records_digest"),
    Index(f"{PREFIX}records_task", "task", "id"),
    Index(
        f"{PREFIX}records_fastest",
        "task",
        "machine",
        "variant",
        "state",
        "phase",
        "seconds",
        "id",
        "candidate",
    ),
    Index(f"{PREFIX}records_candidate", "task", "candidate", "machine", "id"),
    _part("final", "task", "machine", "id", "state", "candidate", where="phase = 'final'"),
    _part("error", "task", "variant", "error", where="error IS NOT NULL"),
    _part("variant_error", "task", "variant", "variant_error", where="variant_error IS NOT NULL"),
)
"""Trials in the order they were added.

Columns:
    digest: hash of the line: the same record is there once, however often it is imported.
    machine: hash of the target, as records keep it.
    candidate: hash of sketch and decisions.
    state, seconds: of the caches, and the median; NULL for a failure.
    error, variant_error: the largest, against the oracle; NULL where it was not measured.
"""

PLACES: Final = Table(
    f"{PREFIX}places",
    METADATA,
    Column("task", Text, primary_key=True),
    Column("machine", _KEY, primary_key=True),
    Column("variant", Text, primary_key=True),
    Column("state", String(16), primary_key=True),
)
"""Of which machines, variants and states a task has records; the state of a failure is empty."""
