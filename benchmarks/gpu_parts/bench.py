"""What every part is given: the device, the time, and what earlier runs found."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.gpu_parts.row_log import Row
from sketch.target.target import Target


@dataclass(frozen=True, slots=True)
class Bench:
    """The setting of a part.

    Attributes:
        part: its name.
        target: the GPU, or the emulated one.
        folder: of logs, which later runs go on from.
        stop: when the part should be done, by ``time.monotonic``.
        known: its rows of earlier runs, by name.
    """

    part: str
    target: Target
    folder: Path
    stop: float
    known: Mapping[str, Row]

    @property
    def small(self) -> bool:
        """Whether sizes are such that an emulated device is through with them in seconds."""
        return self.target.card.emulated

    @property
    def left(self) -> float:
        """Seconds that are left."""
        return max(0.0, self.stop - time.monotonic())

    @property
    def log(self) -> Path:
        """The log of all that the part tunes."""
        self.folder.mkdir(parents=True, exist_ok=True)
        return self.folder / f"{self.part}.jsonl"

    def tuned_s(self, name: str) -> float:
        """Seconds that earlier runs tuned for a row."""
        return float(self.known.get(name, {}).get("tuned_s", 0.0))

    def turns(self, names: Sequence[str]) -> Iterator[tuple[str, float]]:
        """What no earlier run has finished, each with its share of the seconds that are left."""
        waiting = [name for name in names if not self.known.get(name, {}).get("done")]
        for place, name in enumerate(waiting):
            if self.left:
                yield name, self.left / (len(waiting) - place)


PartRun = Callable[[Bench], Iterator[Row]]
"""Yields rows with "name" and "done", each as soon as it is known; the newest of a name counts."""


def verdict(value: float, bar: float, at_most: bool = False) -> dict[str, Any]:
    """A bar and whether a value reaches it."""
    holds = value <= bar if at_most else value >= bar
    return {"bar": {"at_most" if at_most else "at_least": bar, "holds": bool(holds)}}
