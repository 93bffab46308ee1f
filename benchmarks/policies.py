"""Our search against Ansor's, genetic and random search, and with each of its parts switched off.

``python -m benchmarks.policies --json benchmarks/results/policies.json`` simulates what a program
takes; ``--corpus corpus.npz`` replays measured programs instead.  Prints tables in Markdown.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from autosched.measure.simulated import SimulatedRunner
from autosched.research import PARTS, StudyResult, StudyRun, compare
from autosched.study import corpus_tasks, load_corpus
from autosched.tuning.objectives import geometric_mean
from autosched.tuning.options import TuneOptions
from autosched.workloads.builtin import get
from benchmarks.rows import Row, write_json
from sketch.target.target import Target

if TYPE_CHECKING:
    from autosched.records.corpus import Corpus
    from autosched.tasks.spec import TaskSpec

# Of a machine that every run of this file names alike: times are simulated for it.
TARGET: Final = Target("cpu", "simulated", threads=2)
WORKLOADS: Final = (
    ("GMM", (1, 128, 128, 128)),
    ("C2D", (1, 28, 28, 64, 64, 3, 1, 1)),
    ("DEP", (1, 56, 56, 64, 3, 1, 1)),
    ("NRM", (1, 256, 256)),
)
RIVALS: Final = ("evolutionary", "ansor", "genetic", "random")
POLICIES: Final = "policies"
MODELS: Final = ("gbdt", "forest", "draft", "random")


def comparisons(
    tasks: Sequence[TaskSpec], corpus: Corpus | None, trials: int, seeds: int
) -> dict[str, StudyResult]:
    """Policies, parts, models and schedulers, by title.

    Args:
        tasks: that every run tunes.
        corpus: is replayed; None: times are simulated.
        trials: of a task.
        seeds: runs of each setting.
    """
    options = TuneOptions(trials=trials * len(tasks))
    measurements = SimulatedRunner() if corpus is None else corpus
    # Nothing finishes on neighbours in a table of programs.
    parts = [f"without {part}" for part in PARTS if corpus is None or part != "finish"]
    chosen: dict[str, tuple[Sequence[str], Sequence[str], Sequence[str]]] = {
        POLICIES: (RIVALS, ("gbdt",), ("gradient",)),
        "parts": (("evolutionary", *parts), ("gbdt",), ("gradient",)),
        "cost models": (("evolutionary",), MODELS, ("gradient",)),
        "schedulers": (("evolutionary",), ("gbdt",), ("gradient", "round-robin")),
    }
    found = {
        title: compare(
            *axes, tasks, range(seeds), measurements=measurements, options=options,
            objective=geometric_mean, on_run=_tell,
        )
        for title, axes in chosen.items()
    }  # fmt: skip
    # All tables are relative to the best that any run found.
    known = np.min([item.known_s for item in found.values()], axis=0).tolist()
    return {title: replace(item, known_s=tuple(known)) for title, item in found.items()}


def markdown(found: StudyResult, at: Sequence[int]) -> str:
    """The table of a comparison."""
    curves = found.curves()
    header = ["", *(f"{n} trials" for n in at)]
    lines = [f"| {' | '.join(header)} |", f"| --- |{' ---: |' * len(at)}"]
    for curve in curves:
        cells = [
            f"{curve.speed[n - 1]:.3f} ({curve.low[n - 1]:.3f}-{curve.high[n - 1]:.3f})" for n in at
        ]
        lines.append(f"| {' | '.join([curve.label, *cells])} |")
    return "\n".join(lines)


def rows_of(title: str, found: StudyResult, at: Sequence[int]) -> list[Row]:
    """A row for each setting."""
    return [
        {
            "name": f"{title}: {curve.label}",
            "seeds": curve.seeds,
            "source": found.source,
            "tasks": [task.name for task in found.tasks],
            "speed": {str(n): round(float(curve.speed[n - 1]), 4) for n in at},
        }
        for curve in found.curves()
    ]


def simulated_tasks() -> list[TaskSpec]:
    """Workloads of four kinds."""
    return [get(name).task(*arguments, target=TARGET) for name, arguments in WORKLOADS]


def _tell(run: StudyRun) -> None:
    print(f"{run.setting}, seed {run.seed}: {len(run.seconds)} trials", flush=True)


def _draw(found: StudyResult, path: str) -> None:
    from matplotlib.figure import Figure

    from autosched.plots import trial_curves

    figure = Figure(figsize=(10, 6), layout="constrained")
    trial_curves(found, figure.subplots())
    figure.savefig(path)


def main() -> None:
    """Print the tables, and draw the first one."""
    parser = argparse.ArgumentParser(description="Search policies on equal measurements.")
    parser.add_argument("--corpus", type=Path, help="replay these programs instead of simulating")
    parser.add_argument("--tasks", type=int, default=6, help="of the corpus (default: %(default)s)")
    parser.add_argument("--trials", type=int, default=64, help="a task (default: %(default)s)")
    parser.add_argument("--seeds", type=int, default=3, help="default: %(default)s")
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--figure", metavar="FILE", help="picture of the policies")
    arguments = parser.parse_args()
    corpus = None if arguments.corpus is None else load_corpus(arguments.corpus)
    tasks = simulated_tasks() if corpus is None else corpus_tasks(corpus, arguments.tasks)
    count = len(tasks)
    at = [count * trials for trials in (arguments.trials // 4, arguments.trials)]
    rows: list[Row] = []
    for title, found in comparisons(tasks, corpus, arguments.trials, arguments.seeds).items():
        print(f"\n{title}: {count} tasks, {found.source}, {arguments.seeds} seeds\n")
        print(markdown(found, at), flush=True)
        rows += rows_of(title, found, at)
        write_json(arguments.json, rows)
        if arguments.figure and title == POLICIES:
            _draw(found, arguments.figure)


if __name__ == "__main__":
    main()
