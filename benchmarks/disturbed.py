"""Tuning while other processes begin to work in the middle: is what it chooses as fast?

``python -m benchmarks.disturbed --json FILE``.  Each convolution is tuned twice from the same seed,
once alone, once with busy processes from the first third of the trials to the end of the run.  The
two choices are then timed in turns, alone.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median
from types import TracebackType
from typing import Final, Self

import numpy as np

from autosched.measure.options import MeasureOptions
from autosched.measure.protocol import Runner
from autosched.measure.result import MeasureResult, Timing
from autosched.measure.runner import LocalRunner
from autosched.report.callbacks import Callback
from autosched.tasks.candidate import Candidate
from autosched.tasks.spec import TaskSpec
from autosched.tuning.job import TuneJob
from autosched.tuning.options import TuneOptions
from autosched.tuning.result import TuneResult
from autosched.tuning.run import run_job
from benchmarks.resnet_tasks import convolution_tasks
from benchmarks.rows import Row, write_json

BAR: Final = 1.03
TOLD: Final = "the machine was disturbed"
ROUNDS: Final = 21


@dataclass(slots=True)
class Disturber(Callback):
    """Starts busy processes once ``after`` trials were made; ends them when it is left.

    Attributes:
        processes: to start.
        after: trials.
        trials: made so far.
        running: the processes.
    """

    processes: int
    after: int
    trials: int = 0
    running: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def on_batch(
        self, task: TaskSpec, candidates: Sequence[Candidate], results: Sequence[MeasureResult]
    ) -> None:
        """Count, and start when it is time."""
        self.trials += len(results)
        if self.trials >= self.after and not self.running:
            busy = [sys.executable, "-c", "while True: pass"]
            self.running = [subprocess.Popen(busy) for _ in range(self.processes)]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for process in self.running:
            process.kill()
            process.wait()


def tuned(task: TaskSpec, options: TuneOptions, processes: int, runner: Runner) -> TuneResult:
    """One run; ``processes``: that disturb it, 0 for none."""
    assert options.trials is not None
    with Disturber(processes, options.trials // 3) as disturber:
        return run_job(TuneJob([task], options=options, callbacks=[disturber], runner=runner))


def measure(task: TaskSpec, options: TuneOptions, processes: int, runner: Runner) -> Row:
    """Both runs, and the two choices in turns."""
    alone = tuned(task, options, 0, runner)
    busy = tuned(task, options, processes, runner)
    chosen = [result.tasks[0].best for result in (alone, busy)]
    known = [candidate for candidate in chosen if candidate is not None]
    times = [
        median(result.seconds)
        for result in runner.remeasure(task, known, ROUNDS)
        if isinstance(result, Timing)
    ]
    if len(times) < len(chosen):
        return {"name": task.name, "seed": options.seed, "failed": True, "rivals_ms": {}}
    return {
        "name": task.name,
        "seed": options.seed,
        "trials": options.trials,
        "ours_ms": times[1] * 1e3,
        "alone_ms": times[0] * 1e3,
        "slower": times[1] / times[0],
        "told": [line for line in busy.warnings if line.startswith(TOLD)],
        "told_alone": [line for line in alone.warnings if line.startswith(TOLD)],
        "rivals_ms": {},
    }


def summary(rows: Sequence[Row]) -> Row:
    """Over all rows: the geometric mean, and whether it is within the bar."""
    slower = [row["slower"] for row in rows if "slower" in row]
    mean = float(np.exp(np.mean(np.log(slower)))) if slower else float("nan")
    return {
        "name": "disturbed",
        "slower": mean,
        "worst": max(slower, default=float("nan")),
        "runs": len(slower),
        "runs_told": sum(bool(row.get("told")) for row in rows),
        "bar": {"at_most": BAR, "holds": mean <= BAR},
        "rivals_ms": {},
    }


def main() -> None:
    """A row for each convolution and seed, and one over all."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--trials", type=int, default=96, help="of each run")
    parser.add_argument("--tasks", type=int, default=6, help="convolutions of resnet-18")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--processes", type=int, default=1, help="that disturb a run")
    parser.add_argument("--json", metavar="FILE")
    arguments = parser.parse_args()
    tasks = convolution_tasks(arguments.threads)[: arguments.tasks]
    rows: list[Row] = []
    with LocalRunner(tasks[0].target, MeasureOptions()) as runner:
        for task in tasks:
            for seed in range(arguments.seeds):
                options = TuneOptions(trials=arguments.trials, seed=seed)
                rows.append(measure(task, options, arguments.processes, runner))
                print({key: rows[-1].get(key) for key in ("name", "slower", "told")}, flush=True)
                write_json(arguments.json, [*rows, summary(rows)])
    print(summary(rows))


if __name__ == "__main__":
    main()
