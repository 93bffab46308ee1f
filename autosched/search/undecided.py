"""Variants to be tried again: it is not yet known that their best is slower than that of others."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from autosched.search.options import BanditOptions


def undecided_variants(
    times: Mapping[str, Sequence[float]], trials: Mapping[str, int], options: BanditOptions
) -> list[str]:
    """Variants that should be tried again, those with the fewest trials first.

    A variant is tried until the interval of its best excludes the best of all, and until it
    has had ``variant_trials`` at most.  The interval is that of Robson and Whitlock (1964) for the
    end of a distribution: below the smallest of a sample by a multiple of its distance to the next,
    here of logarithms.

    Args:
        times: seconds of all successes, by variant.
        trials: candidates with a result, by variant; a variant without others is decided.
        options: ``variant_trials`` and ``variant_doubt``.
    """
    best = min((min(found) for found in times.values() if found), default=math.inf)
    most = options.variant_trials if len(trials) > 1 else 0
    found = [
        name
        for name, count in trials.items()
        if count < most and _may_win(times.get(name, ()), count, best, options.variant_doubt)
    ]
    return sorted(found, key=lambda name: trials[name])


def _may_win(times: Sequence[float], trials: int, best: float, doubt: float) -> bool:
    """``doubt``: chance that the best of the variant is really below the interval."""
    if len(times) < 2:
        return trials - len(times) < 2  # two failures and no more than one success
    first, second = sorted(times)[:2]
    reach = (1.0 - doubt) / doubt * math.log(second / first)
    return math.log(first) - reach < math.log(best)
