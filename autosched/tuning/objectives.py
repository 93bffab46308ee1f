"""What tuning minimises: a function of the latencies of everything that is tuned together.

An objective is any function ``Latencies -> float``.  The task scheduler takes its gradient by
finite differences, so it needs no formula; where it is flat in a task's time, as for a network that
has reached its target, the task gets no more trials.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from autosched.system.errors import OptionError

Usage = Sequence[Sequence[float]]
"""[networks][tasks]: how often each task occurs in each network."""


@dataclass(frozen=True, slots=True)
class Latencies:
    """Best times so far, in seconds; estimates for tasks that have none yet.

    Attributes:
        networks: of each network, the sum of its tasks' times.
        tasks: of one execution of each task.
        weights: how often each task occurs in all networks together.
    """

    networks: tuple[float, ...]
    tasks: tuple[float, ...]
    weights: tuple[float, ...]


Objective = Callable[[Latencies], float]
"""The number to minimise."""


def latencies(usage: Usage, seconds: Sequence[float]) -> Latencies:
    """What an objective sees when the tasks take ``seconds``, [tasks]."""
    networks = (sum(n * s for n, s in zip(row, seconds, strict=True)) for row in usage)
    weights = (sum(column) for column in zip(*usage, strict=True))
    return Latencies(tuple(networks), tuple(seconds), tuple(weights))


def value_of(objective: Objective, found: Latencies) -> float:
    """What the objective says of the latencies.

    Raises:
        OptionError: it is no finite number, so no task would seem worth a trial.
    """
    value = objective(found)
    if not isinstance(value, int | float | np.number) or not math.isfinite(value):
        raise OptionError(
            f"the objective gave {value!r} for {found}", hint="return a finite number to minimise"
        )
    return float(value)


def weighted_sum(found: Latencies) -> float:
    """Time of one pass over everything: the default objective (Ansor's f1)."""
    return sum(found.networks)


def geometric_mean(found: Latencies) -> float:
    """Weighted geometric mean of the tasks: relative gains of all count the same per weight."""
    logs = sum(w * math.log(s) for w, s in zip(found.weights, found.tasks, strict=True))
    return math.exp(logs / sum(found.weights))


@dataclass(frozen=True, slots=True)
class LatencyTargets:
    """Sum over networks of ``max(latency, target)`` (Ansor's f2).

    A network that has reached its target gets no more trials.

    Attributes:
        targets_s: seconds, one of each network.
    """

    targets_s: tuple[float, ...]

    def __post_init__(self) -> None:
        _check_seconds("target", self.targets_s)

    def __call__(self, found: Latencies) -> float:
        """Seconds."""
        _check_count("targets", len(self.targets_s), len(found.networks))
        return sum(max(pair) for pair in zip(found.networks, self.targets_s, strict=True))


@dataclass(frozen=True, slots=True)
class GeometricSpeedUp:
    """Inverse of the geometric mean of the networks' speed-ups over a reference (Ansor's f3).

    Every network's relative gain counts the same, however long it takes.  One without a task to
    tune has none, and does not count.

    Attributes:
        references_s: seconds, one of each network.
    """

    references_s: tuple[float, ...]

    def __post_init__(self) -> None:
        _check_seconds("reference", self.references_s)

    def __call__(self, found: Latencies) -> float:
        """Latency over reference: below 1 where the networks are faster on average."""
        _check_count("references", len(self.references_s), len(found.networks))
        pairs = zip(found.networks, self.references_s, strict=True)
        logs = [math.log(latency / reference) for latency, reference in pairs if latency > 0]
        return math.exp(sum(logs) / len(logs)) if logs else 1.0


def _check_seconds(name: str, seconds: Sequence[float]) -> None:
    if not seconds or not all(math.isfinite(s) and s > 0 for s in seconds):
        raise OptionError(
            f"{name} {tuple(seconds)} is not made of positive seconds",
            hint="give one time for each network",
        )


def _check_count(name: str, given: int, networks: int) -> None:
    if given != networks:
        raise OptionError(
            f"{given} {name} for {networks} networks", hint="give one time for each network"
        )
