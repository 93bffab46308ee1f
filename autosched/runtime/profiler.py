"""Where the time of a run goes: one row an operator, a rest, a total that is the end to end."""

from __future__ import annotations

import csv
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from autosched.runtime.program import SCHEDULE_LABELS, Program, StepInfo
from autosched.runtime.table import render_table, shorten


@dataclass(frozen=True, slots=True)
class ProfileRow:
    """One operator of a profile.

    Attributes:
        layers: the model's layer names that it computes.
        op, shapes: what it computes, on what.
        microseconds: time in one run.
        percent: share of the end-to-end time.
        gflops: 1e9 floating-point operations a second; 0 where it has none.
        peak_percent: share of the machine's measured arithmetic peak.
        task: key of its tuning task; schedule: "record" or "model".
    """

    layers: str
    op: str
    shapes: str
    microseconds: float
    percent: float
    gflops: float
    peak_percent: float
    task: str
    schedule: str


@dataclass(frozen=True, slots=True)
class Profile:
    """A profile: ``rows`` in execution order.

    Attributes:
        rows: one an operator.
        rest: what the operators do not account for: copying the outputs, the clock.
        total: end to end; equals the sum of all others.
        runs: number of runs that the times are means of.
    """

    name: str
    rows: tuple[ProfileRow, ...]
    rest: ProfileRow
    total: ProfileRow
    runs: int

    def to_csv(self, path: str | Path) -> None:
        """Write all rows, the rest and the total as CSV with a header."""
        names = [item.name for item in fields(ProfileRow)]
        with Path(path).open("w", newline="", encoding="utf-8") as stream:
            writer = csv.DictWriter(stream, names)
            writer.writeheader()
            writer.writerows(self.to_json())

    def to_pandas(self) -> Any:
        """A pandas DataFrame of the rows, the rest and the total (needs pandas)."""
        import pandas

        return pandas.DataFrame(self.to_json())

    def to_json(self) -> list[dict[str, Any]]:
        """All rows, the rest and the total, as dictionaries by column."""
        return [asdict(row) for row in (*self.rows, self.rest, self.total)]

    def __str__(self) -> str:
        header = ("layers", "operator", "shapes", "us", "%", "GFLOPS", "% peak", "task", "schedule")
        body = [_cells(row) for row in (*self.rows, self.rest, self.total)]
        table = render_table(header, body, left=(0, 1, 2, 7, 8))
        return f"{self.name}, mean of {self.runs} typical runs\n{table}"


def _cells(row: ProfileRow) -> tuple[str, ...]:
    return (
        shorten(row.layers, 40),
        shorten(row.op, 28),
        shorten(row.shapes, 44),
        f"{row.microseconds:.1f}",
        f"{row.percent:.1f}",
        f"{row.gflops:.1f}" if row.gflops else "",
        f"{row.peak_percent:.0f}" if row.gflops else "",
        row.task[:8],
        SCHEDULE_LABELS.get(row.schedule, ""),
    )


def make_profile(
    program: Program,
    seconds: NDArray[np.float64],
    steps: NDArray[np.float64],
    peak_flops: float,
) -> Profile:
    """A profile from timed runs: means over the typical ones.

    Args:
        program: what ran.
        seconds: end to end, float64 ``[runs]``.
        steps: of each step, float64 ``[runs, steps]``.
        peak_flops: the machine's peak, in floating-point operations a second.
    """
    typical = typical_runs(seconds)
    total = float(seconds[typical].mean())
    means = steps[typical].mean(axis=0)
    rows = tuple(
        _row(step.info, float(time), total, peak_flops)
        for step, time in zip(program.steps, means, strict=True)
    )
    rest = StepInfo("rest", ("(rest)",))
    everything = StepInfo("total", ("(total)",), flops=sum(s.info.flops for s in program.steps))
    return Profile(
        program.name,
        rows,
        _row(rest, total - float(means.sum()), total, peak_flops),
        _row(everything, total, total, peak_flops),
        len(typical),
    )


def typical_runs(seconds: NDArray[np.float64]) -> NDArray[np.intp]:
    """Indices of the half of the runs whose total is nearest the median, at least one.

    The mean over a set of runs adds up, which a median of each step does not; leaving out the
    extremes keeps it robust.
    """
    distance = np.abs(seconds - np.median(seconds))
    return np.argsort(distance, kind="stable")[: max(1, len(seconds) // 2)]


def _row(info: StepInfo, seconds: float, total: float, peak_flops: float) -> ProfileRow:
    rate = info.flops / seconds if seconds > 0 else 0.0
    return ProfileRow(
        layers=", ".join(info.layers) or info.name,
        op=info.op,
        shapes=info.shapes,
        microseconds=seconds * 1e6,
        percent=100.0 * seconds / total if total > 0 else 0.0,
        gflops=rate / 1e9,
        peak_percent=100.0 * rate / peak_flops,
        task=info.task,
        schedule=info.schedule,
    )
