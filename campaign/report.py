"""Tables and JSON of what a campaign did."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from campaign.parts import PARTS
from campaign.state import Tally
from campaign.verdict import FAILURES, OUTCOMES, Json

_SHORT: Final = {"out_of_bounds": "outside"}


def rows(tallies: Mapping[str, Tally]) -> list[Json]:
    """One row a part: outcomes, counts, failures, CPU seconds."""
    titles = {part.name: part.title for part in PARTS}
    return [
        {
            "part": name,
            "title": titles.get(name, name),
            "cases": tally.counts["cases"],
            **{outcome: tally.outcomes[outcome] for outcome in OUTCOMES},
            "counts": {k: v for k, v in tally.counts.items() if k != "cases"},
            "cpu_s": round(tally.cpu_s, 1),
            "wall_s": round(tally.wall_s, 1),
            "failures": tally.failures,
            "refusals": dict(tally.refusals.most_common(20)),
        }
        for name, tally in tallies.items()
        if tally.counts["cases"]
    ]


def table(tallies: Mapping[str, Tally]) -> str:
    """Text for people."""
    columns = ("cases", *OUTCOMES)
    head = f"{'part':10}" + "".join(f"{_SHORT.get(c, c):>9}" for c in columns) + "  a CPU s"
    lines = [head]
    for row in rows(tallies):
        rate = row["cases"] / row["cpu_s"] if row["cpu_s"] else 0.0
        cells = "".join(f"{row[column]:>9,}" for column in columns)
        others = ", ".join(f"{count:,} {name}" for name, count in row["counts"].items())
        lines.append(f"{row['part']:10}{cells}{rate:>9.1f}  {others}")
    return "\n".join(lines)


def progress(tallies: Mapping[str, Tally], minutes_left: float) -> str:
    """One line: cases and failures of each part."""
    parts = [
        f"{name} {tally.counts['cases']:,}" + (f" ({bad} failed)" if bad else "")
        for name, tally in tallies.items()
        if tally.counts["cases"]
        for bad in [failures(tally)]
    ]
    return f"{max(minutes_left, 0.0):.1f} min left | " + " | ".join(parts)


def failures(tally: Tally) -> int:
    """How many cases failed."""
    return sum(tally.outcomes[outcome] for outcome in FAILURES)
