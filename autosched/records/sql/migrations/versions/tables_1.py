"""Tables of headers, titles and records."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "1"
down_revision = None
_NUMBER = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    """Make them."""
    op.create_table(
        "autosched_sessions",
        sa.Column("key", sa.String(16), primary_key=True),
        sa.Column("machine", sa.String(16), nullable=False),
        sa.Column("line", sa.Text, nullable=False),
    )
    op.create_table(
        "autosched_sketches",
        sa.Column("key", sa.String(16), primary_key=True),
        sa.Column("task", sa.Text, nullable=False),
        sa.Column("line", sa.Text, nullable=False),
    )
    op.create_index("ix_autosched_sketches_task", "autosched_sketches", ["task"])
    op.create_table(
        "autosched_titles",
        sa.Column("task", sa.Text, primary_key=True),
        sa.Column("line", sa.Text, nullable=False),
    )
    op.create_table(
        "autosched_records",
        sa.Column("id", _NUMBER, primary_key=True, autoincrement=True),
        sa.Column("digest", sa.LargeBinary(16), nullable=False),
        sa.Column("task", sa.Text, nullable=False),
        sa.Column("machine", sa.String(16), nullable=False),
        sa.Column("variant", sa.Text, nullable=False),
        sa.Column("candidate", sa.BigInteger, nullable=False),
        sa.Column("phase", sa.String(16), nullable=False),
        sa.Column("state", sa.String(16)),
        sa.Column("seconds", sa.Float),
        sa.Column("error", sa.Float),
        sa.Column("variant_error", sa.Float),
        sa.Column("line", sa.Text, nullable=False),
        sa.UniqueConstraint("digest", name="autosched_records_digest"),
    )
    op.create_index("autosched_records_task", "autosched_records", ["task", "id"])
