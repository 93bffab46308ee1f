"""The part of the campaign that disturbs running modules."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from random import Random
from typing import Any, Final

from campaign.faults.concurrency import forks, in_threads, on_fewer_cores, under_limits
from campaign.faults.interrupts import by_alarm, by_ctrl_c
from campaign.faults.modules import SIZES, compiled
from campaign.part import Mark
from campaign.verdict import Json, Verdict

_INTERRUPTS: Final[dict[str, Any]] = {"alarm": by_alarm, "ctrl_c": by_ctrl_c}
_OTHERS: Final[dict[str, Any]] = {
    "threads": in_threads, "forks": forks, "affinity": on_fewer_cores, "limits": under_limits
}  # fmt: skip
_COUNTS: Final = {
    "alarm": 25, "ctrl_c": 25, "threads": 40, "forks": 12, "affinity": 30, "limits": 6
}  # fmt: skip
# What a case of a kind is counted as.
_UNITS: Final[dict[str, str]] = {"alarm": "interrupts", "ctrl_c": "interrupts"}


class RuntimePart:
    """Interrupts, threads, forks, affinity and limits around calls."""

    def draw(self, seed: int) -> Json:
        """What disturbs, which modules, and the seed of the instants."""
        rng = Random(seed)
        kind = rng.choice(("alarm", "ctrl_c", *_COUNTS))
        sizes = rng.sample(SIZES, 2)
        return {
            "kind": kind,
            "sizes": sizes,
            "threads": rng.choice((1, 2, 3)),
            "count": _COUNTS[kind],
            "seed": rng.randrange(2**31),
        }

    def judge(self, case: Json, mark: Mark) -> Verdict:
        """Disturb, and look whether later calls are right."""
        warnings.simplefilter("ignore")
        kind, rng = case["kind"], Random(case["seed"])
        subjects = [compiled(size, case["threads"]) for size in case["sizes"]]
        mark(kind)
        if kind in _INTERRUPTS:
            problem = _INTERRUPTS[kind](subjects[0], rng, case["count"])
        else:
            problem = _OTHERS[kind](subjects, rng, case["count"])
        counts: dict[str, int] = {_UNITS.get(str(kind), str(kind)): int(case["count"])}
        return Verdict("wrong" if problem else "right", problem or "", counts)

    def smaller(self, case: Json) -> Iterator[Json]:
        """Fewer disturbances, one thread."""
        if case["count"] > 1:
            yield {**case, "count": case["count"] // 2}
        if case["threads"] > 1:
            yield {**case, "threads": 1}


PART: Final = RuntimePart()
