"""What was found about one thing that timings or kernels depend on."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

Verdict = Literal["ok", "advice", "absent", "missing"]
VERDICTS: Final[tuple[Verdict, ...]] = ("ok", "advice", "absent", "missing")


@dataclass(frozen=True, slots=True)
class Finding:
    """What was found about one thing.

    Attributes:
        topic: the thing, in a word or two.
        verdict: "ok"; "advice": it works, and could work better; "absent": something that only
            some functions need is not there; "missing": nothing can be tuned without it.
        found: what was found, one line.
        remedy: what to do; "" where there is nothing to do.
    """

    topic: str
    verdict: Verdict
    found: str
    remedy: str = ""


def text_of(path: Path) -> str | None:
    """What a file of the system says, without blanks around it; None where it cannot be read."""
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return None
