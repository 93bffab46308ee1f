"""Trials per second over ResNet-18's convolution tasks, search and learning included.

``search_share`` is the part of the time in which the tuner searched or learned, also while a batch
was being compiled.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

from autosched.records.log import RecordLog
from autosched.tuning.job import TuneJob
from autosched.tuning.options import TuneOptions
from autosched.tuning.run import run_job
from benchmarks.resnet_tasks import convolution_tasks
from benchmarks.rows import Row, write_json

RATE_BAR = 12.0
SEARCH_BAR = 0.2


def measure(threads: int, trials: int) -> Row:
    """Tune all tasks together, from nothing, until ``trials`` are spent."""
    tasks = convolution_tasks(threads)
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log.jsonl"
        start = time.perf_counter()
        result = run_job(TuneJob(tasks, options=TuneOptions(trials=trials), log=RecordLog(log)))
        seconds = time.perf_counter() - start
        records = RecordLog(log).read().records
    done = sum(record.phase == "trial" for record in records)
    rate, share = done / seconds, result.search_s / seconds
    return {
        "name": "resnet-18_convolutions",
        "threads": threads,
        "tasks": len(tasks),
        "trials": done,
        "seconds": seconds,
        "trials_per_s": rate,
        "search_share": share,
        "rivals_ms": {},
        "bar": {"at_least": RATE_BAR, "holds": rate >= RATE_BAR},
        "search_bar": {"at_most": SEARCH_BAR, "holds": share <= SEARCH_BAR},
    }


def main() -> None:
    """One row; the start of all processes counts, and so does the final re-measurement."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--trials", type=int, default=1024)
    parser.add_argument("--json", metavar="FILE")
    arguments = parser.parse_args()
    row = measure(arguments.threads, arguments.trials)
    print(f"{row['trials']} trials in {row['seconds']:.1f} s: {row['trials_per_s']:.2f} per second")
    print(f"search and learning: {row['search_share']:.0%} of the time")
    write_json(arguments.json, [row])


if __name__ == "__main__":
    main()
