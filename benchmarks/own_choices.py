"""How fast what a trained cost model chooses is, next to the draft model's choices.

    python -m benchmarks.own_choices benchmarks/corpus/*.npz --seconds 400 --json FILE

Trees learn from a corpus, but for what is like five networks.  Of the other tasks, programs are
measured that trees which have not seen the task, the draft, or both like best, and trees learn from
them, too.  Then the first choices of all of them for the tasks of the five networks are measured
in turns.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from autosched.collect.run import MEASURE
from autosched.measure.result import Timing
from autosched.measure.runner import LocalRunner
from autosched.search.corpus_data import corpus_dataset, machine_task
from autosched.search.corpus_splits import HELD_OUT, like_networks
from autosched.search.space import space_of
from autosched.study import load_corpus
from autosched.tasks.candidate import Candidate
from autosched.tasks.rough_seconds import rough_seconds
from benchmarks.rows import Row, write_json
from codegen.host import host_target
from costmodel.extract import features_of
from costmodel.gbdt import GradientBoostedModel
from costmodel.gbdt_options import PRETRAINED
from sketch.population.population import Population

if TYPE_CHECKING:
    from autosched.records.corpus import Corpus, CorpusTask
    from autosched.tasks.spec import TaskSpec
    from costmodel.dataset import Dataset
    from costmodel.features import Features
    from costmodel.model import CostModel
    from sketch.target.target import Target

    Floats = NDArray[np.float64]

# Programs of a task that are measured to be learned from, after the draft's first choice.
_OF_TREES, _OF_BOTH, _OF_DRAFT, _BY_CHANCE = 7, 4, 3, 2
_ROWS: Final = 96  # of a sketch, the draft's best
_WITHIN: Final = 3.0  # times the draft's seconds of the best row
_LONGEST_TASK_S: Final = 15e-3
_HALVES: Final = 2
_TURNS: Final = 3


@dataclass(frozen=True, slots=True, eq=False)
class Pool:
    """Programs of a task that models choose from: parts of one sketch each, with their features."""

    task: TaskSpec
    parts: tuple[tuple[Population, Features], ...]

    def logs(self, model: CostModel | None = None) -> Floats:
        """[N]: logarithm of what a model predicts; None: of the draft's seconds."""
        found = [f.draft_seconds() if model is None else model.predict(f) for _, f in self.parts]
        return np.log(np.concatenate(found))

    def place(self, number: int) -> tuple[int, int]:
        """Part and row of a program."""
        ends = np.cumsum([features.count for _, features in self.parts])
        part = int(np.searchsorted(ends, number, side="right"))
        return part, number - int(ends[part - 1] if part else 0)

    def measured(
        self, runner: LocalRunner, numbers: Sequence[int], rng: np.random.Generator
    ) -> Floats:
        """[len(numbers)]: seconds of programs, timed in an order by chance; NaN: it failed."""
        seconds = np.full(len(numbers), np.nan)
        order = rng.permutation(len(numbers)).tolist()
        places = [self.place(numbers[n]) for n in order]
        rows = [(self.parts[part][0], row) for part, row in places]
        results = runner.measure(self.task, [Candidate(r.sketch, r.row(n)) for r, n in rows])
        for n, result in zip(order, results, strict=True):
            if isinstance(result, Timing):
                seconds[n] = result.median
        return seconds


def pool_of(task: CorpusTask, target: Target) -> Pool | None:
    """Of a task; None where it takes long."""
    spec = task.spec(target)
    if rough_seconds(spec.dag, target) > _LONGEST_TASK_S:
        return None
    space = space_of(spec)
    limit = _WITHIN * min(float(drafts[0]) for drafts in space.drafts)
    parts = []
    for rows, drafts in zip(space.samples, space.drafts, strict=True):
        count = max(1, int(np.searchsorted(drafts[:_ROWS], limit, side="right")))
        chosen = rows.take(np.arange(count))
        parts.append((chosen, features_of(chosen)))
    return Pool(spec, tuple(parts))


def choices(draft: Floats, trees: Floats, rng: np.random.Generator) -> list[int]:
    """Which programs are measured: distinct ones, the draft's and the trees' first choice first.

    Args:
        draft: [N] scores of the programs, the best ones are the smallest.
        trees: [N] those of the trees.
        rng: of those by chance.
    """
    wanted = (
        (np.argsort(draft), 1),
        (np.argsort(trees), _OF_TREES),
        (np.argsort(draft + trees), _OF_BOTH),
        (np.argsort(draft), _OF_DRAFT),
        (rng.permutation(len(draft)), _BY_CHANCE),
    )
    chosen: list[int] = []
    for order, count in wanted:
        left = [number for number in order.tolist() if number not in chosen]
        chosen += left[:count]
    return chosen


def speeds(rounds: Mapping[str, Sequence[Floats]], base: str) -> Iterator[Row]:
    """A row for each of the choosers but ``base``: how fast its choices are over those of ``base``.

    Args:
        rounds: by chooser, for each task the seconds of each turn.
        base: one of them.
    """
    medians = {name: np.array([np.median(t) for t in tasks]) for name, tasks in rounds.items()}
    for name in rounds:
        if name != base:
            logs = np.log(medians[base] / medians[name])
            logs = logs[np.isfinite(logs)]
            yield {
                "name": name, "tasks": len(logs), "speed": float(np.exp(logs.mean())),
                "least": float(np.exp(logs.min())), "most": float(np.exp(logs.max())),
                "same": float(np.mean(logs == 0)),
            }  # fmt: skip


