"""Sections on what was tried: variants and sketches, predictions, pairs of decisions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from autosched.measure.result import Timing
from autosched.page.blocks import PageBlock, PageChart, PageSection, PageTable, PageText
from autosched.page.words import bars_height
from autosched.records.record import Record
from autosched.records.structure import structure
from autosched.records.trials import TaskTrials, decisions_of, main_sketch
from autosched.report.explain import named_decisions
from autosched.report.page.convergence import TASK_CHOSEN, task_choice
from autosched.report.page.subject import ReportRun, ReportSubject, no_trials
from autosched.system.numbers import significant

if TYPE_CHECKING:
    from autosched.tasks.spec import TaskSpec

# Points that a chart shows: a page has to stay small.
_MOST_POINTS: Final = 4000
# Records of all landscapes, and of one.
_MOST_RECORDS: Final = 10_000
_MOST_OF_ONE: Final = 400
# Fewer pairs say nothing about an order.
_FEWEST: Final = 8


def variants_section(subject: ReportSubject) -> PageSection:
    """The best time of every sketch, relative to the best of its task."""
    tasks = subject.main.trials
    if not tasks:
        text = no_trials([subject.main])
        return PageSection("variants", "Variants and sketches", (PageText(text),))
    found = [row for task in tasks for row in _sketches(task)]
    spec = {
        "data": {"values": [values for values, _ in found]},
        "width": "container",
        "height": bars_height(len(tasks)),
        "mark": {
            "type": "point",
            "filled": True,
            "size": 60,
            "opacity": 0.7,
            "tooltip": {"content": "data"},
        },
        "encoding": {
            "y": {"field": "task", "type": "nominal", "sort": None, "title": None},
            "x": {
                "field": "ratio",
                "type": "quantitative",
                "scale": {"type": "log"},
                "title": "best of the sketch / best of the task",
            },
            "color": {"field": "variant", "type": "nominal", "title": None},
        },
    }
    header = ("task", "sketch", "trials", "failed", "best us", "of the best", "schedule")
    table = PageTable(
        "Sketches, the best of each task first", header, tuple(r for _, r in found), (0, 1, 6)
    )
    variants = {values["variant"] for values, _ in found}
    alt = f"Points: the best time of {len(found)} sketches of {len(variants)} variants."
    chart = PageChart("Sketches against the best of their task", alt, spec, table)
    return PageSection("variants", "Variants and sketches", (chart,))


def _sketches(task: TaskTrials) -> list[tuple[dict[str, Any], tuple[str, ...]]]:
    """Points and rows of the sketches of a task that ran, the best first."""
    groups: dict[str, list[int]] = {}
    for number, record in enumerate(task.records):
        groups.setdefault(record.sketch_key, []).append(number)
    found = []
    for key, numbers in groups.items():
        seconds = task.seconds[numbers]
        failed = int(np.isinf(seconds).sum())
        record, best = task.records[numbers[0]], float(seconds.min())
        if math.isinf(best):
            continue
        ratio = best / task.best_s
        values = {"task": task.label, "variant": record.variant, "sketch": key, "ratio": ratio}
        row = (
            task.label,
            key,
            str(len(numbers)),
            str(failed),
            significant(best * 1e6, 1),
            f"{ratio:.2f}x",
            structure(record),
        )
        found.append((values, row))
    return sorted(found, key=lambda pair: pair[0]["ratio"])


def prediction_section(subject: ReportSubject) -> PageSection:
    """What the search predicted against what was measured."""
    rows: list[tuple[str, ...]] = []
    values: list[dict[str, Any]] = []
    for task in subject.main.trials:
        pairs = [pair for record in task.records if (pair := _pair(record)) is not None]
        values += [{"task": task.label, "predicted": p, "measured": m} for p, m in pairs]
        if len(pairs) >= _FEWEST:
            order = _rank_correlation(np.array(pairs))
            rows.append((task.label, str(len(pairs)), f"{order:.2f}"))
    title = "Predicted and measured"
    if not values:
        text = no_trials([subject.main])
        if subject.main.trials:
            text = "The records do not say what was predicted: logs have that from schema 5 on."
        return PageSection("prediction", title, (PageText(text),))
    step = math.ceil(len(values) / _MOST_POINTS)
    axis = {"type": "quantitative", "scale": {"type": "log"}}
    spec = {
        "data": {"values": values[::step]},
        "width": "container",
        "height": 320,
        "params": [task_choice([task.label for task in subject.main.trials])],
        "transform": [{"filter": TASK_CHOSEN}],
        "mark": {"type": "point", "filled": True, "size": 14, "opacity": 0.6, "tooltip": True},
        "encoding": {
            "x": {"field": "predicted", **axis, "title": "predicted, us up to a factor"},
            "y": {"field": "measured", **axis, "title": "measured, us"},
            "color": {"field": "task", "type": "nominal", "legend": None},
        },
    }
    header = ("task", "pairs", "rank correlation")
    caption = f"How well predictions order the trials (tasks of {_FEWEST} pairs or more)"
    table = PageTable(caption, header, tuple(rows))
    alt = f"Points: {len(values)} trials, what was predicted across, what was measured up."
    shown = f", every {step}th of them" if step > 1 else ""
    chart = PageChart(f"{len(values)} trials{shown}", alt, spec, table)
    note = (
        "A prediction ranks the candidates of one task: its unit is seconds up to a factor, which "
        "the search learns. Those that were predicted to be slow were not measured."
    )
    return PageSection("prediction", title, (chart, PageText(note)))


def _pair(record: Record) -> tuple[float, float] | None:
    """Predicted and measured microseconds, where both are known and have a logarithm."""
    if not record.predicted or record.predicted < 0 or not isinstance(record.result, Timing):
        return None
    return record.predicted * 1e6, record.result.median * 1e6


def _rank_correlation(pairs: NDArray[np.float64]) -> float:
    """Spearman's, of float64 ``[pairs, 2]``; ties count in the order of the log."""
    ranks = pairs.argsort(axis=0, kind="stable").argsort(axis=0, kind="stable")
    return float(np.atleast_2d(np.corrcoef(ranks.T))[0, 1])


