"""Where the trials went, next to where the time is."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from typing import TYPE_CHECKING, Any

import numpy as np

from autosched.plots.figure import axes_or_new
from autosched.records.trials import tasks_of, weights_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def allocation(
    data: Any, weights: Mapping[str, float] | None = None, ax: Axes | None = None
) -> Axes:
    """The share of each task in the time and in the trials, those that take longest first.

    A task that takes long and got few trials has nothing left to gain.  Tasks without a success
    have trials and no time.

    Args:
        data: a log, what ``tune`` returned, or records.
        weights: how often each task occurs, by its key; None: what the result of tuning says, or 1.
        ax: axes to draw on; None: new ones.

    Raises:
        OptionError: there is nothing to plot.
        MissingPackageError: matplotlib is not installed.
    """
    known = weights_of(data, weights)
    tasks = tasks_of(data, failed=True)
    timed = [(known.get(t.key, 1.0) * t.best_s if isfinite(t.best_s) else 0.0, t) for t in tasks]
    timed.sort(key=lambda pair: -pair[0])
    axes = axes_or_new(ax, height=1.2 + 0.3 * len(timed))
    seconds = np.array([time for time, _ in timed])
    trials = np.array([len(task.records) for _, task in timed])
    places = np.arange(len(timed))
    axes.barh(places - 0.2, 100 * seconds / seconds.sum(), 0.4, label="of the time")
    axes.barh(places + 0.2, 100 * trials / trials.sum(), 0.4, label="of the trials")
    axes.set_yticks(places, [task.state for _, task in timed], fontsize="x-small")
    axes.invert_yaxis()
    axes.set(xlabel="share, %")
    axes.legend()
    return axes
