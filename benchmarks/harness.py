"""Interleaved timing of several contenders, and the ratio with its confidence interval.

In each round every contender runs in turn, pinned, in its own process, in an order that is drawn;
drift of the machine then hits all of them alike, and so does, over some comparisons, what disturbs
it at equal intervals: turns take equally long, so with an order that repeats it would always hit
the same contender.  A contender's figure is the median over rounds of its median within a round.
Turns in which virtual cores were far from each other are repeated, see ``placement``.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.contender import Contender
from benchmarks.placement import Exchange, Placement
from benchmarks.worker import Worker
from benchmarks.workloads import Workload

OURS = "ours"
ROUNDS = 9
LEAST_ROUNDS = 7


@dataclass(frozen=True, slots=True)
class Options:
    """How long to measure.

    Attributes:
        rounds: interleaved rounds; at least 7.
        seconds: time of one contender in one round.
        pause_s: idle time between turns, in which the spinning threads of the last one fall asleep.
    """

    rounds: int = ROUNDS
    seconds: float = 0.3
    pause_s: float = 0.05

    def __post_init__(self) -> None:
        if self.rounds < LEAST_ROUNDS:
            raise ValueError(f"a ratio needs at least {LEAST_ROUNDS} rounds, got {self.rounds}")


def round_count(text: str) -> int:
    """An option of the command line, refused before anything is tuned.

    Raises ArgumentTypeError where it is too small for a ratio.
    """
    count = int(text)
    if count < LEAST_ROUNDS:
        raise argparse.ArgumentTypeError(f"a ratio needs at least {LEAST_ROUNDS} rounds")
    return count


@dataclass(frozen=True, slots=True)
class Comparison:
    """Timings of all contenders on one workload.

    Attributes:
        rounds: seconds by contender, float64 [rounds], medians within each round.
        outputs: results by contender.
        prepare_s: load, compile and first run by contender.
        notes: remarks by contender.
        details: further figures by contender.
        far_turns: turns in which the cores were far from each other, see ``placement``.
    """

    rounds: Mapping[str, NDArray[np.float64]]
    outputs: Mapping[str, Mapping[str, NDArray[np.float32]]]
    prepare_s: Mapping[str, float]
    notes: Mapping[str, str]
    details: Mapping[str, Mapping[str, Any]]
    far_turns: int = 0

    def milliseconds(self, name: str) -> float:
        """The median over rounds of one contender, in milliseconds."""
        return float(np.median(self.rounds[name])) * 1e3

    def rivals(self, excluded: Sequence[str] = ()) -> tuple[str, ...]:
        """The contenders that are not ours."""
        return tuple(n for n in self.rounds if n != OURS and n not in excluded)

    def ratio(self, rivals: Sequence[str]) -> tuple[float, float]:
        """``(fastest rival / ours, lower end of its 90 % interval)``."""
        return ratio_interval(self.rounds[OURS], [self.rounds[name] for name in rivals])


def ratio_interval(
    ours: NDArray[np.float64],
    rivals: Sequence[NDArray[np.float64]],
    resamples: int = 4000,
    level: float = 0.90,
) -> tuple[float, float]:
    """Ratio of medians ``min(rivals) / ours`` and the lower end of its bootstrap interval.

    Rounds are resampled as wholes, so what all contenders share within a round cancels.

    Args:
        ours: seconds by round [rounds].
        rivals: the same for each rival.
        resamples: bootstrap samples.
        level: coverage of the two-sided interval.
    """
    table = np.stack([ours, *rivals])  # [contenders, rounds]
    point = np.median(table, axis=1)
    rng = np.random.default_rng(0)
    picks = rng.integers(0, table.shape[1], size=(resamples, table.shape[1]))
    medians = np.median(table[:, picks], axis=2)  # [contenders, resamples]
    ratios = medians[1:].min(axis=0) / medians[0]
    low = float(np.quantile(ratios, (1.0 - level) / 2.0))
    return float(point[1:].min() / point[0]), low


def compare(
    workload: Workload, contenders: Sequence[Contender], threads: int, options: Options
) -> Comparison:
    """Run all contenders on one workload.

    Raises:
        ContenderError: a contender could not be prepared or run.
    """
    with ExitStack() as stack:
        workers = [
            stack.enter_context(Worker.start(contender, workload, threads))
            for contender in contenders
        ]
        placement = Placement(None)
        if threads > 1:
            placement.probe = stack.enter_context(Worker.start(Exchange(), workload, threads))
        return compare_ready(workers, placement, options)


def compare_ready(workers: Sequence[Worker], placement: Placement, options: Options) -> Comparison:
    """Time workers that are ready in interleaved rounds.

    Raises:
        ContenderError: one of them could not run.
    """
    rounds: dict[str, list[float]] = {worker.name: [] for worker in workers}
    orders = np.random.default_rng()  # of no seed: each comparison has orders of its own
    before = placement.far_turns
    for _ in range(options.rounds):
        for turn in orders.permutation(len(workers)):
            worker = workers[turn]
            time.sleep(options.pause_s)
            rounds[worker.name].append(placement.turn(partial(_median, worker, options)))
    return Comparison(
        rounds={name: np.array(values) for name, values in rounds.items()},
        outputs={worker.name: worker.outputs() for worker in workers},
        prepare_s={worker.name: worker.prepare_s for worker in workers},
        notes={worker.name: worker.note for worker in workers},
        details={worker.name: worker.details() for worker in workers},
        far_turns=placement.far_turns - before,
    )


def _median(worker: Worker, options: Options) -> float:
    return float(np.median(worker.time(options.seconds)))


def relative_error(value: NDArray[np.float32], reference: NDArray[np.float32]) -> float:
    """``max|value - reference| / max|reference|``; infinite for other shapes or a NaN."""
    if value.shape != reference.shape or not np.isfinite(value).all():
        return float("inf")
    exact = reference.astype(np.float64)
    return float(np.abs(value - exact).max() / max(np.abs(exact).max(), 1e-30))
