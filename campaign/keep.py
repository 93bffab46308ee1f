"""Failing cases as files that a test replays."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from campaign.verdict import Json, Verdict


def keep(folder: Path, part: str, seed: int, verdict: Verdict, case: Json) -> Path:
    """Write a case to ``folder``; the file's name says what happened."""
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps(case, sort_keys=True)
    digest = hashlib.sha256(text.encode()).hexdigest()[:8]
    path = folder / f"{part}-{verdict.outcome}-{digest}.json"
    content = {"part": part, "seed": seed, "found": f"{verdict.outcome}: {verdict.message}"}
    path.write_text(json.dumps({**content, "case": case}, indent=1) + "\n", encoding="utf-8")
    return path


def kept(folder: Path) -> list[tuple[str, str, Json]]:
    """(file name, part, case) of all cases in ``folder``."""
    found = []
    for path in sorted(folder.glob("*.json")):
        content = json.loads(path.read_text(encoding="utf-8"))
        found.append((path.name, content["part"], content["case"]))
    return found
