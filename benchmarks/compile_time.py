"""How long a typical candidate takes to compile: random rows of ResNet-18's convolutions.

The convolutions as they are written make the typical candidate; their variants, programs of several
nests, are a row of their own.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

from autosched.task import Task
from autosched.tasks.candidate import Candidate
from benchmarks.resnet_tasks import convolution_tasks
from benchmarks.rows import Row, write_json
from codegen.build import build
from sketch.lower import lower
from sketch.population.uncollected import uncollected

BAR_MS = 25.0
VARIANT_BAR_MS = 60.0


def compile_ms(task: Task, candidate: Candidate) -> tuple[float, float]:
    """Milliseconds from decisions to machine code: wall clock, and of this process's CPU time.

    As in the processes that build: the garbage collector waits meanwhile.
    """
    start, cpu_start = time.perf_counter(), time.process_time()
    with uncollected():
        build(lower(candidate.sketch, dict(candidate.values)), task.target)
    seconds = time.perf_counter() - start, time.process_time() - cpu_start
    return seconds[0] * 1e3, seconds[1] * 1e3


def measure(task: Task, count: int) -> Row:
    """Compile ``count`` candidates: the draft model's favourites of each sketch in turn."""
    build(lower(task.candidate().sketch, dict(task.candidate().values)), task.target)  # warm up
    space = task.space
    candidates = [
        Candidate(sketch, population.row(index))
        for index in range(count)
        for sketch, population in zip(space.sketches, space.samples, strict=True)
        if index < population.count
    ][:count]
    times, cpu_times = np.array([compile_ms(task, candidate) for candidate in candidates]).T
    return {
        "name": task.name,
        "threads": task.target.threads,
        "candidates": len(times),
        "ours_ms": float(np.median(times)),
        "cpu_ms": float(np.median(cpu_times)),
        "p90_ms": float(np.quantile(times, 0.9)),
        "max_ms": float(times.max()),
        "rivals_ms": {},
    }


def variants(task: Task) -> list[Task]:
    """A task for each way to compute ``task`` that is not its reference."""
    return [
        Task({variant.name: variant.dag}, task.target, f"{task.name} {variant.name}")
        for variant in task.variants[1:]
    ]


def summary(name: str, rows: list[Row], most_ms: float) -> Row:
    """Medians over the tasks; ``most_ms``: the bar."""
    median_ms = float(np.median([row["ours_ms"] for row in rows]))
    return {
        "name": name,
        "threads": rows[0]["threads"],
        "ours_ms": median_ms,
        "cpu_ms": float(np.median([row["cpu_ms"] for row in rows])),
        "rivals_ms": {},
        "bar": {"at_most_ms": most_ms, "holds": median_ms <= most_ms},
    }


def main() -> None:
    """One row a task, and one over all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--candidates", type=int, default=24, help="per task")
    parser.add_argument("--json", metavar="FILE")
    arguments = parser.parse_args()
    tasks = convolution_tasks(arguments.threads)
    rows = [measure(task.reference_only(), arguments.candidates) for task in tasks]
    others = [measure(other, arguments.candidates) for task in tasks for other in variants(task)]
    typical = summary("typical_candidate", rows, BAR_MS)
    rows += [*others, summary("typical_variant", others, VARIANT_BAR_MS), typical]
    for row in rows:
        print(
            f"{row['name']:48s} {row['ours_ms']:7.1f} ms ({row['cpu_ms']:.1f} of CPU)", flush=True
        )
    write_json(arguments.json, rows)


if __name__ == "__main__":
    main()
