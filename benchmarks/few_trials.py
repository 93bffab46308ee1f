"""What few trials of a task reach, next to many: the fastest schedules of both, timed in turns.

``python -m benchmarks.few_trials --json FILE``

Each task is tuned alone and from nothing: no log, and no schedules of other tasks; once with many
trials, and with few once a seed.  Tasks are those that take most of networks of different kinds, at
different ranks.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from dataclasses import replace
from statistics import geometric_mean
from typing import Final

from autosched import zoo
from autosched.compilation.network import cache_state_of, extract_checked, network_tasks
from autosched.measure.options import MeasureOptions
from autosched.measure.result import Timing
from autosched.measure.runner import LocalRunner
from autosched.tasks.candidate import Candidate
from autosched.tasks.rough_seconds import rough_seconds
from autosched.tasks.spec import TaskSpec
from autosched.tuning.job import TuneJob
from autosched.tuning.options import TuneOptions
from autosched.tuning.run import run_job
from benchmarks.rows import Row, geometric_means, write_json
from codegen.host import host_target
from sketch.target.target import Target

NETWORKS: Final = (
    "resnet-50",
    "mobilenet-v2",
    "inception-v3",
    "bert-base",
    "resnet3d-18",
    "dcgan",
)
RANKS: Final = (0, 2, 5, 9)
_ROUNDS: Final = 15


def tasks_of(name: str, target: Target) -> tuple[list[TaskSpec], MeasureOptions]:
    """The tasks of a network at some ranks by their time, and how they are measured.

    Of a network with few tasks they are evenly spread.
    """
    extraction = extract_checked(zoo.build(name), target)
    tasks = network_tasks(extraction, target)
    order = sorted(tasks, key=lambda task: -task.weight * rough_seconds(task.dag, target))
    state = cache_state_of(extraction, target)
    last, count = len(order) - 1, len(RANKS)
    spread = sorted({last * number // (count - 1) for number in range(count)})
    chosen = [order[rank] for rank in (RANKS if last >= RANKS[-1] else spread)]
    return chosen, MeasureOptions(cache_state=state, inputs="aligned")


def tuned(
    task: TaskSpec, trials: int, seed: int, measure: MeasureOptions
) -> tuple[Candidate, float]:
    """The best candidate, and the seconds that finding it took."""
    began = time.perf_counter()
    options = TuneOptions(trials=trials, seed=seed)
    options = replace(options, search=replace(options.search, transferred=0))
    found = run_job(TuneJob([task], options=options, measure=measure)).tasks[0].best
    assert found is not None
    return found, time.perf_counter() - began


def row(name: str, task: TaskSpec, arguments: argparse.Namespace, measure: MeasureOptions) -> Row:
    """Of a task: times of all schedules, in milliseconds, and the seconds of all runs."""
    many, many_s = tuned(task, arguments.many, 0, measure)
    few = [tuned(task, arguments.few, seed, measure) for seed in range(arguments.seeds)]
    candidates = [many, *(candidate for candidate, _ in few)]
    with LocalRunner(task.target, measure) as runner:
        results = runner.remeasure(task, candidates, _ROUNDS)
    times = [result.median for result in results if isinstance(result, Timing)]
    if len(times) < len(results):
        raise SystemExit(f"{name}, {task.name}: {results}")
    ratios = [seconds / times[0] for seconds in times[1:]]
    return {
        "name": f"{name} {task.name}",
        "variants": [candidate.sketch.variant for candidate in candidates],
        "many_ms": times[0] * 1e3,
        "few_ms": [seconds * 1e3 for seconds in times[1:]],
        "ratios": ratios,
        "ratio": geometric_mean(ratios),
        "many_s": many_s,
        "few_s": [seconds for _, seconds in few],
    }


def main(given: Sequence[str] | None = None) -> None:
    """A row for each task, written after each."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--networks", nargs="+", choices=NETWORKS, default=NETWORKS)
    parser.add_argument("--few", type=int, default=64, help="trials")
    parser.add_argument("--many", type=int, default=1000, help="trials")
    parser.add_argument("--seeds", type=int, default=3, help="runs of few trials")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--json", metavar="FILE")
    arguments = parser.parse_args(given)
    rows: list[Row] = []
    for name in arguments.networks:
        tasks, measure = tasks_of(name, host_target(arguments.threads))
        for task in tasks:
            rows.append(row(name, task, arguments, measure))
            last = rows[-1]
            of_many = ", ".join(f"{ratio:.3f}" for ratio in last["ratios"])
            print(
                f"{last['name']}: {arguments.many} trials {last['many_ms']:.4g} ms in "
                f"{last['many_s']:.0f} s; {arguments.few} in {max(last['few_s']):.1f} s: {of_many}",
                flush=True,
            )
            write_json(arguments.json, rows, means=geometric_means(rows, ("ratio",)))
    print(f"{len(rows)} tasks: {geometric_means(rows, ('ratio',))['ratio']:.3f}")


if __name__ == "__main__":
    main()
