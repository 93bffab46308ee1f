"""A fleet of simulated devices against one device: trials per second, and what is found.

Devices take simulated time; the tuner's own thinking counts as it is, in CPU seconds of its
thread, while the devices go on.  What a candidate takes comes from ``SimulatedRunner``, so that a
run on many devices and a run on one can be compared at equal trials.  The dispatcher is the one
that measures on a cluster of Ray.
"""

from __future__ import annotations

import argparse
import heapq
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import geometric_mean
from typing import Final

import numpy as np

from autosched.fleet.dispatcher import Dispatcher
from autosched.fleet.runner import PIECE_TRIALS, PIECES_AHEAD
from autosched.fleet.work import Answer, Work
from autosched.measure.batch_runner import BatchRunner, not_waiting
from autosched.measure.protocol import MeasuredTask, Ticket
from autosched.measure.result import Failure, MeasureResult
from autosched.measure.simulated import SimulatedRunner
from autosched.task import Task
from autosched.tasks.candidate import Candidate
from autosched.tuning.job import TuneJob
from autosched.tuning.options import TuneOptions
from autosched.tuning.run import run_job
from benchmarks.resnet_tasks import convolution_tasks
from benchmarks.rows import Row, write_json

RATE_BAR = 0.85
LOSS_BAR = 0.03
# Of a device: seconds that a trial takes, as ResNet-18's convolutions do on two cores
# (`benchmarks.tuning_rate`); that a piece takes more, for its way and its sentinel; and how much
# devices differ, and pieces of one.
TRIAL_S: Final = 0.06
PIECE_S: Final = 0.01
SPREAD: Final = 0.1
_SENTINEL_S: Final = 1e-3


@dataclass(frozen=True, slots=True)
class _Sent:
    task: MeasuredTask
    candidates: tuple[Candidate, ...]


class SimulatedFleet(BatchRunner):
    """Devices in simulated time; ``clock`` is of that time.

    Args:
        devices: how many.
        seed: of their speeds, and of what candidates take.
    """

    def __init__(self, devices: int, seed: int) -> None:
        self._rng, self._times = np.random.default_rng(seed), SimulatedRunner(seed=seed)
        names = [str(n) for n in range(devices)]
        self._speed = {name: math.exp(SPREAD * self._rng.standard_normal()) for name in names}
        self._dispatcher, self._idle = Dispatcher(names), list(names)
        self._ends: list[tuple[float, str, int]] = []
        self._sent: dict[int, _Sent] = {}
        self._answers: dict[int, Answer] = {}
        self._waiting: dict[int, list[int]] = {}
        self._now, self._thought, self._tickets, self._pieces = 0.0, time.thread_time(), 0, 0

    @property
    def trials_in_flight(self) -> int:
        """As on a real fleet."""
        return PIECE_TRIALS * PIECES_AHEAD * len(self._speed)

    def clock(self) -> float:
        """Simulated seconds since the start; the CPU time since the last look has passed."""
        now = time.thread_time()
        self._now += now - self._thought
        self._thought = now
        return self._now

    def submit(self, task: MeasuredTask, candidates: Sequence[Candidate]) -> Ticket:
        """See ``Runner``; the simulation itself takes no simulated time."""
        self._advance(self.clock())
        self._tickets += 1
        numbers = []
        for n in range(0, len(candidates), PIECE_TRIALS):
            part = tuple(candidates[n : n + PIECE_TRIALS])
            self._sent[self._pieces] = _Sent(task, part)
            self._dispatcher.add(self._pieces, Work("measure", task.key, b"", len(part)))
            numbers.append(self._pieces)
            self._pieces += 1
        self._waiting[self._tickets] = numbers
        self._give()
        self._thought = time.thread_time()
        return Ticket(self._tickets, task, tuple(candidates))

    def collect(self, ticket: Ticket, best_s: float | None = None) -> list[MeasureResult]:
        """See ``Runner``."""
        now = self.clock()
        self._advance(now)
        if ticket.number not in self._waiting:
            raise not_waiting(ticket)
        numbers = self._waiting.pop(ticket.number)
        while any(number not in self._answers for number in numbers):
            self._advance(self._ends[0][0])
        self._thought = time.thread_time()
        answers = [self._answers.pop(number) for number in numbers]
        return [r for a in answers for r in a.results if not isinstance(r, float)]

    def remeasure(
        self, task: MeasuredTask, candidates: Sequence[Candidate], rounds: int = 5
    ) -> list[MeasureResult]:
        """The same answers again, at once."""
        return self._times.answer(task, candidates)

    def verify(self, task: MeasuredTask, candidate: Candidate) -> float | Failure:
        """0: what is not computed cannot be wrong."""
        return 0.0

    def close(self) -> None:
        """Nothing to end."""

    def _give(self) -> None:
        for machine in list(self._idle):
            number = self._dispatcher.take(machine, self._now)
            if number is None:
                continue
            self._idle.remove(machine)
            jitter = math.exp(SPREAD * self._rng.standard_normal())
            trials = len(self._sent[number].candidates)
            took = self._speed[machine] * jitter * (PIECE_S + TRIAL_S * trials)
            heapq.heappush(self._ends, (self._now + took, machine, number))

    def _advance(self, until: float) -> None:
        """Let the devices work until a moment."""
        while self._ends and self._ends[0][0] <= until:
            self._now, machine, number = heapq.heappop(self._ends)
            sent = self._sent[number]
            results = tuple(self._times.answer(sent.task, sent.candidates))
            found = self._dispatcher.finish(
                machine, number, Answer(results, _SENTINEL_S), self._now
            )
            if found is not None:
                self._answers[number] = found
            self._idle.append(machine)
            self._give()
        self._now = max(self._now, until)


