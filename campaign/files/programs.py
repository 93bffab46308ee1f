"""Small tasks whose logs and modules are damaged, with their results by NumPy."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

import autosched as asd
from autosched.measure.result import Timing
from autosched.records.record import record_of, to_json
from autosched.task import Task
from autosched.tasks.candidate import Candidate
from campaign.verdict import Json
from sketch.population.population import sample

Array = NDArray[Any]
_RECORDS: Final = 12


class Subject(NamedTuple):
    """A task, inputs, constants, and the name and value of its result."""

    task: Task
    inputs: Mapping[str, Array]
    constants: Mapping[str, Array]
    output: str
    expected: Array


def _product() -> Subject:
    a = asd.placeholder((9, 21), name="A")
    b = asd.placeholder((21, 35), name="B", constant=True)
    k = asd.reduce_axis(21)
    c = asd.compute((9, 35), lambda i, j: asd.sum(a[i, k] * b[k, j], axis=k), name="C")
    d = asd.compute((9, 35), lambda i, j: asd.maximum(c[i, j], 0.0), name="D")
    rng = np.random.default_rng(1)
    x, y = rng.standard_normal((9, 21), np.float32), rng.standard_normal((21, 35), np.float32)
    task = Task(asd.ComputeDAG([d]), asd.Target("cpu", threads=1))
    return Subject(task, {"A": x}, {"B": y}, "D", np.maximum(x @ y, 0))


def _softmax() -> Subject:
    x = asd.placeholder((6, 50), name="X")
    k, r = asd.reduce_axis(50), asd.reduce_axis(50, "r")
    top = asd.compute(6, lambda i: asd.max(x[i, k], axis=k), name="top")
    e = asd.compute((6, 50), lambda i, j: asd.exp(x[i, j] - top[i]), name="e")
    s = asd.compute(6, lambda i: asd.sum(e[i, r], axis=r), name="s")
    y = asd.compute((6, 50), lambda i, j: e[i, j] / s[i], name="y")
    data = np.random.default_rng(2).standard_normal((6, 50), np.float32)
    shifted = np.exp(data - data.max(1, keepdims=True))
    task = Task(asd.ComputeDAG([y]), asd.Target("cpu", threads=2))
    return Subject(task, {"X": data}, {}, "y", shifted / shifted.sum(1, keepdims=True))


def _window() -> Subject:
    x = asd.placeholder((1, 14, 14, 5), name="X")
    w = asd.placeholder((3, 3, 5, 18), name="W", constant=True)
    p, q, c = (asd.reduce_axis(n, m) for n, m in ((3, "p"), (3, "q"), (5, "c")))

    def tap(n: Any, h: Any, v: Any, o: Any) -> Any:
        return asd.sum(x[n, h + p, v + q, c] * w[p, q, c, o], axis=(p, q, c))

    y = asd.compute((1, 12, 12, 18), tap, name="Y")
    rng = np.random.default_rng(3)
    data = rng.standard_normal((1, 14, 14, 5), np.float32)
    weight = rng.standard_normal((3, 3, 5, 18), np.float32)
    views = np.lib.stride_tricks.sliding_window_view(data, (3, 3), (1, 2))
    expected = np.einsum("nhvcpq,pqco->nhvo", views, weight)
    task = Task(asd.ComputeDAG([y]), asd.Target("cpu", threads=1))
    return Subject(task, {"X": data}, {"W": weight}, "Y", expected)


_SUBJECTS: Final[tuple[Callable[[], Subject], ...]] = (_product, _softmax, _window)
SUBJECTS: Final = len(_SUBJECTS)


@cache
def subject(number: int) -> Subject:
    """The task of that number."""
    return _SUBJECTS[number]()


@cache
def records(number: int) -> tuple[Json, ...]:
    """Records of random candidates of a task, the fastest first."""
    task, rng = subject(number).task, np.random.default_rng(7)
    found = []
    for place in range(_RECORDS):
        sketch = task.sketches[int(rng.integers(len(task.sketches)))]
        row = sample(sketch, 1, rng).row(0)
        timing = Timing((1e-5 * (place + 1),), "warm", None)
        found.append(to_json(record_of(task.key, Candidate(sketch, row), task.target, timing)))
    return tuple(found)


def is_right(which: Subject, found: Array) -> bool:
    """Whether a result is that of NumPy."""
    scale = float(np.abs(which.expected).max())
    return (
        found.shape == which.expected.shape
        and float(np.abs(found - which.expected).max()) <= 1e-4 * scale
    )
