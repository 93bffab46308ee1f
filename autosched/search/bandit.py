"""A bandit over sketches: whose rows are worth scoring and measuring next."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from autosched.search.options import BanditOptions

Floats = NDArray[np.float64]


def sketch_shares(
    drafts: Floats, best: Floats, trials: NDArray[np.int64], options: BanditOptions | None = None
) -> Floats:
    """Share of each sketch, summing to 1.

    Args:
        drafts: [S] best draft seconds; infinite where unknown.
        best: [S] best measured seconds; infinite without a success.
        trials: [S] candidates measured.
        options: how greedy the shares are.
    """
    options = options or BanditOptions()
    known = (drafts.min() / drafts) ** options.draft_trust
    promise = np.where(np.isfinite(drafts), known, options.failed)
    if np.isfinite(best).any():
        yielded = np.where(np.isfinite(best), best.min() / best, options.failed)
        promise = np.where(trials > 0, yielded, promise)
    bonus = 1.0 + options.optimism * np.sqrt(np.log1p(trials.sum()) / (1.0 + trials))
    weight = (promise * bonus) ** options.sharpness
    return np.asarray(weight / weight.sum(), dtype=np.float64)


def allocate_rows(shares: Floats, total: int, least: int) -> NDArray[np.int64]:
    """[S]: rows per sketch, ``total`` in all; each sketch gets ``least`` or more, or none."""
    rows = np.zeros(len(shares), dtype=np.int64)
    active = np.argsort(-np.round(shares, 9), kind="stable")[: max(1, total // least)]
    while len(active) > 1:
        part = shares[active] / shares[active].sum() * total
        if part[-1] >= least:
            break
        active = active[:-1]
    part = shares[active] / shares[active].sum() * total
    rows[active] = np.floor(part).astype(np.int64)
    rows[active[0]] += total - rows.sum()
    return rows
