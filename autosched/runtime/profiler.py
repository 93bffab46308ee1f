"""Where the time of a run goes: one row an operator, a rest, a total that is the end to end."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Final, TextIO

import numpy as np
from numpy.typing import NDArray

from autosched.runtime.counters.counts import (
    INSTRUCTIONS_PER_CYCLE,
    Counts,
    StepCounts,
    instructions_per_cycle,
)
from autosched.runtime.counters.events import CYCLES, INSTRUCTIONS
from autosched.runtime.peaks import Peaks
from autosched.runtime.program import ExecutionPlan, StepInfo, schedule_label
from autosched.runtime.table import render_table, shorten
from autosched.system.numbers import significant
from autosched.system.optional_packages import data_frame
from autosched.system.stability import UNMEASURED, Conditions, Stability, usual_deviation
from sketch.html import html_table
from sketch.replaced_file import whole_output

_HEADER: Final = (
    "layers", "operator", "shapes", "us", "spread %", "%", "GFLOPS", "% peak", "task", "schedule",
)  # fmt: skip
_LEFT: Final = (0, 1, 2, 8, 9)
_DIGITS: Final = 12  # of seconds: less is rounding
_RATE_OF: Final = (CYCLES.name, INSTRUCTIONS.name)
_INTERRUPTED: Final = 1.05  # how much longer whole runs take then than their operators and the rest


@dataclass(frozen=True, slots=True)
class ProfileRow:
    """One operator of a profile.

    Attributes:
        layers: the model's layer names that it computes.
        op, shapes: what it computes, on what.
        microseconds: time in one run, the median of all.
        percent: share of the total.
        gflops: 1e9 floating-point operations a second; 0 where it has none.
        peak_percent: share of the machine's measured arithmetic peak, which is that of the tensor
            unit where it is computed on one.  A variant is measured by its own operations, whereas
            ``gflops`` are those of the operator as it is written.
        task: key of its tuning task; schedule: "record", "release", "model" or "host".
        counts: hardware counters in one run by event, all threads together; see ``Profile``.
        spread_percent: standard deviation of the same runs, of their median, by their quartiles: a
            run that another program interrupts does not count.  None for a single run.
        algorithm: a variant and its error; "" where the task is computed as it is written.
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
    counts: Counts = field(default_factory=dict)
    spread_percent: float | None = None
    algorithm: str = ""

    def to_json(self) -> dict[str, Any]:
        """The row by column; counts follow, an event a column, and instructions per cycle."""
        values = {item.name: getattr(self, item.name) for item in fields(self)}
        counts = values.pop("counts")
        rate = instructions_per_cycle(counts)
        return values | dict(counts) | ({} if rate is None else {INSTRUCTIONS_PER_CYCLE: rate})


@dataclass(frozen=True, slots=True)
class Profile:
    """A profile: ``rows`` in execution order.

    Attributes:
        rows: one an operator.
        rest: what the operators do not account for: copying the outputs, the clock.
        total: the sum of all others: end to end, if nothing interrupts a run.  Its counts are those
            of the operators.
        runs: number of runs that the times are medians of.
        threads: worker threads.
        peak_gflops: the machine's measured arithmetic peak in float32, 1e9 operations a second.
        events: names of what was counted; empty unless counters were asked for.
        note: why counters are missing, on one line.
        stability: how far the times can be believed, from all runs.
        whole_us: median of whole runs, end to end.
    """

    name: str
    rows: tuple[ProfileRow, ...]
    rest: ProfileRow
    total: ProfileRow
    runs: int
    threads: int
    peak_gflops: float
    events: tuple[str, ...] = ()
    note: str = ""
    stability: Stability = UNMEASURED
    whole_us: float = 0.0

    def to_csv(self, path: str | Path) -> None:
        """Write all rows, the rest and the total as CSV with a header."""
        with whole_output(Path(path)) as file, file.open("w", newline="", encoding="utf-8") as out:
            self.print_csv(out)

    def print_csv(self, stream: TextIO) -> None:
        """Write the same to a stream."""
        rows = self.to_rows()
        names = list(dict.fromkeys(name for row in rows for name in row))
        writer = csv.DictWriter(stream, names)
        writer.writeheader()
        writer.writerows(rows)

    def to_pandas(self) -> Any:
        """A pandas DataFrame of the rows, the rest and the total; ``attrs["stability"]`` of it.

        Raises:
            MissingPackageError: pandas is not installed.
        """
        return data_frame(self.to_rows(), attributes={"stability": self.stability.to_json()})

    def to_rows(self) -> list[dict[str, Any]]:
        """All rows, the rest and the total, as dictionaries by column."""
        return [row.to_json() for row in (*self.rows, self.rest, self.total)]

    def to_json(self) -> dict[str, Any]:
        """All of it as JSON values; ``rows``, ``rest`` and ``total`` are dictionaries by column."""
        return {
            "name": self.name,
            "threads": self.threads,
            "runs": self.runs,
            "whole_us": self.whole_us,
            "peak_gflops": self.peak_gflops,
            "events": list(self.events),
            "note": self.note,
            "stability": self.stability.to_json(),
            "rows": [row.to_json() for row in self.rows],
            "rest": self.rest.to_json(),
            "total": self.total.to_json(),
        }

    def __str__(self) -> str:
        table = render_table(*self._table(), _LEFT)
        return "\n".join([self._title(), table, *self._notes()])

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return html_table(self._title(), *self._table(), _LEFT, self._notes())

    def _title(self) -> str:
        return f"{self.name}, medians of {self.runs} run{'s' * (self.runs != 1)}"

    def _notes(self) -> list[str]:
        notes = [str(self.stability), self.interrupted, self.note]
        return [note for note in notes if note]

    @property
    def interrupted(self) -> str:
        """What whole runs took where that is more than their parts; "" where it is not."""
        if self.whole_us <= _INTERRUPTED * self.total.microseconds:
            return ""
        return (
            f"whole runs took {self.whole_us:.1f} us (median): something interrupts them, each "
            "time in other operators"
        )

    def _table(self) -> tuple[list[str], list[list[str]]]:
        """Titles of the columns, and the cells of all rows."""
        header = [*_HEADER, *(f"k {event}" for event in self.events)]
        if set(_RATE_OF) <= set(self.events):
            header.append("per cycle")
        return header, [_cells(row, header) for row in (*self.rows, self.rest, self.total)]


