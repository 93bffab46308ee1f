"""The operators of a network under the roofs of the machine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from autosched.plots.figure import axes_or_new
from autosched.runtime.explanation import Explanation
from autosched.system.errors import OptionError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Area of the mark of an operator that takes all of the time, and of one that takes none.
_AREA: Final = 900.0
_LEAST_AREA: Final = 12.0


def roofline(explanation: Explanation, ax: Axes | None = None) -> Axes:
    """Speed over arithmetic intensity of every operator, the larger the more time it takes.

    The roofs are the measured peak and the measured bandwidth.  Traffic is the least that there can
    be, so an operator whose data stay in a cache may be above the slope.

    Args:
        explanation: what ``Module.explain`` returned.
        ax: axes to draw on; None: new ones.

    Raises:
        OptionError: it is something else, or no operator has both operations and traffic.
        MissingPackageError: matplotlib is not installed.
    """
    if not isinstance(explanation, Explanation):
        raise OptionError(
            f"{type(explanation).__name__} is no explanation", hint="give module.explain()"
        )
    rows = [row for row in explanation.rows if row.gflops > 0 and row.gigabytes_per_s > 0]
    if not rows:
        raise OptionError("no operator has operations and traffic", explanation.name)
    axes = axes_or_new(ax, height=5.0)
    peak, slope = explanation.machine.flops / 1e9, explanation.machine.bandwidth / 1e9
    intensity = np.array([row.gflops / row.gigabytes_per_s for row in rows])
    ridge = peak / slope
    reach = np.geomspace(min(intensity.min(), ridge) / 2, max(intensity.max(), ridge) * 2, 200)
    axes.plot(reach, np.minimum(peak, slope * reach), linestyle="--", label="limit of the machine")
    areas = [_LEAST_AREA + _AREA * row.percent / 100 for row in rows]
    axes.scatter(intensity, [row.gflops for row in rows], s=areas, alpha=0.6, label="operators")
    longest = max(range(len(rows)), key=lambda n: rows[n].microseconds)
    place = float(intensity[longest]), rows[longest].gflops
    axes.annotate(rows[longest].op, place, fontsize="small")
    axes.set(
        xscale="log", yscale="log", xlabel="FLOP per byte of the least traffic", ylabel="GFLOPS",
        title=explanation.name,
    )  # fmt: skip
    axes.legend()
    return axes
