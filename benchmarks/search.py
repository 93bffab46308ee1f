"""The search itself: scored candidates per second, and trials to match random sampling.

``python -m benchmarks.search --json benchmarks/results/search.json``
"""

from __future__ import annotations

import argparse
import math
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from autosched.measure.result import Timing
from autosched.records.log import RecordLog
from autosched.search.evolutionary import EvolutionaryPolicy
from autosched.search.options import SearchOptions
from autosched.search.scorer import ModelScorer, Scorer
from autosched.tuning.options import TuneOptions
from benchmarks.programs import operator_task
from benchmarks.rows import Row, write_json
from benchmarks.workloads import CONVOLUTIONS_3X3, Conv
from costmodel.dataset import Dataset
from costmodel.extract import features_of
from costmodel.feature_table import FEATURE_COUNT
from costmodel.gbdt import GradientBoostedModel
from costmodel.gbdt_options import GbdtOptions
from sketch.population.population import Population, sample

SPEED_BAR = 50_000.0
TRIALS_BAR = 40.0
RANDOM_TRIALS = 128
TREES = 200
TRAINING_ROWS = 64


@dataclass(slots=True)
class CountingScorer:
    """Counts what goes through a scorer: rows, and the sketches they belong to."""

    scorer: Scorer
    rows: int = 0
    sketches: set[str] = field(default_factory=set)

    def score(self, population: Population) -> NDArray[np.float64]:
        """The scorer's scores."""
        self.rows += population.count
        self.sketches.add(population.sketch.key)
        return self.scorer.score(population)


def train(case: Conv, threads: int, path: Path) -> None:
    """A model of ``TREES`` trees on the task's random rows; times are the draft's, with noise."""
    task = operator_task(case, threads)
    rng = np.random.default_rng(0)
    dataset = Dataset()
    for sketch in task.sketches:
        features = features_of(sample(sketch, TRAINING_ROWS, rng))
        noise = np.exp(rng.normal(0.0, 0.3, features.count))
        dataset.append(task.key, features, features.draft_seconds() * noise)
    model = GradientBoostedModel(GbdtOptions(trees=TREES))
    model.update(dataset)
    model.save(path)


def ask_cold(case: Conv, threads: int, path: str) -> Row:
    """One round of the search in this fresh process, nothing cached by an earlier one."""
    options = SearchOptions()
    model = GradientBoostedModel.load(Path(path))
    start = time.perf_counter()
    task = operator_task(case, threads)
    space = task.space
    space_s = time.perf_counter() - start
    seconds, rows, sketches = [], [], set()
    scorer = CountingScorer(ModelScorer(model, lambda: 1.0))
    policy = EvolutionaryPolicy(space, scorer, np.random.default_rng(0), options)
    for _ in range(2):
        scorer.rows = 0
        start = time.perf_counter()
        policy.ask(options.batch_trials)
        seconds.append(time.perf_counter() - start)
        rows.append(scorer.rows)
        sketches |= scorer.sketches
    return {
        "name": f"candidates_{case.name}",
        "threads": threads,
        "candidates_per_s": rows[0] / seconds[0],
        "candidates_per_s_second_round": rows[1] / seconds[1],
        "candidates": rows[0],
        "ours_ms": seconds[0] * 1e3,
        "space_ms": space_s * 1e3,
        "sketches": len(space.sketches),
        "sketches_scored": len(sketches),
        "features": FEATURE_COUNT,
        "trees": TREES,
        "rivals_ms": {},
    }


def candidate_rate(case: Conv, threads: int, repeats: int = 3) -> Row:
    """The median of fresh processes; the model was trained in another one."""
    context = get_context("spawn")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model"
        train(case, threads, path)
        rows = []
        for _ in range(repeats):
            with context.Pool(1) as pool:
                rows.append(pool.apply(ask_cold, (case, threads, str(path))))
    row: Row = sorted(rows, key=lambda r: r["candidates_per_s"])[len(rows) // 2]
    row["bar"] = {"at_least": SPEED_BAR, "holds": row["candidates_per_s"] >= SPEED_BAR}
    return row


def trial_times(case: Conv, threads: int, policy: str, seed: int, log: Path) -> list[float]:
    """Seconds of every trial in order, infinite for failures; the log is kept for a second look.

    The convolution as it is written: one algorithm, so that both searches have one landscape.
    """
    task = operator_task(case, threads).reference_only()
    search = SearchOptions(policy="random" if policy == "random" else "evolutionary")
    options = TuneOptions(seed=seed, finish_share=0.0, leaders=0, search=search)
    log.parent.mkdir(parents=True, exist_ok=True)
    log.unlink(missing_ok=True)  # trials of earlier code say nothing
    task.tune(trials=RANDOM_TRIALS, log=log, options=options, quiet=True)
    trials = [record for record in RecordLog(log).read().records if record.phase == "trial"]
    return [r.result.median if isinstance(r.result, Timing) else math.inf for r in trials]


def trials_to_match(random: Sequence[float], evolved: Sequence[float]) -> float:
    """Trials until ``evolved`` is as fast as all of ``random``; infinite if it never is."""
    best = min(random)
    return next((n + 1.0 for n, seconds in enumerate(evolved) if seconds <= best), math.inf)


def matching_rows(cases: Sequence[Conv], threads: int, seeds: int, logs: Path) -> list[Row]:
    """One row a task, and the median over all tasks and seeds."""
    rows: list[Row] = []
    everything: list[float] = []
    for case in cases:
        counts = []
        for seed in range(seeds):
            runs = [
                trial_times(
                    case, threads, policy, seed, logs / f"{case.name}.{policy}.{seed}.jsonl"
                )
                for policy in ("random", "evolutionary")
            ]
            counts.append(trials_to_match(*runs))
            print(f"{case.name} seed {seed}: {counts[-1]:g} trials", flush=True)
        everything += counts
        rows.append(_matching_row(f"trials_{case.name}", threads, counts))
    median = float(np.median(everything))
    summary = _matching_row("trials_to_match_random_128", threads, everything)
    summary["bar"] = {"at_most": TRIALS_BAR, "holds": median <= TRIALS_BAR}
    return [*rows, summary]


def _matching_row(name: str, threads: int, counts: Sequence[float]) -> Row:
    median = float(np.median(counts))
    return {
        "name": name,
        "threads": threads,
        "trials": [None if math.isinf(count) else count for count in counts],
        "median_trials": None if math.isinf(median) else median,
        "rivals_ms": {},
    }


def main() -> None:
    """Both measurements, or the first alone with ``--seeds 0``."""
    parser = argparse.ArgumentParser(description="Speed and yield of the search.")
    parser.add_argument("--threads", type=int, default=2, help="of the tuned kernels")
    parser.add_argument("--seeds", type=int, default=5, help="0: only candidates per second")
    parser.add_argument("--logs", type=Path, default=Path("out/search"))
    parser.add_argument("--json", metavar="FILE")
    arguments = parser.parse_args()
    rows = []
    for case in CONVOLUTIONS_3X3:
        row = candidate_rate(case, arguments.threads)
        print(f"{row['name']:36s} {row['candidates_per_s']:9.0f} candidates/s", flush=True)
        rows.append(row)
        write_json(arguments.json, rows)
    if arguments.seeds:
        rows += matching_rows(CONVOLUTIONS_3X3, arguments.threads, arguments.seeds, arguments.logs)
        print(f"median: {rows[-1]['median_trials']} trials", flush=True)
        write_json(arguments.json, rows)


if __name__ == "__main__":
    main()