def landscape_section(subject: ReportSubject) -> PageSection:
    """The times over two decisions that the reader chooses, of the main sketch of each task."""
    most = min(_MOST_OF_ONE, _MOST_RECORDS // max(1, len(subject.main.trials)))
    tasks = [
        found
        for task in subject.main.trials
        if (found := _landscape(task, subject.specs.get(task.key), most)) is not None
    ]
    title = "Landscapes"
    if not tasks:
        text = "No sketch has several trials and two decisions, so there is no landscape."
        return PageSection("landscape", title, (PageText(text),))
    blocks: list[PageBlock] = [_landscapes(subject.main, tasks)]
    blocks.append(
        PageText(
            "The best time measured for each pair of values, of the sketch with the most trials; "
            "the cross is the fastest. What is blank was not measured. The search chose the "
            "values, so they are no fair sample."
        )
    )
    return PageSection("landscape", title, tuple(blocks))


def _landscapes(run: ReportRun, tasks: Sequence[dict[str, Any]]) -> PageChart:
    rows = []
    for task in tasks:
        best = int(np.argmin(task["us"]))
        for name, column in zip(task["names"], task["columns"], strict=True):
            tried = sorted(set(column))
            rows.append((task["label"], name, ", ".join(map(str, tried)), str(column[best])))
    header = ("task", "decision", "values tried", "of the fastest")
    table = PageTable("Decisions and their values", header, tuple(rows), (0, 1, 2))
    alt = "A grid of the best time for each pair of values of two decisions; menus choose which."
    return PageChart("Times over two decisions", alt, {"tasks": list(tasks)}, table, "landscape")


def _landscape(task: TaskTrials, spec: TaskSpec | None, most: int) -> dict[str, Any] | None:
    """Names, values and times of the decisions of a sketch: of many records the fastest."""
    records, seconds = main_sketch(task)
    columns = decisions_of(records)
    if len(records) < 2 or len(columns) < 2:
        return None
    kept = np.sort(np.argsort(seconds, kind="stable")[:most])
    return {
        "label": task.label,
        "names": _names(list(columns), records[0], spec),
        "columns": [column[kept].tolist() for column in columns.values()],
        "us": [float(f"{s * 1e6:.4g}") for s in seconds[kept]],
    }


def _names(columns: list[str], record: Record, spec: TaskSpec | None) -> list[str]:
    """What the program calls the decisions; as the record does where that is not known."""
    named = list(record.decisions if spec is None else named_decisions(spec, record))
    if len(named) != len(record.decisions):
        return columns
    names = dict(zip(record.decisions, named, strict=True))
    return [names[column] for column in columns]
