"""Indexes of the best of a task: see ``autosched.records.sql.leaders``."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "2"
down_revision = "1"


def upgrade() -> None:
    """Make them, and note which machines and variants each task has records of."""
    op.create_table(
        "autosched_places",
        sa.Column("task", sa.Text, primary_key=True),
        sa.Column("machine", sa.String(16), primary_key=True),
        sa.Column("variant", sa.Text, primary_key=True),
        sa.Column("state", sa.String(16), primary_key=True),
    )
    op.execute(
        "INSERT INTO autosched_places (task, machine, variant, state) "
        "SELECT DISTINCT task, machine, variant, COALESCE(state, '') FROM autosched_records"
    )
    op.create_index(
        "autosched_records_fastest",
        "autosched_records",
        ["task", "machine", "variant", "state", "phase", "seconds", "id"],
    )
    op.create_index("autosched_records_candidate", "autosched_records", ["candidate"])
    for name, columns, where in (
        ("final", ["task", "machine", "id"], "phase = 'final'"),
        ("error", ["task", "variant", "error"], "error IS NOT NULL"),
        ("variant_error", ["task", "variant", "variant_error"], "variant_error IS NOT NULL"),
    ):
        op.create_index(
            f"autosched_records_{name}",
            "autosched_records",
            columns,
            sqlite_where=sa.text(where),
            postgresql_where=sa.text(where),
        )
