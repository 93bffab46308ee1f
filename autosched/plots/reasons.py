"""Why a schedule is as fast as it is: what binds it, and what a model says for and against it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from autosched.plots.figure import axes_or_new
from autosched.report.reasons import Reasons
from autosched.system.errors import OptionError

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def reasons(found: Reasons, ax: Axes | None = None) -> Axes:
    """How much faster (left) or slower (right) each group of features makes the best schedule.

    The title says what binds it.  Where no model has learned from the task, bars are the shares of
    the draft model's terms instead.

    Args:
        found: what ``Task.reasons`` returned.
        ax: axes to draw on; None: new ones.

    Raises:
        OptionError: it is something else.
        MissingPackageError: matplotlib is not installed.
    """
    if not isinstance(found, Reasons):
        raise OptionError(f"{type(found).__name__} gives no reasons", hint="give task.reasons(log)")
    if found.drivers:
        bars = [(driver.name, 100 * driver.change) for driver in found.drivers]
        label = f"predicted time against the mean of {found.programs} programs, %"
    else:
        bars = [(term.name, 100 * term.share) for term in found.terms]
        label = "share of the draft model's terms, %"
    axes = axes_or_new(ax, height=1.0 + 0.3 * len(bars))
    axes.barh([name for name, _ in bars], [size for _, size in bars])
    axes.invert_yaxis()
    axes.axvline(0.0, color="black", linewidth=0.8)
    axes.set(xlabel=label, title=f"{found.task}: bound by {found.bound}")
    return axes
