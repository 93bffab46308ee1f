"""How good a cost model ranks measured programs that it has not learned from."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from costmodel.checked import checked_prediction, checked_update
from costmodel.dataset import Dataset
from costmodel.errors import CostModelError
from costmodel.features import Features
from costmodel.metrics import (
    Times,
    best_k,
    pairwise_accuracy,
    peak_score,
    rank_correlation,
    top_k_score,
)
from costmodel.model import CostModel

Split = Literal["within-task", "by-task"]
"""Test programs of tasks that were trained on, or all programs of tasks that were not."""

SPLITS: Final[tuple[Split, ...]] = get_args(Split)

Folds = Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]
METRICS: Final = ("top_1", "top_5", "pairwise", "rank", "peak_1", "peak_5", "best_1")
"""The metrics of an evaluation, by name."""

# A task takes part in a test when so many of its test programs ran.
_LEAST_SUCCESSES: Final = 2
_FOLDS: Final = 5


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Metrics of one model on one split, see ``metrics``; 1 is perfect.

    Attributes:
        split: what was held out.
        top_1, top_5: TenSet's top-k score, pooled over the tasks.  A task with at most k tested
            programs adds nothing but its best: within tasks, a fold tests a fifth of its programs.
        pairwise: share of pairs of a task in the right order, by its number of programs.
        rank: Spearman's rank correlation, mean over the tasks by their number of programs.
        peak_1, peak_5: peak score at k, mean over the tasks by their number of programs.
        best_1: best program among the first tenth over the best of all, mean over the tasks.
        programs, tasks: tested.
    """

    split: str
    top_1: float
    top_5: float
    pairwise: float
    rank: float
    peak_1: float
    peak_5: float
    best_1: float
    programs: int
    tasks: int


def evaluate(
    dataset: Dataset,
    make: Callable[[], CostModel],
    split: Split,
    seed: int = 0,
    kin: Mapping[str, str] | None = None,
) -> Evaluation:
    """Train fresh models on a part of the programs and judge them on the rest.

    Every program is tested once: five folds, of the programs of each task or of the tasks.

    Args:
        dataset: measured programs, failures included; they rank last.
        make: an untrained model, called once a fold.
        split: what is held out.
        seed: of the folds.
        kin: tasks of one value are held out together; None: each by itself.

    Raises:
        CostModelError: too few programs or tasks to hold some out.
        ModelFaultError: the model raised, or predicted something that is no time.
    """
    table, rng = dataset.table(), np.random.default_rng(seed)
    groups = table.groups
    if split == "within-task":
        folds = _of_programs(groups, rng)
    else:
        folds = _of_tasks(_families(dataset, kin or {})[groups], rng)
    judged: list[_Judged] = []
    for train, test in folds:
        model = make()
        checked_update(model, dataset.take(train))
        judged += _judged(model, dataset, test)
    return _evaluation(split, judged)


def evaluate_parts(
    dataset: Dataset,
    make: Callable[[], CostModel],
    parts: Mapping[str, Mapping[str, float]],
    excluded: Sequence[str],
    average: str,
) -> list[Evaluation]:
    """One model, trained without some tasks and judged on parts of them; networks, for instance.

    Args:
        dataset: measured programs, failures included.
        make: an untrained model.
        parts: by name, the tasks that it is judged on, with their weights in a top-k score.
        excluded: tasks that are not trained on; those of the parts, and what is like them.
        average: what the mean over the parts is called, the last of the results.

    Raises:
        CostModelError: nothing is left to train on, or a part has no task with two successes.
        ModelFaultError: the model raised, or predicted something that is no time.
    """
    groups, names = dataset.table().groups, np.array(dataset.tasks)
    left_out = np.isin(names, list(excluded))[groups]
    if left_out.all():
        raise CostModelError("no task is left to train on", hint="hold fewer out")
    model = make()
    checked_update(model, dataset.take(np.flatnonzero(~left_out)))
    found = []
    for part, weights in parts.items():
        programs = np.flatnonzero(np.isin(names, list(weights))[groups])
        judged = _judged(model, dataset, programs, weights)
        found.append(_evaluation(part, judged))
    return [*found, _mean(average, found)] if len(found) > 1 else found


@dataclass(frozen=True, slots=True, eq=False)
class _Judged:
    """A task's programs: true times, infinite for failures, and what was predicted."""

    task: int
    seconds: Times
    predicted: Times
    weight: float = 1.0


