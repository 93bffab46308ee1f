"""Axes to draw on: those that are given, or of a new figure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from autosched.system.optional_packages import require

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def axes_or_new(ax: Axes | None, width: float = 8.0, height: float = 4.0) -> Axes:
    """``ax``, or the axes of a new figure.

    Args:
        ax: given axes.
        width: of a new figure, in inches.
        height: of a new figure, in inches.

    Raises:
        MissingPackageError: matplotlib is not installed.
    """
    require("matplotlib", "plots", '"autosched[plots]"')
    if ax is not None:
        return ax
    import matplotlib.pyplot

    return matplotlib.pyplot.subplots(figsize=(width, height), layout="constrained")[1]
