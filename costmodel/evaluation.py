"""How good a cost model ranks measured programs that it has not learned from."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from costmodel.checked import checked_prediction, checked_update
from costmodel.dataset import Dataset
from costmodel.errors import CostModelError
from costmodel.features import Features
from costmodel.metrics import best_k, pairwise_accuracy, peak_score, top_k_score
from costmodel.model import CostModel

Split = Literal["within-task", "by-task"]
"""Test programs of tasks that were trained on, or all programs of tasks that were not."""

SPLITS: Final[tuple[Split, ...]] = get_args(Split)

Folds = Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]
# A task takes part in a test when so many of its test programs ran.
_LEAST_SUCCESSES: Final = 2
_FOLDS: Final = 5


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Metrics of one model on one split, see ``metrics``; 1 is perfect.

    Attributes:
        top_1, top_5: TenSet's top-k score, pooled over the tasks.
        pairwise: share of pairs of a task in the right order, by its number of programs.
        peak_1, peak_5: peak score at k, mean over the tasks by their number of programs.
        best_1: best program among the first tenth over the best of all, mean over the tasks.
        programs, tasks: tested.
    """

    split: Split
    top_1: float
    top_5: float
    pairwise: float
    peak_1: float
    peak_5: float
    best_1: float
    programs: int
    tasks: int


def evaluate(
    dataset: Dataset, make: Callable[[], CostModel], split: Split, seed: int = 0
) -> Evaluation:
    """Train fresh models on a part of the programs and judge them on the rest.

    Every program is tested once: five folds, of the programs of each task or of the tasks.

    Args:
        dataset: measured programs, failures included; they rank last.
        make: an untrained model, called once a fold.
        split: what is held out.
        seed: of the folds.

    Raises:
        CostModelError: too few programs or tasks to hold some out.
        ModelFaultError: the model raised, or predicted something that is no time.
    """
    table, rng = dataset.table(), np.random.default_rng(seed)
    groups = table.groups
    folds = _of_programs(groups, rng) if split == "within-task" else _of_tasks(groups, rng)
    judged: list[tuple[NDArray[np.float64], NDArray[np.float64]]] = []
    for train, test in folds:
        model = make()
        checked_update(model, dataset.take(train))
        for group in np.unique(groups[test]):
            members = test[groups[test] == group]
            seconds = np.where(np.isnan(table.seconds[members]), np.inf, table.seconds[members])
            if np.isfinite(seconds).sum() >= _LEAST_SUCCESSES:
                judged.append((seconds, predict(model, dataset, members)))
    if not judged:
        raise CostModelError(
            f"no task has {_LEAST_SUCCESSES} successes to test a model with", f"split {split}",
            "measure more candidates",
        )  # fmt: skip
    return _evaluation(split, judged, len(np.unique(groups)))


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
            f"{len(tasks)} task cannot be split by task", hint="tune two or more, or split within"
        )
    return _folds(np.argsort(tasks)[np.searchsorted(np.unique(groups), groups)] % _FOLDS)


def _folds(fold: NDArray[np.int64]) -> Folds:
    for number in np.unique(fold):
        yield np.flatnonzero(fold != number), np.flatnonzero(fold == number)


def _evaluation(
    split: Split, judged: list[tuple[NDArray[np.float64], NDArray[np.float64]]], tasks: int
) -> Evaluation:
    counts = np.array([len(seconds) for seconds, _ in judged], dtype=np.float64)

    def mean(metric: Callable[[NDArray[np.float64], NDArray[np.float64]], float]) -> float:
        return float(np.average([metric(*pair) for pair in judged], weights=counts))

    return Evaluation(
        split=split,
        top_1=top_k_score(judged, 1),
        top_5=top_k_score(judged, 5),
        pairwise=mean(pairwise_accuracy),
        peak_1=mean(lambda seconds, predicted: peak_score(seconds, predicted, 1)),
        peak_5=mean(lambda seconds, predicted: peak_score(seconds, predicted, 5)),
        best_1=mean(
            lambda seconds, predicted: best_k(seconds, predicted, max(1, len(seconds) // 10))
        ),
        programs=int(counts.sum()),
        tasks=tasks,
    )
