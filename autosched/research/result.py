"""What ``compare`` gives: every trial of every run, curves with bands, and a table."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from autosched.runtime.table import render_table
from autosched.system.numbers import counted
from autosched.system.optional_packages import data_frame
from autosched.tuning.objectives import Objective, latencies, value_of
from sketch.html import html_table

if TYPE_CHECKING:
    from autosched.tasks.spec import TaskSpec

Floats = NDArray[np.float64]

_COLUMNS: Final = (
    "policy", "model", "scheduler", "seed", "trial", "task", "name", "task_trial", "seconds",
    "best_s", "speed",
)  # fmt: skip
_MISSING: Final = "-"
# Student's t at 97.5 % for 1, 2, ... degrees of freedom; from there on it is nearly 2.
_STUDENT: Final = (12.71, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228)
_STUDENT_OF_MANY: Final = 2.2


@dataclass(frozen=True, slots=True)
class StudySetting:
    """One way to tune.

    Attributes:
        policy, model, scheduler: their names.
    """

    policy: str
    model: str
    scheduler: str

    def __str__(self) -> str:
        return f"{self.policy}, {self.model}, {self.scheduler}"


@dataclass(frozen=True, slots=True, eq=False)
class StudyRun:
    """The trials of one run, in order.

    Attributes:
        setting: how it tuned.
        seed: of everything random.
        tasks: the task of each trial, by its place among the tasks, int64 [trials].
        seconds: of each trial; infinite for a failure, float64 [trials].
        warnings: what was wrong with the model, say.
    """

    setting: StudySetting
    seed: int
    tasks: NDArray[np.int64]
    seconds: Floats
    warnings: tuple[str, ...] = ()

    def best_of_tasks(self, count: int) -> Floats:
        """[trials, count] best seconds of each of the tasks so far; infinite without a success."""
        found = np.full((len(self.seconds), count), math.inf)
        found[np.arange(len(self.seconds)), self.tasks] = self.seconds
        return np.minimum.accumulate(found, axis=0)


@dataclass(frozen=True, slots=True, eq=False)
class TrialCurve:
    """How good a setting is after each trial, over its seeds.

    Attributes:
        label: the setting, but for what all have in common.
        setting: how it tuned.
        speed: mean over the seeds of the speed relative to the best known, float64 [trials].
        low, high: 95 % confidence interval of that mean (Student's t), float64 [trials]; of one
            seed there is none, and both are the mean.
        seeds: runs.
        half: half the width of the interval, which no speed of 0 or 1 ends.
        measured: whether every run has a time for each task by then, bool [trials].
    """

    label: str
    setting: StudySetting
    speed: Floats
    low: Floats
    high: Floats
    seeds: int
    half: Floats
    measured: NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class StudyResult:
    """Runs of several settings over the same tasks, seeds and measurements.

    The speed after a trial is the best known value of the objective over that of the best programs
    so far: 0 until every task has one, 1 where nothing better is known.

    Attributes:
        tasks: that each run tuned.
        runs: of each setting, one for each seed.
        objective: of the tasks' best times.
        known_s: the best time of each task, of all runs and of the records that were replayed.
        source: what measured.
    """

    tasks: tuple[TaskSpec, ...]
    runs: tuple[StudyRun, ...]
    objective: Objective
    known_s: tuple[float, ...]
    source: str

    @cached_property
    def settings(self) -> tuple[StudySetting, ...]:
        """In the order of the runs."""
        return tuple(dict.fromkeys(run.setting for run in self.runs))

    def label(self, setting: StudySetting) -> str:
        """What tells a setting from the others: the names that are not common to all."""
        parts = [
            getattr(setting, axis)
            for axis in ("policy", "model", "scheduler")
            if len({getattr(other, axis) for other in self.settings}) > 1
        ]
        return ", ".join(parts) or setting.policy

    def rows(self) -> list[dict[str, Any]]:
        """One mapping a trial; ``task`` is the key of its task, ``best_s`` the task's so far."""
        return [row for run in self.runs for row in self._rows_of(run)]

    def to_pandas(self) -> Any:
        """``rows`` as a pandas DataFrame.

        Raises:
            MissingPackageError: pandas is not installed.
        """
        return data_frame(self.rows(), _COLUMNS, {"source": self.source})

    def frame(self) -> Any:
        """``to_pandas()`` where pandas is installed, else ``rows()``."""
        return self.rows() if find_spec("pandas") is None else self.to_pandas()

    def curves(self) -> tuple[TrialCurve, ...]:
        """One for each setting; a run that ended early stays where it was."""
        longest = max(len(run.seconds) for run in self.runs)
        return tuple(self._curve(setting, longest) for setting in self.settings)

    def table(self, at: Sequence[int] | None = None) -> str:
        """Text: the speed of each setting after some numbers of trials, with its interval.

        "-" where in some run a task has no time yet.

        ``at``: trials; None: a quarter of all, a half and all of them.
        """
        return render_table(*self._cells(at))

    def __str__(self) -> str:
        tasks = f"{len(self.tasks)} task{'s' * (len(self.tasks) != 1)}"
        return f"{tasks}, {self.source}; {self._meaning()}\n{self.table()}"

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        header, rows = self._cells(None)
        title = f"{counted(len(self.tasks), 'task')}, {self.source}"
        return html_table(title, header, rows, left=(0,), notes=[self._meaning()])

    def _meaning(self) -> str:
        """What the numbers of the table are."""
        seeds = max(sum(run.setting == setting for run in self.runs) for setting in self.settings)
        band = (
            f", mean of {seeds} seeds ± half of its 95 % confidence interval (Student's t)"
            if seeds > 1
            else ""
        )
        missing = f"; {_MISSING}: in some run a task has no time yet"
        cells = (cell for _, *row in self._cells(None)[1] for cell in row)
        return f"speed relative to the best known{band}{missing if _MISSING in cells else ''}"

    def _cells(self, at: Sequence[int] | None) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
        curves = self.curves()
        last = len(curves[0].speed)
        wanted = sorted({min(last, max(1, n)) for n in at or (last // 4, last // 2, last)})
        header = ("setting", *(counted(n, "trial") for n in wanted))
        return header, [(curve.label, *(_cell(curve, n - 1) for n in wanted)) for curve in curves]

    def _rows_of(self, run: StudyRun) -> list[dict[str, Any]]:
        best, speeds = run.best_of_tasks(len(self.tasks)), self.speeds(run)
        counts = [0] * len(self.tasks)
        rows = []
        for n, (place, seconds) in enumerate(
            zip(run.tasks.tolist(), run.seconds.tolist(), strict=True)
        ):
            counts[place] += 1
            cells = (
                run.setting.policy, run.setting.model, run.setting.scheduler, run.seed, n + 1,
                self.tasks[place].key, self.tasks[place].name, counts[place], seconds,
                float(best[n, place]), float(speeds[n]),
            )  # fmt: skip
            rows.append(dict(zip(_COLUMNS, cells, strict=True)))
        return rows

    def speeds(self, run: StudyRun) -> Floats:
        """[trials] of a run."""
        known = self._value(self.known_s)
        rows = [tuple(row) for row in run.best_of_tasks(len(self.tasks)).tolist()]
        found: Mapping[tuple[float, ...], float] = {row: self._value(row) for row in set(rows)}
        return np.array([_speed(known, found[row]) for row in rows])

    def _value(self, seconds: Sequence[float]) -> float:
        """Of the objective; infinite while a task has no time."""
        if not all(math.isfinite(s) for s in seconds):
            return math.inf
        usage = [[task.weight for task in self.tasks]]
        return value_of(self.objective, latencies(usage, seconds))

    def _curve(self, setting: StudySetting, longest: int) -> TrialCurve:
        mine = [run for run in self.runs if run.setting == setting]
        speeds = np.stack([_extended(self.speeds(run), longest) for run in mine])
        mean, count = speeds.mean(axis=0), len(mine)
        half = np.zeros(longest)
        if count > 1:
            half = _student(count - 1) * speeds.std(axis=0, ddof=1) / math.sqrt(count)
        low, high = np.maximum(mean - half, 0.0), np.minimum(mean + half, 1.0)
        measured = np.asarray((speeds > 0).all(axis=0))
        return TrialCurve(self.label(setting), setting, mean, low, high, count, half, measured)


def _speed(known: float, value: float) -> float:
    """Infinite values are of tasks that never ran; an objective may reach zero."""
    if math.isinf(value):
        return 0.0
    return 1.0 if value <= known else known / value


def _student(freedom: int) -> float:
    return _STUDENT[freedom - 1] if freedom <= len(_STUDENT) else _STUDENT_OF_MANY


def _extended(speeds: Floats, count: int) -> Floats:
    last = speeds[-1] if len(speeds) else 0.0
    return np.concatenate([speeds, np.full(count - len(speeds), last)])


def _cell(curve: TrialCurve, place: int) -> str:
    if not curve.measured[place]:
        return _MISSING
    text = f"{curve.speed[place]:.3f}"
    return text if curve.seeds == 1 else f"{text} ± {curve.half[place]:.3f}"
