"""Which decisions matter: a forest that predicts the time of a sketch from its decisions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from autosched.plots.figure import axes_or_new
from autosched.records.trials import decisions_of, main_sketch, task_of
from autosched.system.errors import OptionError
from costmodel.importance import importances

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from autosched.tasks.spec import TaskSpec

# Fewer trials say nothing about any decision.
_FEWEST: Final = 8


def importance(data: Any, task: str | TaskSpec | None = None, ax: Axes | None = None) -> Axes:
    """The share of each decision in what a random forest explains of the logarithm of the time.

    Of the sketch that got the most trials.  The values tried are those that the search liked, not
    a fair sample.

    Args:
        data: a log, what ``tune`` returned, or records.
        task: a task, or the beginning of its key; None: the one with the most trials.
        ax: axes to draw on; None: new ones.

    Raises:
        OptionError: there are too few trials, or no such task.
        MissingPackageError: matplotlib is not installed.
    """
    found = task_of(data, task)
    records, seconds = main_sketch(found)
    if len(records) < _FEWEST or not records[0].decisions:
        raise OptionError(
            f"{len(records)} trials of a sketch are too few", f"task {found.label}", "tune it more"
        )
    columns = decisions_of(records)
    shares = importances(np.stack(list(columns.values()), axis=1), seconds)
    order = np.argsort(shares)
    names = list(columns)
    axes = axes_or_new(ax, height=1.0 + 0.25 * len(names))
    axes.barh([names[n] for n in order], 100 * shares[order])
    axes.set(xlabel="share of what the decisions explain, %", title=found.label)
    return axes
