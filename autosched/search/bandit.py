"""A bandit over sketches: whose rows are worth scoring and measuring next."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

# A sketch at 80 % of the best speed gets 0.8**6 = 26 % of the best one's share.
_SHARPNESS: Final = 6.0
# Optimism about sketches with few trials: what more of them may still gain, as a share.
_OPTIMISM: Final = 0.35
# The draft model tells sketches apart only roughly: its ratios count with this power.
_DRAFT_TRUST: Final = 0.5
_FAILED: Final = 0.3


def sketch_shares(drafts: Floats, best: Floats, trials: NDArray[np.int64]) -> Floats:
    """Share of each sketch, summing to 1.

    Args:
        drafts: [S] best draft seconds; infinite where unknown.
        best: [S] best measured seconds; infinite without a success.
        trials: [S] candidates measured.
    """
    promise = np.where(np.isfinite(drafts), (drafts.min() / drafts) ** _DRAFT_TRUST, _FAILED)
    if np.isfinite(best).any():
        yielded = np.where(np.isfinite(best), best.min() / best, _FAILED)
        promise = np.where(trials > 0, yielded, promise)
    bonus = 1.0 + _OPTIMISM * np.sqrt(np.log1p(trials.sum()) / (1.0 + trials))
    weight = (promise * bonus) ** _SHARPNESS
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