def trained(dataset: Dataset, known: NDArray[np.bool_]) -> GradientBoostedModel:
    """Trees that learned from some tasks; ``known``: [tasks]."""
    model = GradientBoostedModel(PRETRAINED)
    model.update(dataset.take(np.flatnonzero(known[dataset.table().groups])))
    return model


def learn_choices(
    runner: LocalRunner,
    dataset: Dataset,
    tasks: Sequence[CorpusTask],
    halves: Sequence[GradientBoostedModel],
    target: Target,
    seconds: float,
) -> int:
    """Measure choices of the tasks for some seconds, into the dataset; programs measured.

    Args:
        runner: measures.
        dataset: of the corpus.
        tasks: all in an order by chance.
        halves: trees that have not seen the tasks of the first half of cores, and of the second.
        target: the machine of the runner.
        seconds: of measuring.
    """
    rng, began, count = np.random.default_rng(1), time.monotonic(), 0
    for task in tasks:
        if time.monotonic() - began > seconds:
            break
        pool = pool_of(task, target)
        if pool is None:
            continue
        chosen = choices(pool.logs(), pool.logs(halves[half_of(task)]), rng)
        found = pool.measured(runner, chosen, rng)
        places = [pool.place(number) for number in chosen]
        for part in sorted({part for part, _ in places}):
            own = [n for n, place in enumerate(places) if place[0] == part]
            rows = np.array([places[n][1] for n in own])
            name = machine_task(task, target)
            dataset.append(name, pool.parts[part][1].take(rows), found[own])
        count += len(chosen)
        print(f"\r{count} programs, {time.monotonic() - began:.0f} s", end="", flush=True)
    print()
    return count


def half_of(task: CorpusTask) -> int:
    """Of all tasks; those that differ in their epilogue only are in the same one."""
    return int(task.core[:8], 16) % _HALVES


def judged(
    runner: LocalRunner,
    tasks: Sequence[CorpusTask],
    models: Mapping[str, GradientBoostedModel],
    target: Target,
) -> Iterator[Row]:
    """Rows of ``speeds`` over the draft, for models and for the mean of each and the draft.

    Args:
        runner: measures.
        tasks: none of them known to the models.
        models: by name.
        target: the machine of the runner.
    """
    rng = np.random.default_rng(5)
    rounds: dict[str, list[Floats]] = {}
    for task in tasks:
        pool = pool_of(task, target)
        if pool is None:
            continue
        draft = pool.logs()
        first = {"draft": int(np.argmin(draft))}
        for name, model in models.items():
            scores = pool.logs(model)
            first[name] = int(np.argmin(scores))
            first[f"{name}, and the draft"] = int(np.argmin(scores + draft))
        numbers = sorted(set(first.values()))
        turns = np.array([pool.measured(runner, numbers, rng) for _ in range(_TURNS)])
        for name, number in first.items():
            rounds.setdefault(name, []).append(turns[:, numbers.index(number)])
    yield from speeds(rounds, "draft")


def compared(corpus: Corpus, target: Target, seconds: float) -> Iterator[Row]:
    """Learn from the corpus and from choices, and judge both kinds of trees; a row each.

    Args:
        corpus: measured programs.
        target: this machine.
        seconds: of measuring choices.
    """
    tasks = {machine_task(g.task, g.target): g.task for g in corpus.groups()}
    alike = like_networks(corpus, HELD_OUT)
    known = {task.key: task for name, task in tasks.items() if name not in alike}
    held_out = {t.key: t for name, t in tasks.items() if name in alike and _is_of_its_size(t)}
    dataset = corpus_dataset(corpus)
    others = np.array([name not in alike for name in dataset.tasks])
    half = np.array([half_of(tasks[name]) for name in dataset.tasks])
    halves = [trained(dataset, others & (half != number)) for number in range(_HALVES)]
    models = {"trees": trained(dataset, others)}
    order = np.random.default_rng(1).permutation(sorted(known)).tolist()
    with LocalRunner(target, MEASURE) as runner:
        taught = [known[key] for key in order]
        count = learn_choices(runner, dataset, taught, halves, target, seconds)
        new = np.ones(len(dataset.tasks) - len(others), dtype=bool)
        models[f"trees, and {count} of their choices"] = trained(dataset, np.append(others, new))
        yield from judged(runner, [held_out[key] for key in sorted(held_out)], models, target)


def _is_of_its_size(task: CorpusTask) -> bool:
    """Whether it is of a network that is held out, at the size that this one has in the zoo."""
    return any(o.network in HELD_OUT and o.text.endswith("batch=1") for o in task.origins)


def main() -> None:
    """Print a line each, and write the file of results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("corpora", nargs="+", type=Path)
    parser.add_argument("--seconds", type=float, default=400.0, help="of measuring choices")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--json", metavar="FILE")
    arguments = parser.parse_args()
    corpus, target = load_corpus(*arguments.corpora), host_target(arguments.threads)
    rows = []
    for row in compared(corpus, target, arguments.seconds):
        rows.append(row)
        print(
            f"{row['name']:40s} {row['speed']:.3f} times as fast as the draft's choices "
            f"({row['least']:.2f} to {row['most']:.2f}), {row['tasks']} tasks",
            flush=True,
        )
    write_json(arguments.json, rows)


if __name__ == "__main__":
    main()
