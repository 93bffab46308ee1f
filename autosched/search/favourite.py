"""What to run when nothing was measured: the draft narrows, the model of the release chooses."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final

import numpy as np

from autosched.search.space import Space
from autosched.tasks.candidate import Candidate
from costmodel.shipped import shipped_for

if TYPE_CHECKING:
    from pathlib import Path

    from costmodel.gbdt import GradientBoostedModel
    from sketch.target.target import Target

# Rows of each sketch that the draft likes best; behind them the model rarely finds a better one.
_ROWS: Final = 128
_FIRST: Final = 4  # candidates that a short run begins with


@dataclass(frozen=True, slots=True)
class Favourite:
    """The candidate that is thought to be the fastest, and its seconds: relative ones of a task."""

    candidate: Candidate
    seconds: float


def favourites(space: Space, target: Target) -> dict[str, Favourite]:
    """The favourite of each variant, by name.

    Seconds of variants can be compared with those of other spaces of the same task.
    """
    from costmodel.extract import features_of

    path = shipped_for(target)
    model = None if path is None else _model(path)
    found: dict[str, Favourite] = {}
    for sketch, rows, drafts in zip(space.sketches, space.samples, space.drafts, strict=True):
        best, seconds = 0, float(drafts[0])
        if model is not None:
            first = rows.take(np.arange(min(rows.count, _ROWS)))
            predicted = model.predict(features_of(first))
            best = int(np.argmin(predicted))
            seconds = float(predicted[best])
        known = found.get(sketch.variant)
        if known is None or seconds < known.seconds:
            found[sketch.variant] = Favourite(Candidate(sketch, rows.row(best)), seconds)
    return found


def ahead_of_reference(space: Space, target: Target, reference: str) -> tuple[Candidate, ...]:
    """The favourites of the variants that are thought to be faster than ``reference``, and its own.

    The fastest ones first, and four at most.
    """
    found = favourites(space, target)
    names = sorted(found, key=lambda name: found[name].seconds)
    place = names.index(reference) if reference in found else len(names)
    chosen = [*names[:place][: _FIRST - 1], *names[place : place + 1]]
    return tuple(found[name].candidate for name in chosen)


@lru_cache(1)
def _model(path: Path) -> GradientBoostedModel:
    """The trees of the release.  Raises CostModelError where the file is damaged."""
    from costmodel.gbdt import GradientBoostedModel

    return GradientBoostedModel.load(path)
