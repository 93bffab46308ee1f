"""End-to-end times of repeated runs."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import Any

from autosched.system.numbers import milliseconds
from autosched.system.stability import UNKNOWN, Conditions, Stability
from sketch.html import html_table


@dataclass(frozen=True, slots=True)
class Benchmark:
    """Seconds of each run, in order: all steps, and copying the outputs.

    By the wall clock; on a GPU by its own, with inputs and host steps.

    Attributes:
        name: of the network.
        seconds: of each run.
        threads: worker threads, or processors of a GPU.
        conditions: what else the CPUs did meanwhile.
        workers: what ``threads`` counts, for people.
    """

    name: str
    seconds: tuple[float, ...]
    threads: int
    conditions: Conditions = UNKNOWN
    workers: str = "threads"

    @property
    def stability(self) -> Stability:
        """How far these times can be believed."""
        return Stability.of(self.seconds, self.conditions)

    @property
    def mean(self) -> float:
        """Arithmetic mean, in seconds."""
        return statistics.fmean(self.seconds)

    @property
    def median(self) -> float:
        """Median, in seconds."""
        return statistics.median(self.seconds)

    @property
    def std(self) -> float:
        """Standard deviation of the sample, in seconds; 0 for a single run."""
        return statistics.stdev(self.seconds) if len(self.seconds) > 1 else 0.0

    @property
    def min(self) -> float:
        """Fastest run, in seconds."""
        return min(self.seconds)

    @property
    def max(self) -> float:
        """Slowest run, in seconds."""
        return max(self.seconds)

    def to_json(self) -> dict[str, Any]:
        """The summary as JSON values, times in milliseconds; ``stability`` as in ``Stability``."""
        return {
            "name": self.name,
            "threads": self.threads,
            "repeats": len(self.seconds),
            "mean_ms": self.mean * 1e3,
            "median_ms": self.median * 1e3,
            "std_ms": self.std * 1e3,
            "min_ms": self.min * 1e3,
            "max_ms": self.max * 1e3,
            "stability": self.stability.to_json(),
        }

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        times = self.median, self.mean, self.std, self.min, self.max
        cells = [
            [
                *(f"{milliseconds(time)} ms" for time in times),
                str(len(self.seconds)),
                str(self.threads),
            ]
        ]
        header = ("median", "mean", "std", "min", "max", "runs", self.workers)
        return html_table(self.name, header, cells, (), [str(self.stability)])

    def __str__(self) -> str:
        return (
            f"{self.name}: median {milliseconds(self.median)} ms, "
            f"mean {milliseconds(self.mean)} ms ± {milliseconds(self.std)} ms, "
            f"min {milliseconds(self.min)} ms, max {milliseconds(self.max)} ms "
            f"(runs {len(self.seconds)}, {self.workers} {self.threads})\n{self.stability}"
        )
