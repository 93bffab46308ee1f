"""Sections on how the search went: the best time so far, and where the trials went."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from autosched.page.blocks import PageBlock, PageChart, PageSection, PageTable, PageText
from autosched.page.words import bars_height, percent
from autosched.records.trials import TaskTrials, first_measurements
from autosched.report.page.subject import ReportRun, ReportSubject, no_trials
from autosched.system.numbers import milliseconds

Curve = NDArray[np.float64]

# Between two trials nobody measured for so long: the run was stopped, and resumed later.
_PAUSE_S: Final = 300.0


def convergence_section(subject: ReportSubject) -> PageSection:
    """The best time so far over the trials and over the seconds, of all tasks and of each."""
    runs = [run for run in subject.runs if run.trials]
    if not runs:
        text = no_trials(subject.runs)
        return PageSection("convergence", "Convergence", (PageText(text),))
    blocks: list[PageBlock] = [_total(runs)]
    clocked = [run for run in runs if _seconds(run)[-1] > 0]
    if clocked:
        blocks.append(_clocked(clocked))
    else:
        blocks.append(PageText("The log does not say when its trials were measured."))
    if subject.main.trials:
        blocks.append(_each(subject.main.trials))
    return PageSection("convergence", "Convergence", tuple(blocks))


def total_curve(run: ReportRun) -> Curve:
    """[trials] weighted sum of the tasks' best so far; infinite until each has a time."""
    count = max(int(task.numbers[-1]) for task in run.trials)
    weights = {task.key: task.weight for task in run.tasks}
    return sum((weights[t.key] * t.best_until(count) for t in run.trials), np.zeros(count))


def _seconds(run: ReportRun) -> Curve:
    """[trials] when each was measured, without the pauses between sessions."""
    moments = np.array([record.time for record in first_measurements(run.records)])
    steps = np.diff(moments, prepend=moments[:1])
    count = len(total_curve(run))
    return np.cumsum(np.where((steps > 0) & (steps < _PAUSE_S), steps, 0.0))[:count]


def _corners(curve: Curve) -> list[int]:
    """The finite places of a curve that falls in steps where it falls, and its end."""
    finite = np.flatnonzero(np.isfinite(curve))
    falls = [int(n) for n in finite if n == finite[0] or curve[n] < curve[n - 1]]
    return falls if not falls or falls[-1] == len(curve) - 1 else [*falls, len(curve) - 1]


def _total(runs: Sequence[ReportRun]) -> PageChart:
    values = []
    for run in runs:
        curve = total_curve(run)
        values += [
            {"run": run.name, "trials": n + 1, "ms": float(curve[n]) * 1e3} for n in _corners(curve)
        ]
    spec = _steps(values, "trials", "trials", "sum of the tasks' best so far, ms", "run")
    alt = "; ".join(_ends(run) for run in runs)
    return PageChart("All tasks over the trials", alt, spec, _table(values, "trials"))


def _ends(run: ReportRun) -> str:
    curve = total_curve(run)
    places = _corners(curve)
    if not places:
        return f"{run.name}: not every task has a time"
    first, last = milliseconds(float(curve[places[0]])), milliseconds(float(curve[places[-1]]))
    return (
        f"{run.name}: from {first} ms at trial {places[0] + 1} to {last} ms at trial {len(curve)}"
    )


def _clocked(runs: Sequence[ReportRun]) -> PageChart:
    values = []
    for run in runs:
        curve, clock = total_curve(run), _seconds(run)
        values += [
            {"run": run.name, "seconds": float(clock[n]), "ms": float(curve[n]) * 1e3}
            for n in _corners(curve)
        ]
    title = "seconds since the first trial, pauses left out"
    spec = _steps(values, "seconds", title, "sum of the tasks' best so far, ms", "run")
    alt = "; ".join(f"{run.name}: {_seconds(run)[-1]:.0f} s of measuring" for run in runs)
    return PageChart("All tasks over the time", alt, spec, _table(values, "seconds"))


def _table(values: Sequence[dict[str, Any]], across: str) -> PageTable:
    rows = tuple((v["run"], f"{v[across]:g}", f"{v['ms']:.4g}") for v in values)
    return PageTable("Every improvement", ("run", across, "ms"), rows)


