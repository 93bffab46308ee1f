"""The log of a run and of those that went on from it: a JSON line a row, the newest one counts."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

Row = dict[str, Any]
NAME: Final = "rows.jsonl"


@dataclass(frozen=True, slots=True)
class RowLog:
    """Rows of all parts on one device, in a file that only grows."""

    folder: Path
    device: str

    def append(self, part: str, row: Mapping[str, Any]) -> None:
        """Write one row; a process that dies afterwards takes nothing with it."""
        self.folder.mkdir(parents=True, exist_ok=True)
        line = json.dumps({"device": self.device, "part": part, **row})
        with (self.folder / NAME).open("a") as file:
            file.write(line + "\n")

    def rows(self) -> list[Row]:
        """The newest row of each name, parts together; lines that are torn are left out."""
        newest: dict[tuple[str, str], Row] = {}
        path = self.folder / NAME
        for line in path.read_text().splitlines() if path.exists() else ():
            row = _row(line)
            if row is not None and row["device"] == self.device:
                newest[row["part"], row["name"]] = row
        order = {part: place for place, (part, _) in reversed(list(enumerate(newest)))}
        return sorted(newest.values(), key=lambda row: order[row["part"]])

    def of(self, part: str) -> dict[str, Row]:
        """The rows of one part by name."""
        return {row["name"]: row for row in self.rows() if row["part"] == part}


def _row(line: str) -> Row | None:
    try:
        row: Row = json.loads(line)
        return row if {"device", "part", "name"} <= set(row) else None
    except (ValueError, TypeError):
        return None