@dataclass(frozen=True, slots=True)
class FleetRun:
    """One simulated run.

    Attributes:
        trials: results.
        seconds: simulated, the tuner's thinking included.
        thinking_s: that the tuner took to propose and to learn.
        times: best seconds of each task, without the noise.
    """

    trials: int
    seconds: float
    thinking_s: float
    times: tuple[float, ...]


def simulate(devices: int, trials: int, seed: int, tasks: Sequence[Task] | None = None) -> FleetRun:
    """Tune on so many devices.

    Args:
        devices: 0: one that measures a batch after another.
        trials: of all tasks.
        seed: of the search, and of the times.
        tasks: None: ResNet-18's convolutions.
    """
    tasks = convolution_tasks(2) if tasks is None else tasks
    options = TuneOptions(trials=trials, seed=seed, leaders=0)
    if not devices:
        result = run_job(TuneJob(tasks, options=options, runner=SimulatedRunner(seed=seed)))
        seconds = result.trials * TRIAL_S
    else:
        runner = SimulatedFleet(devices, seed)
        job = TuneJob(tasks, options=options, runner=runner, clock=runner.clock)
        result = run_job(job)
        seconds = runner.clock()
    quiet = SimulatedRunner(seed=seed, noise=0.0)
    times = [
        quiet.answer(item.task, [item.best])[0].median * item.task.weight  # type: ignore[union-attr, list-item]
        for item in result.tasks
    ]
    return FleetRun(result.trials, seconds, result.search_s, tuple(times))


def rate(devices: int, trials: int) -> Row:
    """Trials per second, against as many times what one device does that never waits."""
    run = simulate(devices, trials, seed=0)
    one = PIECE_TRIALS / (PIECE_S + PIECE_TRIALS * TRIAL_S)
    found = run.trials / run.seconds
    share = found / (devices * one)
    return {
        "name": f"rate_of_{devices}_devices",
        "devices": devices,
        "trials": run.trials,
        "trials_per_s": found,
        "share_of_ideal": share,
        "thinking_ms_a_trial": 1e3 * run.thinking_s / run.trials,
        "rivals_ms": {},
        "bar": {"at_least": RATE_BAR, "holds": share >= RATE_BAR},
    }


def loss(devices: int, trials: int, seeds: int) -> Row:
    """How much slower the programs are that many devices find, at equal trials."""
    ratios = [
        sum(simulate(devices, trials, seed).times) / sum(simulate(0, trials, seed).times)
        for seed in range(seeds)
    ]
    found = geometric_mean(ratios) - 1.0
    return {
        "name": f"loss_of_{devices}_devices",
        "devices": devices,
        "trials": trials,
        "seeds": seeds,
        "loss": found,
        "rivals_ms": {},
        "bar": {"at_most": LOSS_BAR, "holds": found <= LOSS_BAR},
    }


def main() -> None:
    """Two rows for each number of devices."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--devices", type=int, nargs="+", default=[64])
    parser.add_argument("--trials", type=int, default=49152, help="of the rate")
    parser.add_argument("--equal-trials", type=int, default=8192, help="of the loss")
    parser.add_argument("--seeds", type=int, default=2, help="of the loss")
    parser.add_argument("--json", metavar="FILE")
    arguments = parser.parse_args()
    rows: list[Row] = []
    for devices in arguments.devices:
        fast = rate(devices, arguments.trials)
        print(
            f"{devices} devices: {fast['trials_per_s']:.0f} trials/s, {fast['share_of_ideal']:.1%} "
            f"of {devices} times one; {fast['thinking_ms_a_trial']:.2f} ms of thinking a trial"
        )
        good = loss(devices, arguments.equal_trials, arguments.seeds)
        print(f"times {good['loss']:+.1%} after {arguments.equal_trials} trials")
        rows += [fast, good]
    write_json(arguments.json, rows)


if __name__ == "__main__":
    main()
