"""How a run went: the best time so far over the trials."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from autosched.plots.figure import axes_or_new
from autosched.records.trials import tasks_of, weights_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Of more tasks the legend hides the curves.
_MOST_NAMED: Final = 12


def history(
    data: Any,
    total: bool = False,
    weights: Mapping[str, float] | None = None,
    ax: Axes | None = None,
) -> Axes:
    """The best time so far of each task, relative to the best in the end, or of all together.

    Tasks without a success have no curve; the legend, or the axis of the sum, says so.

    Args:
        data: a log, what ``tune`` returned, or records.
        total: instead the sum over all tasks in milliseconds, from the trial on at which each has a
            time.
        weights: how often each task occurs, by its key; None: what the result of tuning says, or 1.
        ax: axes to draw on; None: new ones.

    Raises:
        OptionError: there is nothing to plot.
        MissingPackageError: matplotlib is not installed.
    """
    tried = tasks_of(data, failed=True)
    tasks = [task for task in tried if math.isfinite(task.best_s)]
    axes = axes_or_new(ax)
    count = max(int(task.numbers[-1]) for task in tried)
    trials = np.arange(1, count + 1)
    if total:
        known = weights_of(data, weights)
        curve = sum(known.get(task.key, 1.0) * task.best_until(count) for task in tasks)
        axes.plot(trials, np.where(np.isfinite(curve), curve, np.nan) * 1e3)
        without = f" ({len(tasks)} of {len(tried)} tasks)" if len(tasks) < len(tried) else ""
        axes.set(xlabel="trials", ylabel=f"sum of the tasks' best so far, ms{without}")
        return axes
    for task in tried:
        best = task.best_until(count)
        ratio = np.where(np.isfinite(best), best, np.nan) / task.best_s
        axes.plot(trials, ratio, label=task.state)
    axes.set(xlabel="trials", ylabel="best so far / best", yscale="log")
    if len(tried) <= _MOST_NAMED:
        axes.legend(fontsize="x-small")
    return axes
