"""What was measured, as append-only JSON lines: writing, reading, querying, merging."""
