"""Ranking metrics; a model is judged by the programs it puts first, never by squared errors.

All of them take the true times and the predicted times of the programs of *one task* (lower is
better); a failed program has the true time infinity (label 0).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from costmodel.errors import CostModelError

Times = NDArray[np.float64]
_LEAST_LABEL = 1e-5  # TenSet's: an invalid first pick costs 1e5 times the best


def labels(seconds: Times) -> Times:
    """Best time / time, in [0, 1]; 0 for failures (infinity or NaN)."""
    finite = np.isfinite(seconds)
    if not finite.any():
        raise CostModelError("no program of the task ran", hint="metrics need one success")
    best = seconds[finite].min()
    return np.where(finite, best / np.where(finite, seconds, 1.0), 0.0)


def ranking(predicted: Times) -> NDArray[np.intp]:
    """Programs by predicted time, fastest first; ties stay in order."""
    return np.argsort(predicted, kind="stable")


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
        picked = max(float(y[ranking(predicted)[:k]].max()), _LEAST_LABEL)
        best_total += weight * best
        picked_total += weight * best / picked
    return best_total / picked_total


def peak_score(seconds: Times, predicted: Times, k: int) -> float:
    """MetaSchedule's peak-score@k: mean over j <= k of the best label among the first j.

    With fewer than k programs, k is their number.
    """
    _check_k(k)
    y = labels(seconds)
    running = np.maximum.accumulate(y[ranking(predicted)[:k]])
    return float(running.mean() / y.max())


def pairwise_accuracy(seconds: Times, predicted: Times) -> float:
    """Share of pairs i < j for which ``p_i > p_j`` and ``y_i > y_j`` agree (scores, not times)."""
    y, scores = labels(seconds), -predicted
    agree = pairs = 0
    for i in range(len(y) - 1):
        agree += int(((scores[i] > scores[i + 1 :]) == (y[i] > y[i + 1 :])).sum())
        pairs += len(y) - 1 - i
    if pairs == 0:
        raise CostModelError("one program makes no pair", hint="give two or more")
    return agree / pairs


def best_k(seconds: Times, predicted: Times, drafted: int, k: int = 1) -> float:
    """Pruner's best-k: time of the overall best / time of the k-th best program drafted.

    Drafted are the ``drafted`` programs of the smallest predicted time.  1.0 is perfect; 0 means
    that the k-th best program of the draft set failed.
    """
    y = labels(seconds)
    kept = np.sort(y[ranking(predicted)[:drafted]])[::-1]
    _check_k(k)
    if k > len(kept):
        raise CostModelError(f"best-{k} of a draft set of {len(kept)}", hint="draft more programs")
    return float(kept[k - 1])


def _check_k(k: int) -> None:
    if k < 1:
        raise CostModelError(f"a score of the first {k} programs", hint="k is at least 1")
