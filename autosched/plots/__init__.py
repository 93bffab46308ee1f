"""Plots of tuning runs and of networks, on axes of matplotlib (the extra ``plots``).

Each function takes data and, where a figure exists already, its axes; it returns the axes.  Data is
a log (its path, ``RecordLog`` or ``RecordSet``), what ``tune`` returned, or records.
"""

from autosched.plots.allocation import allocation as allocation
from autosched.plots.compare import compare as compare
from autosched.plots.history import history as history
from autosched.plots.importance import importance as importance
from autosched.plots.landscape import landscape as landscape
from autosched.plots.roofline import roofline as roofline

__all__ = ["allocation", "compare", "history", "importance", "landscape", "roofline"]
