"""Settings of a comparison against each other, with what chance makes of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from autosched.plots.figure import axes_or_new
from autosched.research.result import StudyResult
from autosched.system.errors import OptionError

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def trial_curves(comparison: StudyResult, ax: Axes | None = None) -> Axes:
    """The speed after each trial, mean over the seeds; the band is its 95 % confidence interval.

    Args:
        comparison: what ``asd.research.compare`` returned.
        ax: axes to draw on; None: new ones.

    Raises:
        OptionError: it is something else.
        MissingPackageError: matplotlib is not installed.
    """
    if not isinstance(comparison, StudyResult):
        raise OptionError(
            f"{type(comparison).__name__} is no comparison", hint="give asd.research.compare(...)"
        )
    axes = axes_or_new(ax)
    for curve in comparison.curves():
        trials = np.arange(1, len(curve.speed) + 1)
        (line,) = axes.plot(trials, curve.speed, label=curve.label)
        if curve.seeds > 1:
            axes.fill_between(trials, curve.low, curve.high, alpha=0.2, color=line.get_color())
    axes.set(
        xlabel="trials", ylabel="speed of the best so far / best known", title=comparison.source
    )
    axes.legend(fontsize="x-small")
    return axes
