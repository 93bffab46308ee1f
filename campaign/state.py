"""The state file of a campaign: JSON lines, so that an interrupted campaign goes on."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from campaign.verdict import Json, Verdict


class StateError(Exception):
    """The state file is not one, or belongs to another campaign."""


@dataclass(slots=True)
class Tally:
    """What one part has done so far.

    Attributes:
        next: number of the next case that was not handed out yet.
        outcomes: how many cases came to each.
        counts: "cases", and what the cases counted.
        cpu_s: CPU seconds of all cases.
        wall_s: seconds that a job worked for the part.
        failures: seed, outcome and message of the cases that failed.
        refusals: the messages of refusals, and how often.
    """

    next: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    counts: Counter[str] = field(default_factory=Counter)
    cpu_s: float = 0.0
    wall_s: float = 0.0
    failures: list[Json] = field(default_factory=list)
    refusals: Counter[str] = field(default_factory=Counter)

    def add(self, line: Mapping[str, object]) -> None:
        """Count one line of the state file."""
        data: Json = dict(line)
        self.next = max(self.next, data["first"] + data["size"])
        self.outcomes.update(data["outcomes"])
        self.counts.update(data["counts"])
        self.refusals.update(data["refusals"])
        self.cpu_s += data["cpu_s"]
        self.wall_s += data["wall_s"]
        self.failures += data["failures"]


class State:
    """The tallies of a campaign, kept in a file.

    Attributes:
        seed: of the campaign; case n of a part has the seed ``seed * 10**9 + n``.
        tallies: by part.
    """

    def __init__(self, path: Path, seed: int | None, fresh_seed: int) -> None:
        """Read ``path`` if it exists, else start it with ``seed`` (None: ``fresh_seed``).

        Raises:
            StateError: the file is of another seed, or no state file.
        """
        self._path = path
        self.tallies: dict[str, Tally] = {}
        lines = _read(path)
        if lines:
            self.seed = int(lines[0]["campaign"])
            if seed is not None and seed != self.seed:
                raise StateError(f"{path} is of seed {self.seed}, not {seed}; give another file")
        else:
            self.seed = fresh_seed if seed is None else seed
            path.parent.mkdir(parents=True, exist_ok=True)
            self._append({"campaign": self.seed})
        for line in lines[1:]:
            self.tally(line["part"]).add(line)

    def tally(self, part: str) -> Tally:
        """The tally of a part."""
        return self.tallies.setdefault(part, Tally())

    def case_seed(self, number: int) -> int:
        """The seed of case ``number``."""
        return self.seed * 10**9 + number

    def record(
        self,
        part: str,
        first: int,
        size: int,
        verdicts: Sequence[tuple[int, Verdict]],
        cpu_s: float,
        wall_s: float,
    ) -> None:
        """Add a batch: cases ``first`` to ``first + size``, and their (seed, verdict)s."""
        counts: Counter[str] = Counter(cases=len(verdicts))
        for _, verdict in verdicts:
            counts.update(verdict.counts)
        line = {
            "part": part,
            "first": first,
            "size": size,
            "outcomes": Counter(verdict.outcome for _, verdict in verdicts),
            "counts": counts,
            "cpu_s": round(cpu_s, 3),
            "wall_s": round(wall_s, 3),
            "failures": [
                {"seed": seed, "outcome": verdict.outcome, "message": verdict.message}
                for seed, verdict in verdicts
                if verdict.failed
            ],
            "refusals": Counter(v.signature for _, v in verdicts if v.outcome == "refused"),
        }
        self._append(line)
        self.tally(part).add(line)

    def _append(self, line: Json) -> None:
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")


def _read(path: Path) -> list[Json]:
    """The whole lines of a state file; a torn last one is cut off, so that others can follow."""
    if not path.exists():
        return []
    text = path.read_text(encoding="utf-8")
    whole = text[: text.rfind("\n") + 1]
    if whole != text:
        path.write_text(whole, encoding="utf-8")
    try:
        lines = [json.loads(line) for line in whole.splitlines()]
        if lines:
            int(lines[0]["campaign"])
    except (ValueError, KeyError, TypeError) as error:
        raise StateError(f"{path} is not the state of a campaign ({error})") from error
    return lines
