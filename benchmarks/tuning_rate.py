"""Trials per second over ResNet-18's convolution tasks, search and learning included.

``search_share`` is the part of the time in which the tuner searched or learned, also while a batch
was being compiled.  Spaces that compiling processes build in between count where it waits for them.
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

RATE_BAR = 22.0
SEARCH_BAR = 0.12


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
    """A row for each number of trials.

    The start of all processes counts, and so does the final re-measurement.
    """
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--trials", nargs="+", type=int, default=[1024])
    parser.add_argument("--json", metavar="FILE")
    arguments = parser.parse_args()
    rows: list[Row] = []
    for trials in arguments.trials:
        rows.append(measure(arguments.threads, trials))
        rate, share = rows[-1]["trials_per_s"], rows[-1]["search_share"]
        print(f"{rows[-1]['trials']} trials in {rows[-1]['seconds']:.1f} s: {rate:.2f} per second")
        print(f"search and learning: {share:.0%} of the time", flush=True)
        write_json(arguments.json, rows)


if __name__ == "__main__":
    main()
