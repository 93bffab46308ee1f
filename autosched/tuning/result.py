"""What tuning gave."""

from __future__ import annotations

import math
from dataclasses import dataclass
from os import PathLike
from typing import TYPE_CHECKING, Any, Final

from autosched.measure.result import Failure, Timing
from autosched.records.record import Record
from autosched.system.numbers import counted
from autosched.system.stability import EMULATED, UNKNOWN, Conditions, Stability, share
from autosched.tasks.candidate import Candidate
from sketch.html import html_table

if TYPE_CHECKING:
    from autosched.page.file import ReportPage
    from autosched.tasks.spec import TaskSpec


_COLUMNS: Final = ("task", "weight", "ms", "GFLOPS", "trials", "failed", "variant")


def stability_of(record: Record, conditions: Conditions) -> Stability:
    """Of the time that a record states; ``conditions``: of the machine meanwhile."""
    times = record.result.seconds if isinstance(record.result, Timing) else ()
    emulated = record.target.card.emulated
    return Stability.of(times, EMULATED if emulated else conditions)


@dataclass(frozen=True, slots=True, eq=False)
class TaskResult:
    """One task at the end.

    Attributes:
        task: what was tuned, as data; ``autosched.Task.of(task)`` compiles and explains it.
        best: the fastest candidate that was checked against the oracle; None: nothing ran.
        seconds: its estimated time; infinite without one.
        trials, failures: results of this and earlier runs.
        first_failure: the first failure of this run.
        stopped: why it got no more trials; empty when the budget ended first.
        stability: how far ``seconds`` can be believed; None where nothing ran.
    """

    task: TaskSpec
    best: Candidate | None
    seconds: float
    trials: int
    failures: int
    first_failure: Failure | None
    stopped: str
    stability: Stability | None = None

    def __str__(self) -> str:
        if self.best is None:
            cause = f" ({self.first_failure})" if self.first_failure else ""
            return f"{self.task.name}: nothing ran in {counted(self.trials, 'trial')}{cause}"
        speed = self.task.flops / self.seconds / 1e9
        return (
            f"{self.task.name}: {self.seconds * 1e3:.4g} ms"
            f"{self._spread()}, "
            f"{speed:.4g} GFLOPS, {counted(self.trials, 'trial')}, {self.failures} failed"
        )

    def cells(self) -> tuple[str, ...]:
        """The task as a row of a table, see ``_COLUMNS``."""
        task = self.task
        trials = str(self.trials), str(self.failures)
        if self.best is None:
            return (task.name, f"{task.weight:g}", "-", "-", *trials, str(self.first_failure or ""))
        speed = f"{task.flops / self.seconds / 1e9:.4g}"
        time = f"{self.seconds * 1e3:.4g}{self._spread()}"
        variant = self.best.sketch.variant
        return (task.name, f"{task.weight:g}", time, speed, *trials, variant)

    def _spread(self) -> str:
        """In brackets: how far the time can be believed."""
        if self.stability is None or self.stability.deviation is None:
            return ""
        if self.stability.conditions.emulated:
            return " (emulated)"
        return f" (std {share(self.stability.deviation)} of median)"


@dataclass(frozen=True, slots=True, eq=False)
class TuneResult:
    """What tuning gave.

    Attributes:
        tasks: in the order given.
        records: everything measured, earlier runs in the log included.
        trials: of this run.
        seconds: wall-clock time of this run.
        stopped: "trials", "time", "no improvement", "nothing left to improve" or "interrupted".
        warnings: tasks on which nothing ran, lines of the log that could not be used.
        search_s: part of ``seconds`` in which the tuner built spaces or waited for them, chose
            candidates, and learned, whether or not a batch was being compiled meanwhile.
        conditions: what else the CPUs did during the final re-timing.
    """

    tasks: tuple[TaskResult, ...]
    records: tuple[Record, ...]
    trials: int
    seconds: float
    stopped: str
    warnings: tuple[str, ...]
    search_s: float = 0.0
    conditions: Conditions = UNKNOWN

    def report(self, path: str | PathLike[str] | None = None) -> ReportPage:
        """One HTML page of it, as ``autosched report`` makes of a log (extra ``report``).

        A notebook shows what this returns.  ``path``: of a file that it is written to.

        Raises:
            RecordError: nothing was measured.
            MissingPackageError: what draws the charts is not installed.
            OptionError: the file cannot be written.
        """
        from autosched.report.page.writing import report_tuning

        return report_tuning(path, "tuning", self.records, [item.task for item in self.tasks])

    @property
    def interrupted(self) -> bool:
        """Whether the user stopped it."""
        return self.stopped == "interrupted"

    @property
    def total_s(self) -> float:
        """Weighted sum of the tasks' times; infinite when one has none."""
        return sum(item.task.weight * item.seconds for item in self.tasks)

    def to_json(self) -> dict[str, Any]:
        """Tasks and totals as JSON values, times of tasks in milliseconds."""
        tasks = [
            {
                "name": item.task.name,
                "key": item.task.key,
                "weight": item.task.weight,
                "best_ms": item.seconds * 1e3 if math.isfinite(item.seconds) else None,
                "trials": item.trials,
                "failures": item.failures,
                "stability": None if item.stability is None else item.stability.to_json(),
            }
            for item in self.tasks
        ]
        return {
            "trials": self.trials,
            "seconds": self.seconds,
            "stopped": self.stopped,
            "conditions": self.conditions.to_json(),
            "tasks": tasks,
        }

    def __str__(self) -> str:
        return "\n".join([*(str(item) for item in self.tasks), self._total()])

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        rows = [item.cells() for item in self.tasks]
        return html_table(self._total(), _COLUMNS, rows, left=(0, 6), notes=self.warnings)

    def _total(self) -> str:
        total = f"total {self.total_s * 1e3:.4g} ms" if math.isfinite(self.total_s) else "no total"
        trials = counted(self.trials, "trial")
        return f"{total} after {trials} in {self.seconds:.1f} s ({self.stopped})"
