"""When to stop timing a candidate."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from statistics import median

from autosched.measure.options import MeasureOptions


def inner_runs(seconds: float, options: MeasureOptions) -> int:
    """Runs a sample is the mean of, so that it lasts ``options.min_sample_s``.

    One on cold caches: the second run of a sample would find them warm.
    """
    if options.state != "warm":
        return 1
    return max(1, math.ceil(options.min_sample_s / seconds))


def burst(
    run: Callable[[int], float],
    best_s: float,
    options: MeasureOptions,
    alone: Callable[[int], float] | None = None,
) -> tuple[float, ...]:
    """Samples of one candidate, in seconds per run, in the order taken.

    ``run(n)`` gives the mean seconds of n runs.  A candidate that is clearly slower than ``best_s``
    gets one or two samples, one whose rank is known after a few of them no more.  Short kernels run
    for ``options.warmup_s`` between the first two: a core that was waiting for a kernel takes some
    time to reach its speed again.

    Args:
        run: mean seconds of so many runs.
        best_s: fastest time so far.
        options: how many samples, and when to stop.
        alone: the same runs as ``run``, without what else it does; None: it does nothing else.
    """
    first = run(1)
    spent, limit = first, options.drop_first * best_s + options.wake_s
    if limit < first < limit + options.interruption_s:
        first = run(1)
        spent += first
    if first > limit:
        return (first,)
    while spent < options.warmup_s:
        spent += (alone or run)(1)
    runs = inner_runs(first, options)
    samples = [first, run(runs)]
    spent += samples[1] * runs
    if min(samples) > options.drop_second * best_s:
        return tuple(samples)
    runs = inner_runs(min(samples), options)
    while len(samples) < options.samples and spent < options.burst_s:
        if _tells_enough(samples, spent, best_s, options):
            break
        samples.append(run(runs))
        spent += samples[-1] * runs
    return tuple(samples)


def _tells_enough(
    samples: Sequence[float], spent: float, best_s: float, options: MeasureOptions
) -> bool:
    """Whether samples agree, were long, or say that a candidate is not among the best."""
    if len(samples) < options.few_samples:
        return False
    if spent >= options.enough_s:
        return True
    fastest = min(samples)
    return fastest > options.drop_late * best_s or median(samples) <= (1 + options.agreed) * fastest
