"""Scoring populations: the cost model's view, or the draft model's as long as there is no data."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from sketch.population import Population

if TYPE_CHECKING:
    from costmodel.model import CostModel

Floats = NDArray[np.float64]


class Scorer(Protocol):
    """Ranks rows of one task, over all its sketches."""

    def score(self, population: Population) -> Floats:
        """[P]: positive, time-like; lower is better."""
        ...


class ModelScorer:
    """Geometric mean of the learned model and the draft model.

    ``trust()`` is the learned model's share, from 0 (the draft alone) to 1.
    """

    def __init__(self, model: CostModel, trust: Callable[[], float]) -> None:
        self._model, self._trust = model, trust

    def score(self, population: Population) -> Floats:
        """[P]: time-like."""
        from costmodel.extract import draft_seconds, features_of

        trust = self._trust() if self._model.ready else 0.0
        if trust == 0.0:
            return draft_seconds(population)
        features = features_of(population)
        drafts = (1.0 - trust) * np.log(features.draft_seconds())
        return np.asarray(np.exp(drafts + trust * np.log(self._model.predict(features))))


def rounded(scores: Floats) -> Floats:
    """Logarithms to five decimals: what ranks must not depend on the last bits of a sum."""
    return np.asarray(np.round(np.log(np.maximum(scores, 1e-30)), 5), dtype=np.float64)


def ranking(population: Population, scores: Floats) -> NDArray[np.intp]:
    """Indices, best first; equal scores in the order of the rows' hashes."""
    return np.lexsort((population.keys(), rounded(scores)))