def _judged(
    model: CostModel,
    dataset: Dataset,
    programs: NDArray[np.int64],
    weights: Mapping[str, float] | None = None,
) -> list[_Judged]:
    """The predictions of a trained model, by task; tasks without two successes are left out."""
    table, result = dataset.table(), []
    groups = table.groups[programs]
    for group in np.unique(groups).tolist():
        members = programs[groups == group]
        seconds = np.where(np.isnan(table.seconds[members]), np.inf, table.seconds[members])
        if np.isfinite(seconds).sum() >= _LEAST_SUCCESSES:
            weight = 1.0 if weights is None else weights[dataset.tasks[group]]
            result.append(_Judged(group, seconds, predict(model, dataset, members), weight))
    return result


def _families(dataset: Dataset, kin: Mapping[str, str]) -> NDArray[np.int64]:
    """[tasks]: one number for tasks that are held out together."""
    families = [kin.get(task, task) for task in dataset.tasks]
    return np.unique(families, return_inverse=True)[1]


def _mean(name: str, parts: Sequence[Evaluation]) -> Evaluation:
    """Means of the metrics, as TenSet averages networks; sums of the counts."""
    means = {
        metric: float(np.mean([getattr(part, metric) for part in parts])) for metric in METRICS
    }
    programs, tasks = (sum(getattr(p, count) for p in parts) for count in ("programs", "tasks"))
    return replace(parts[0], split=name, programs=programs, tasks=tasks, **means)


def predict(model: CostModel, dataset: Dataset, programs: NDArray[np.int64]) -> NDArray[np.float64]:
    """[len(programs)]: relative times of programs of a dataset.

    Raises:
        ModelFaultError: the model raised, or predicted something that is no time.
    """
    table = dataset.table()
    result = np.empty(len(programs))
    lengths = np.diff(table.offsets)[programs]
    for length in np.unique(lengths).tolist():
        places = np.flatnonzero(lengths == length)
        starts = table.offsets[programs[places]]
        rows = table.rows[starts[:, None] + np.arange(length)]  # [P, S, F]
        names = tuple(f"statement {n}" for n in range(length))
        features = Features(rows.transpose(1, 2, 0), names, table.extra)
        result[places] = checked_prediction(model, features)
    return result


def _of_programs(groups: NDArray[np.int64], rng: np.random.Generator) -> Folds:
    """Every task's programs, dealt out at random."""
    fold = np.empty(len(groups), dtype=np.int64)
    for group in np.unique(groups):
        members = rng.permutation(np.flatnonzero(groups == group))
        fold[members] = np.arange(len(members)) % _FOLDS
    return _folds(fold)


def _of_tasks(groups: NDArray[np.int64], rng: np.random.Generator) -> Folds:
    """Whole tasks, dealt out at random."""
    tasks = rng.permutation(np.unique(groups))
    if len(tasks) < 2:
        raise CostModelError(
            f"{len(tasks)} task cannot be split by task", hint="measure two or more"
        )
    return _folds(np.argsort(tasks)[np.searchsorted(np.unique(groups), groups)] % _FOLDS)


def _folds(fold: NDArray[np.int64]) -> Folds:
    for number in np.unique(fold):
        yield np.flatnonzero(fold != number), np.flatnonzero(fold == number)


def _evaluation(split: str, judged: Sequence[_Judged]) -> Evaluation:
    if not judged:
        raise CostModelError(
            f"no task has {_LEAST_SUCCESSES} successes to test a model with", f"split {split}",
            "measure more candidates",
        )  # fmt: skip
    counts = np.array([len(item.seconds) for item in judged], dtype=np.float64)
    pairs = [(item.seconds, item.predicted) for item in judged]
    weights = [item.weight for item in judged]

    def mean(metric: Callable[[Times, Times], float]) -> float:
        return float(np.average([metric(*pair) for pair in pairs], weights=counts))

    return Evaluation(
        split=split,
        top_1=top_k_score(pairs, 1, weights),
        top_5=top_k_score(pairs, 5, weights),
        pairwise=mean(pairwise_accuracy),
        rank=mean(rank_correlation),
        peak_1=mean(lambda seconds, predicted: peak_score(seconds, predicted, 1)),
        peak_5=mean(lambda seconds, predicted: peak_score(seconds, predicted, 5)),
        best_1=mean(
            lambda seconds, predicted: best_k(seconds, predicted, max(1, len(seconds) // 10))
        ),
        programs=int(counts.sum()),
        tasks=len({item.task for item in judged}),
    )
