"""Plots of tuning runs and of networks, on axes of matplotlib (the extra ``plots``).

Each function takes data and, where a figure exists already, its axes; it returns the axes.  Data is
a log (its path, ``RecordLog`` or ``RecordSet``), what ``tune`` returned, or records; of
``roofline``, ``reasons`` and ``trial_curves`` it is what their names say.
"""

from autosched.plots.allocation import allocation as allocation
from autosched.plots.compare import compare as compare
from autosched.plots.history import history as history
from autosched.plots.importance import importance as importance
from autosched.plots.landscape import landscape as landscape
from autosched.plots.reasons import reasons as reasons
from autosched.plots.roofline import roofline as roofline
from autosched.plots.trial_curves import trial_curves as trial_curves

__all__ = [
    "allocation", "compare", "history", "importance", "landscape", "reasons", "roofline",
    "trial_curves",
]  # fmt: skip