def _cells(row: ProfileRow, header: Sequence[str]) -> list[str]:
    rate = instructions_per_cycle(row.counts)
    counted = {f"k {event}": f"{count / 1e3:.1f}" for event, count in row.counts.items()}
    counted["per cycle"] = "" if rate is None else f"{rate:.2f}"
    cells = _time_cells(row)
    return [*cells, *(counted.get(column, "") for column in header[len(cells) :])]


def _time_cells(row: ProfileRow) -> tuple[str, ...]:
    return (
        shorten(row.layers, 40),
        shorten(row.op, 28),
        shorten(row.shapes, 44),
        significant(row.microseconds, 1),
        "" if row.spread_percent is None else f"{row.spread_percent:.0f}",
        f"{row.percent:.1f}",
        significant(row.gflops, 1) if row.gflops else "",
        f"{row.peak_percent:.0f}" if row.gflops else "",
        row.task[:8],
        schedule_label(row.schedule, row.algorithm),
    )


def make_profile(
    program: ExecutionPlan,
    seconds: NDArray[np.float64],
    steps: NDArray[np.float64],
    peaks: Peaks,
    counts: StepCounts | None = None,
    conditions: Conditions | None = None,
) -> Profile:
    """A profile from timed runs: medians, so that what interrupts some of them does not count.

    Args:
        program: what ran.
        seconds: end to end, float64 ``[runs]``.
        steps: of each step, float64 ``[runs, steps]``.
        peaks: the machine's, each step's that of the unit it is computed on.
        counts: of hardware counters, for each step; None when they were not asked for.
        conditions: what else the CPUs did meanwhile.
    """

    def least_s(info: StepInfo) -> float:
        return info.operations / peaks.of(info.unit)

    counted = counts or StepCounts((), ())
    by_step = counted.steps or tuple({} for _ in program.steps)
    between = seconds - steps.sum(axis=1)
    # of nothing but rounding, 0 is left, and no -0
    over = round(float(np.median(between)), _DIGITS) + 0.0
    medians = np.median(steps, axis=0)
    total = float(medians.sum()) + over
    rows = tuple(
        replace(
            _row(step.info, float(time), total, least_s(step.info), found),
            spread_percent=_spread(every),
        )
        for step, time, found, every in zip(program.steps, medians, by_step, steps.T, strict=True)
    )
    rest = StepInfo("rest", ("(rest)",))
    everything = StepInfo("total", ("(total)",), flops=sum(s.info.flops for s in program.steps))
    left = replace(_row(rest, over, total, 0.0, {}), spread_percent=_spread(between))
    least = sum(least_s(step.info) for step in program.steps)
    end_to_end = _row(everything, total, total, least, counted.total)
    return Profile(
        program.name,
        rows,
        left,
        replace(end_to_end, spread_percent=_spread(seconds)),
        len(seconds),
        program.target.threads,
        peaks.flops / 1e9,
        counted.events,
        counted.note,
        Stability.of(seconds.tolist(), conditions),
        1e6 * float(np.median(seconds)),
    )


def _spread(seconds: NDArray[np.float64]) -> float | None:
    """Standard deviation in percent of the median, [runs]."""
    found = usual_deviation(seconds.tolist())
    return None if found is None else 100.0 * found


def _row(
    info: StepInfo, seconds: float, total: float, least_s: float, counts: Counts
) -> ProfileRow:
    """``least_s``: the time of its operations at the peak."""
    rate = info.flops / seconds if seconds > 0 else 0.0
    return ProfileRow(
        layers=", ".join(info.layers) or info.name,
        op=info.op,
        shapes=info.shapes,
        microseconds=seconds * 1e6,
        percent=100.0 * (seconds / total) if total > 0 else 0.0,
        gflops=rate / 1e9,
        peak_percent=100.0 * least_s / seconds if seconds > 0 else 0.0,
        task=info.task,
        schedule=info.schedule,
        counts=counts,
        algorithm=info.algorithm,
    )
