"""Records as a pandas DataFrame; the only module that needs pandas."""

from __future__ import annotations

from collections.abc import Iterable

import pandas as pd

from autosched.records.record import Record
from autosched.records.rows import COLUMNS, row_of


def to_frame(records: Iterable[Record]) -> pd.DataFrame:
    """One row a record: the columns of ``rows.COLUMNS``, then ``decision:NAME``."""
    rows = [row_of(record) for record in records]
    return pd.DataFrame(rows) if rows else pd.DataFrame(columns=list(COLUMNS))