def _steps(
    values: Sequence[dict[str, Any]], across: str, title: str, up: str, colour: str
) -> dict[str, Any]:
    return {
        "data": {"values": list(values)},
        "width": "container",
        "height": 280,
        "mark": {
            "type": "line",
            "interpolate": "step-after",
            "tooltip": True,
            "point": {"size": 12},
        },
        "encoding": {
            "x": {"field": across, "type": "quantitative", "title": title},
            "y": {"field": "ms", "type": "quantitative", "title": up, "scale": {"zero": False}},
            "color": {"field": colour, "type": "nominal", "title": None},
        },
    }


def _each(tasks: Sequence[TaskTrials]) -> PageChart:
    """Each task over its own trials, relative to its best."""
    values: list[dict[str, Any]] = []
    rows = []
    for task in tasks:
        curve = np.minimum.accumulate(task.seconds) / task.best_s
        places = _corners(curve)
        values += [{"task": task.label, "trials": n + 1, "ratio": float(curve[n])} for n in places]
        within = int(np.flatnonzero(curve <= 1.05)[0]) + 1
        rows.append((task.label, str(len(curve)), str(int(task.seconds.argmin()) + 1), str(within)))
    labels = [task.label for task in tasks]
    spec = {
        "data": {"values": values},
        "width": "container",
        "height": 280,
        "params": [task_choice(labels)],
        "mark": {"type": "line", "interpolate": "step-after", "tooltip": True},
        "encoding": {
            "x": {"field": "trials", "type": "quantitative", "title": "trials of the task"},
            "y": {"field": "ratio", "type": "quantitative", "title": "best so far / best",
                  "scale": {"type": "log"}},
            "color": {"field": "task", "type": "nominal", "legend": None},
            "opacity": {"condition": {"test": TASK_CHOSEN, "value": 1}, "value": 0.06},
        },
    }  # fmt: skip
    header = ("task", "trials", "best at trial", "within 5 % of it at trial")
    alt = f"Curves of {len(tasks)} tasks that fall in steps to 1, their best time."
    table = PageTable("When each task found its best", header, tuple(rows))
    return PageChart("Each task over its own trials", alt, spec, table)


TASK_CHOSEN: Final = "chosen == null || datum.task == chosen"
"""Whether a mark is of the task that the reader chose with ``task_choice``."""


def task_choice(labels: Sequence[str]) -> dict[str, Any]:
    """A menu of tasks beside a chart, all at first."""
    menu = {"input": "select", "options": [None, *labels], "labels": ["all", *labels]}
    return {"name": "chosen", "value": None, "bind": {**menu, "name": "Task "}}


def trials_section(subject: ReportSubject) -> PageSection:
    """The share of each task in the time and in the trials."""
    run = subject.main
    counted = [task for task in run.timed if task.trials is not None]
    trials = sum(len(task.trials.records) for task in counted if task.trials is not None)
    if not trials:
        return PageSection("trials", "Where the trials went", (PageText(no_trials([run])),))
    values, rows = [], []
    for task in counted:
        count = 0 if task.trials is None else len(task.trials.records)
        shares = task.total_s / run.total_s, count / trials
        for of, share in zip(("of the time", "of the trials"), shares, strict=True):
            values.append({"task": task.label, "of": of, "percent": 100 * share})
        rows.append((task.label, percent(shares[0]), percent(shares[1]), str(count)))
    spec = {
        "data": {"values": values},
        "width": "container",
        "height": bars_height(len(counted)),
        "mark": {"type": "bar", "tooltip": True},
        "encoding": {
            "y": {"field": "task", "type": "nominal", "sort": None, "title": None},
            "yOffset": {"field": "of"},
            "x": {"field": "percent", "type": "quantitative", "title": "share, %"},
            "color": {"field": "of", "type": "nominal", "title": None},
        },
    }
    alt = f"Two bars for each of {len(counted)} tasks: its share of the time, and of the trials."
    table = PageTable("Shares", ("task", "of the time", "of the trials", "trials"), tuple(rows))
    note = (
        "A task that takes long and got few trials has nothing left to gain, or its trials failed: "
        "the section on failures counts them."
    )
    chart = PageChart("Time and trials", alt, spec, table)
    return PageSection("trials", "Where the trials went", (chart, PageText(note)))
