"""Ranking metrics; a model is judged by the programs it puts first, never by squared errors.

All of them take the true times and the predicted times of the programs of *one task* (lower is
better); a failed program has the true time infinity (label 0).

Programs of equal prediction are in no order: a metric is then its expected value over all orders of
them, so that a constant model scores what chance does, wherever the best program happens to stand.
A prediction of NaN is an error.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from costmodel.errors import CostModelError

Times = NDArray[np.float64]
_LEAST_LABEL = 1e-5  # TenSet's: an invalid first pick costs 1e5 times the best


def labels(seconds: Times) -> Times:
    """Best time / time, in [0, 1]; 0 for failures (infinity or NaN).

    Raises:
        CostModelError: no program ran.
    """
    finite = np.isfinite(seconds)
    if not finite.any():
        raise CostModelError("no program of the task ran", hint="metrics need one success")
    best = seconds[finite].min()
    return np.where(finite, best / np.where(finite, seconds, 1.0), 0.0)


def kth_best(labelled: Times, predicted: Times, drafted: int, k: int = 1) -> tuple[Times, Times]:
    """The k-th best label among the ``drafted`` programs of the smallest predictions.

    Args:
        labelled: [N] best time / time.
        predicted: [N] of the model, smaller is faster.
        drafted: size of the draft.
        k: which of the drafted programs counts, 1 .. drafted.

    Returns:
        Labels and their probabilities, [N] each: one label of probability 1 unless the last places
        of the draft are shared by programs of equal prediction, which fill them at random.

    Raises:
        CostModelError: a prediction is NaN, or k is not in 1 .. drafted.
    """
    _check_predicted(labelled, predicted)
    drafted = min(drafted, len(labelled))
    _check_k(k)
    if k > drafted:
        raise CostModelError(f"best-{k} of a draft set of {drafted}", hint="draft more programs")
    edge = np.partition(predicted, drafted - 1)[drafted - 1]
    sure, tied = labelled[predicted < edge], labelled[predicted == edge]
    places = drafted - len(sure)
    values = np.unique(np.concatenate([sure, tied]))[::-1]
    reached = [
        _at_least(k - int((sure >= v).sum()), len(tied), int((tied >= v).sum()), places)
        for v in values
    ]
    return values, np.diff(np.array(reached), prepend=0.0)


def _at_least(wanted: int, total: int, good: int, drawn: int) -> float:
    """Probability that ``wanted`` or more of ``drawn`` out of ``total`` are among the ``good``."""
    if wanted <= 0:
        return 1.0
    hits = range(wanted, min(good, drawn) + 1)
    ways = sum(math.comb(good, n) * math.comb(total - good, drawn - n) for n in hits)
    return ways / math.comb(total, drawn)


def _check_predicted(labelled: Times, predicted: Times) -> None:
    if predicted.shape != labelled.shape:
        raise CostModelError(f"predictions of shape {predicted.shape} for {len(labelled)} programs")
    undefined = int(np.isnan(predicted).sum())
    if undefined:
        raise CostModelError(
            f"{undefined} of {len(predicted)} predictions are NaN",
            hint="a model that predicts NaN ranks nothing",
        )


def top_k_score(
    tasks: Sequence[tuple[Times, Times]], k: int, weights: Sequence[float] | None = None
) -> float:
    """TenSet's top-k of one network: best total time / total time of the best of the first k.

    ``sum_s w_s best_s / sum_s w_s min_{j<=k} (best_s / max(y_s[rank j], 1e-5))``.

    Args:
        tasks: (true seconds, predicted seconds) of each task.
        k: programs that would be measured, at least 1.
        weights: occurrences of each task in the network; 1 each by default.

    Raises:
        CostModelError: no task, a task on which nothing ran, or k below 1.
    """
    if not tasks:
        raise CostModelError("a score of no tasks", hint="give at least one")
    _check_k(k)
    found = [1.0] * len(tasks) if weights is None else weights
    best_total = picked_total = 0.0
    for (seconds, predicted), weight in zip(tasks, found, strict=True):
        y = labels(seconds)
        best = float(seconds[np.isfinite(seconds)].min())
        picked, chances = kth_best(y, predicted, k)
        best_total += weight * best
        picked_total += weight * best * float(chances @ (1.0 / np.maximum(picked, _LEAST_LABEL)))
    return best_total / picked_total


def peak_score(seconds: Times, predicted: Times, k: int) -> float:
    """MetaSchedule's peak-score@k: mean over j <= k of the best label among the first j.

    With fewer than k programs, k is their number.
    """
    _check_k(k)
    y = labels(seconds)
    firsts = [kth_best(y, predicted, j) for j in range(1, min(k, len(y)) + 1)]
    return float(np.mean([values @ chances for values, chances in firsts]) / y.max())


def pairwise_accuracy(seconds: Times, predicted: Times) -> float:
    """Share of pairs in the right order; a tie of predictions is half right.

    Pairs of equally fast programs do not count; 1 where there are no others.

    Raises:
        CostModelError: there are fewer than two programs.
    """
    y = labels(seconds)
    _check_predicted(y, predicted)
    if len(y) < 2:
        raise CostModelError("one program makes no pair", hint="give two or more")
    right, pairs = 0.0, 0
    for i in range(len(y) - 1):
        truth = np.sign(y[i] - y[i + 1 :])
        told = np.sign(predicted[i + 1 :] - predicted[i])
        differ = truth != 0
        right += float(((1.0 + truth * told) / 2.0)[differ].sum())
        pairs += int(differ.sum())
    return right / pairs if pairs else 1.0


def rank_correlation(seconds: Times, predicted: Times) -> float:
    """Spearman's: correlation of the ranks, equal values sharing the mean of theirs; failures last.

    0 where all times, or all predictions, are equal.
    """
    y = labels(seconds)
    _check_predicted(y, predicted)
    truth, told = _ranks(-y), _ranks(predicted)
    truth, told = truth - truth.mean(), told - told.mean()
    scale = math.sqrt(float(truth @ truth) * float(told @ told))
    return float(truth @ told) / scale if scale else 0.0


def _ranks(values: Times) -> Times:
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    return np.asarray((np.cumsum(counts) - (counts - 1) / 2.0)[place], dtype=np.float64)


def best_k(seconds: Times, predicted: Times, drafted: int, k: int = 1) -> float:
    """Pruner's best-k: time of the overall best / time of the k-th best program drafted.

    Drafted are the ``drafted`` programs of the smallest predicted time.  1.0 is perfect; 0 means
    that the k-th best program of the draft set failed.

    Args:
        seconds: [N] measured; infinity or NaN for failures.
        predicted: [N] of the model, smaller is faster.
        drafted: size of the draft.
        k: which of the drafted programs counts, 1 .. drafted.
    """
    values, chances = kth_best(labels(seconds), predicted, drafted, k)
    return float(values @ chances)


def _check_k(k: int) -> None:
    if k < 1:
        raise CostModelError(f"a score of the first {k} programs", hint="k is at least 1")
