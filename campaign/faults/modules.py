"""Compiled modules that calls are interrupted in, and what they must return."""

from __future__ import annotations

from functools import cache
from typing import Any, Final, NamedTuple

import numpy as np

import autosched as asd
from autosched.runtime.module import Module
from autosched.task import Task

SIZES: Final = (8, 64, 200)


class Subject(NamedTuple):
    """A module that multiplies a matrix of equal numbers by a matrix of ones."""

    size: int
    module: Module

    def right(self, factor: float) -> bool:
        """Run once; whether every element is the one of this ``factor``."""
        found = self.module.run(self.inputs(factor))["C"]
        return bool((found == factor * self.size).all())

    def inputs(self, factor: float) -> dict[str, Any]:
        """Inputs whose product is ``factor * size`` everywhere."""
        n = self.size
        return {"A": np.full((n, n), factor, np.float32), "B": np.ones((n, n), np.float32)}


@cache
def compiled(size: int, threads: int) -> Subject:
    """The product of two ``size`` x ``size`` matrices."""
    a, b = (asd.placeholder((size, size), name=name) for name in "AB")
    k = asd.reduce_axis(size)
    c = asd.compute((size, size), lambda i, j: asd.sum(a[i, k] * b[k, j], axis=k), name="C")
    task = Task(asd.ComputeDAG([c]), asd.Target("cpu", threads=threads))
    return Subject(size, task.module())
