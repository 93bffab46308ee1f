"""What alembic runs for each command: the migrations, on the connection that it is handed."""

from __future__ import annotations

from alembic import context

from autosched.records.sql.tables import METADATA, VERSION_TABLE

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=METADATA,
    version_table=VERSION_TABLE,
)
with context.begin_transaction():
    context.run_migrations()
