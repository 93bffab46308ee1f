"""What the search saw of a task: its times over two decisions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from autosched.plots.figure import axes_or_new
from autosched.records.trials import decisions_of, main_sketch, task_of
from autosched.system.errors import OptionError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from autosched.tasks.spec import TaskSpec

_TICKS: Final = 12


def landscape(
    data: Any,
    task: str | TaskSpec | None = None,
    x: str | None = None,
    y: str | None = None,
    ax: Axes | None = None,
) -> Axes:
    """The best time measured for each pair of values of two decisions; a cross is the fastest.

    Of the sketch that got the most trials.  Cells without a colour were not measured.

    Args:
        data: a log, what ``tune`` returned, or records.
        task: a task, or the beginning of its key; None: the one with the most trials.
        x: a decision as records call it, such as ``"1.0@2"``; None: the one that was tried with the
            most values.
        y: another decision.
        ax: axes to draw on; None: new ones.

    Raises:
        OptionError: there is nothing to plot, or no such task or decision.
        MissingPackageError: matplotlib is not installed.
    """
    found = task_of(data, task)
    records, seconds = main_sketch(found)
    columns = decisions_of(records)
    across, up = _chosen(list(columns), x, y)
    axes = axes_or_new(ax, height=4.5)
    xs, at_x = np.unique(columns[across], return_inverse=True)
    ys, at_y = np.unique(columns[up], return_inverse=True)
    grid = np.full((len(ys), len(xs)), np.inf)
    np.minimum.at(grid, (at_y, at_x), seconds * 1e6)
    image = axes.imshow(
        np.where(np.isinf(grid), np.nan, grid), origin="lower", aspect="auto", cmap="viridis_r"
    )
    best = int(seconds.argmin())
    axes.plot(at_x[best], at_y[best], "rx", markersize=10)
    axes.set_xticks(*_ticks(xs))
    axes.set_yticks(*_ticks(ys))
    axes.set(xlabel=across, ylabel=up, title=found.label)
    axes.figure.colorbar(image, ax=axes, label="best measured, us")
    return axes


def _ticks(values: NDArray[np.int64]) -> tuple[list[int], list[str]]:
    places = list(range(0, len(values), max(1, len(values) // _TICKS)))
    return places, [str(values[place]) for place in places]


def _chosen(names: list[str], x: str | None, y: str | None) -> tuple[str, str]:
    """The decisions that were asked for, the first of the others where none was."""
    for name in (x, y):
        if name is not None and name not in names:
            known = ", ".join(names)
            raise OptionError(f"there is no decision {name!r}", hint=f"known: {known}")
    left = [name for name in names if name not in (x, y)]
    chosen = [name if name is not None else left.pop(0) if left else None for name in (x, y)]
    if chosen[0] is None or chosen[1] is None:
        raise OptionError("the sketch has fewer than two decisions", hint="name another task")
    return chosen[0], chosen[1]
