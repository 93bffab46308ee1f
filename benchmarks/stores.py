"""Databases of many records: how fast they take them, and how fast a network's best is found.

    python -m benchmarks.stores --records 1000000 sqlite:///out/stores.db postgresql://...

The records are made up: tasks of many networks on a few machines, as a team's are.  The database
must be new; it is left behind.
"""

from __future__ import annotations

import argparse
import random
import statistics
import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from typing import Final

from autosched.measure.result import Failure, Timing
from autosched.records.record import Record
from autosched.records.store import RecordStore, log_name, open_store
from sketch.target.target import Target

TASKS: Final = 500
TASKS_OF_A_NETWORK: Final = 25
MACHINES: Final = tuple(Target("cpu", f"machine{n}", threads=2 + n) for n in range(4))
SKETCHES: Final = 12
BATCH: Final = 64  # of a tuner
_LOOKUPS: Final = 20
_VARIANTS: Final = ("direct", "direct", "winograd-6")


def made_up(count: int, seed: int = 0) -> Iterator[Record]:
    """Records in the proportions of real logs: one in twenty failed, one in thirty re-measured."""
    rng = random.Random(seed)
    versions = {"autosched": "0.1.0"}
    steps = [
        tuple({"kind": "inline", "version": 1, "stage": str(position)} for position in range(1 + n))
        for n in range(SKETCHES)
    ]
    names = [f"{axis}.0@{level}" for axis in range(4) for level in range(3)]
    task, machine = "", MACHINES[0]
    for n in range(count):
        if n % BATCH == 0:
            task, machine = f"{rng.randrange(TASKS):016x}", rng.choice(MACHINES)
        seconds = 1e-4 * rng.lognormvariate(0, 1)
        failed = rng.random() < 0.05
        times = tuple(seconds * rng.uniform(1.0, 1.1) for _ in range(10))
        error = 1e-7 if rng.random() < 0.01 else None
        yield Record(
            task,
            machine,
            rng.choice(_VARIANTS),
            rng.choice(steps),
            {name: 1 << rng.randrange(9) for name in names},
            Failure("run", "SIGSEGV", "crash") if failed else Timing(times, error=error),
            "final" if rng.random() < 0.03 else "trial",
            versions=versions,
            time=1.7e9 + n // BATCH,
            trial=1 + n,
        )


def inserted(store: RecordStore, count: int) -> tuple[float, float]:
    """Records a second, and a second of this process' CPU time; without making them up."""
    records, taken, cpu = made_up(count), 0.0, 0.0
    while batch := list(islice(records, 5_000)):
        began, cpu_began = time.perf_counter(), time.process_time()
        store.append(batch)
        taken += time.perf_counter() - began
        cpu += time.process_time() - cpu_began
    return count / taken, count / cpu


def appended(store: RecordStore, batches: int = 50) -> float:
    """Seconds that a tuner waits for a batch to be written, median."""
    taken = []
    for number in range(batches):
        batch = [replace(r, seed=1 + number) for r in made_up(BATCH, seed=1 + number)]
        began = time.perf_counter()
        store.append(batch)
        taken.append(time.perf_counter() - began)
    return statistics.median(taken)


def looked_up(store: RecordStore) -> list[float]:
    """Seconds to read the best of a network, one element a network; the first connects anew."""
    taken = []
    for number in range(_LOOKUPS):
        first = TASKS_OF_A_NETWORK * number % TASKS
        tasks = [f"{n:016x}" for n in range(first, first + TASKS_OF_A_NETWORK)]
        began = time.perf_counter()
        found = store.read_best(tasks, MACHINES[number % len(MACHINES)])
        taken.append(time.perf_counter() - began)
        assert found.records, "a network without a record"
    return taken


def main() -> None:
    """Print a line for each database."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("urls", nargs="+", metavar="URL")
    parser.add_argument("--records", type=int, default=1_000_000, metavar="N")
    given = parser.parse_args()
    for url in given.urls:
        store = open_store(url)
        rate, cpu_rate = inserted(store, given.records)
        batch_s = appended(store)
        taken = sorted(looked_up(store))
        size = store.size_bytes()
        print(
            f"{log_name(url)}: {given.records} records at {rate:.0f}/s ({cpu_rate:.0f} per CPU s)"
            + ("" if size is None else f", {size / given.records:.0f} bytes each")
            + f"; a batch of {BATCH}: {batch_s * 1e3:.1f} ms; best of {TASKS_OF_A_NETWORK} tasks: "
            f"median {statistics.median(taken) * 1e3:.1f} ms, most {taken[-1] * 1e3:.1f} ms"
        )


if __name__ == "__main__":
    main()
