"""Tensor programs to tune and to measure with: those of Ansor's evaluation, and the user's own.

::

    task = asd.workloads.get("GMM").task(1, 512, 512, 512)

    @asd.workload
    def scaled(n):
        a = asd.placeholder(n, name="a")
        return asd.compute(n, lambda i: a[i] * 2.0, name="scaled")

    task = scaled.task(4096)

``WORKLOADS`` lists the built-in ones, each with the configurations of the paper; ``find`` knows
those of a file, too: ``find("mine.py:scaled")``.
"""

from autosched.workloads.builtin import WORKLOADS, get
from autosched.workloads.definition import Workload, workload
from autosched.workloads.source import find

__all__ = ["WORKLOADS", "Workload", "find", "get", "workload"]
