"""Several runs of the same tasks against each other."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from autosched.plots.figure import axes_or_new
from autosched.records.record import Record
from autosched.records.trials import TaskTrials, tasks_of, weights_of
from autosched.system.errors import OptionError
from sketch.errors import quoted

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Curve = NDArray[np.float64]


def compare(runs: Mapping[str, Any], ax: Axes | None = None) -> Axes:
    """The speed of the best so far over the trials, relative to the best of all runs.

    Args:
        runs: by name, a run (a log, what ``tune`` returned, or records), or a sequence of runs with
            other seeds: then the curve is their median, and the band their quartiles.
        ax: axes to draw on; None: new ones.

    Raises:
        OptionError: runs without names, or one that has nothing to plot, or other tasks than the
            first.
        MissingPackageError: matplotlib is not installed.
    """
    if not isinstance(runs, Mapping):
        raise OptionError(
            f"runs is {quoted(runs)}", hint='give runs by name, such as {"mine": "mine.jsonl", ...}'
        )
    repeated = {name: _repeated(value) for name, value in runs.items()}
    # Logs do not say how often a task occurs; what ``tune`` returned does, for all runs.
    known = {
        key: weight
        for group in repeated.values()
        for run in group
        for key, weight in weights_of(run, None).items()
    }
    curves = {name: [_total(run, known) for run in group] for name, group in repeated.items()}
    every = [curve for group in curves.values() for curve, _ in group]
    if not every or len({keys for group in curves.values() for _, keys in group}) > 1:
        raise OptionError("runs that are compared must be of the same tasks", hint="name two runs")
    axes = axes_or_new(ax)
    best = min(float(curve.min()) for curve in every)
    for name, group in curves.items():
        count = max(len(curve) for curve, _ in group)
        speed = np.stack([best / _extended(curve, count) for curve, _ in group])
        low, median, high = np.percentile(speed, (25, 50, 75), axis=0)
        trials = np.arange(1, count + 1)
        (line,) = axes.plot(trials, median, label=name)
        if len(group) > 1:
            axes.fill_between(trials, low, high, alpha=0.2, color=line.get_color())
    axes.set(xlabel="trials", ylabel="speed of the best so far / best known")
    axes.legend()
    return axes


def _repeated(value: Any) -> Sequence[Any]:
    many = isinstance(value, Sequence) and not isinstance(value, str)
    return value if many and not all(isinstance(item, Record) for item in value) else [value]


def _total(run: Any, weights: Mapping[str, float]) -> tuple[Curve, frozenset[str]]:
    """[trials] sum of the tasks' best so far, infinite until each has one; and their keys."""
    tasks: tuple[TaskTrials, ...] = tasks_of(run)
    count = max(int(task.numbers[-1]) for task in tasks)
    total = np.zeros(count)
    for task in tasks:
        total += weights.get(task.key, 1.0) * task.best_until(count)
    return total, frozenset(task.key for task in tasks)


def _extended(curve: Curve, count: int) -> Curve:
    """As if the run had gone on without finding anything better."""
    last = float(curve[-1]) if len(curve) else math.inf
    return np.concatenate([curve, np.full(count - len(curve), last)])
