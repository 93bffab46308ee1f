"""The schedules that won, as loops, and the runs of several logs against each other."""

from __future__ import annotations

import math
from typing import Any, Final

from autosched.page.blocks import (
    PageBlock,
    PageChart,
    PageCode,
    PageSection,
    PageTable,
    PageText,
)
from autosched.page.words import bars_height
from autosched.records.structure import structure
from autosched.report.page.subject import ReportRun, ReportSubject, ReportTask
from autosched.search.recall import usable
from autosched.system.numbers import milliseconds
from autosched.system.stability import share
from autosched.tasks.spec import TaskSpec
from sketch.nest.printer import print_nest

# Characters of all schedules, and of one: a page has to stay small.
_MOST_CHARACTERS: Final = 800_000
_LONGEST: Final = 20_000


def schedules_section(subject: ReportSubject) -> PageSection:
    """What the fastest candidate of each task does; with its program, its loops."""
    run = subject.main
    header = ("task", "ms each", "schedule")
    rows = tuple(
        (task.label, milliseconds(task.seconds), structure(task.best))
        for task in run.timed
        if task.best is not None
    )
    blocks: list[PageBlock] = [PageTable("The fastest schedule in words", header, rows, (0, 2))]
    longest = min(_LONGEST, _MOST_CHARACTERS // max(1, len(run.timed)))
    if subject.specs:
        blocks += [_loops(task, subject.specs[task.key], longest) for task in run.timed]
    else:
        blocks.append(
            PageText("Loops follow from the program, which is not in the log: give the model.")
        )
    return PageSection("schedules", "Winning schedules", tuple(blocks))


def _loops(task: ReportTask, spec: TaskSpec, longest: int) -> PageCode:
    found = next(usable(spec, task.records), None)
    if found is None:
        return PageCode(f"{task.label}: not replayed", "No record replays on this program.")
    nest = print_nest(found.candidate.nest())
    values = ", ".join(f"{name}={value}" for name, value in found.candidate.named.items())
    text = f"variant {found.candidate.sketch.variant}, {values}\n\n{nest}"
    cut = "" if len(text) <= longest else "\n... `autosched explain` shows the rest"
    return PageCode(f"{task.label}: {milliseconds(found.seconds)} ms", text[:longest] + cut)


def comparison_section(subject: ReportSubject) -> PageSection:
    """The same tasks in several runs: other logs, or other machines."""
    title = "Comparison"
    if len(subject.runs) == 1:
        text = "There is one run; give several logs, or a log of several machines, to compare them."
        return PageSection("comparison", title, (PageText(text),))
    keys = dict.fromkeys(task.key for run in subject.runs for task in run.timed)
    times = {key: [run.task(key) for run in subject.runs] for key in keys}
    blocks: list[PageBlock] = [PageText(_sums(subject.runs, times))]
    if any(_both(row) for row in times.values()):
        blocks.append(_ratios(subject.runs, times))
    return PageSection("comparison", title, tuple(blocks))


_Times = dict[str, list[ReportTask | None]]


def _both(row: list[ReportTask | None]) -> bool:
    """Whether the task has a time in the first run and in another."""
    timed = [task is not None and math.isfinite(task.seconds) for task in row]
    return timed[0] and any(timed[1:])


def _sums(runs: tuple[ReportRun, ...], times: _Times) -> str:
    """The sums over the tasks that all runs have a time of."""
    shared = [row for row in times.values() if all(t is not None and t.best for t in row)]
    if not shared:
        return "No task has a time in all runs."
    sums = [sum(t.total_s for t in column if t is not None) for column in zip(*shared, strict=True)]
    parts = [f"{run.name} {milliseconds(s)} ms" for run, s in zip(runs, sums, strict=True)]
    return f"The {len(shared)} tasks that all runs have take together: {', '.join(parts)}."


def _ratios(runs: tuple[ReportRun, ...], times: _Times) -> PageChart:
    """How much faster than in the first run, with what both quartiles allow."""
    values: list[dict[str, Any]] = []
    rows = []
    for row in times.values():
        label = next(task.label for task in row if task is not None)
        rows.append((label, *(_cell(task) for task in row)))
        if not _both(row):
            continue
        first = row[0]
        for run, task in zip(runs[1:], row[1:], strict=True):
            if first is not None and task is not None and task.best is not None:
                low, high = first.low_s / task.high_s, first.high_s / task.low_s
                ratio = first.seconds / task.seconds
                values.append(
                    {"task": label, "run": run.name, "ratio": ratio, "low": low, "high": high}
                )
    across = {"type": "quantitative", "scale": {"type": "log"}}
    title = f"time in {runs[0].name} / time in the other run"
    spec = {
        "data": {"values": values},
        "width": "container",
        "height": bars_height(len(rows)),
        "encoding": {
            "y": {"field": "task", "type": "nominal", "sort": None, "title": None},
            "color": {"field": "run", "type": "nominal", "title": None},
        },
        "layer": [
            {
                "mark": {"type": "point", "filled": True, "size": 60, "tooltip": True},
                "encoding": {"x": {"field": "ratio", **across, "title": title}},
            },
            {
                "mark": "rule",
                "encoding": {
                    "x": {"field": "low", **across, "title": title},
                    "x2": {"field": "high"},
                },
            },
        ],
    }
    header = ("task", *(f"{run.name}, ms (std)" for run in runs))
    faster = sum(value["low"] > 1 for value in values)
    slower = sum(value["high"] < 1 for value in values)
    alt = (
        f"Points: of {len(values)} pairs of times {faster} are faster than in the first run and "
        f"{slower} slower, beyond their quartiles."
    )
    table = PageTable("Times of each run", header, tuple(rows))
    return PageChart(f"Faster than in {runs[0].name}: right of 1", alt, spec, table)


def _cell(task: ReportTask | None) -> str:
    if task is None or task.best is None:
        return "-"
    return f"{milliseconds(task.seconds)} ({share(task.deviation) or 'one sample'})"
