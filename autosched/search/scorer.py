"""Scoring populations: the cost model's view, or the draft model's as long as there is no data."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from sketch.population import Population

if TYPE_CHECKING:
    from costmodel.features import Features
    from costmodel.model import CostModel

Floats = NDArray[np.float64]


class Scorer(Protocol):
    """Ranks rows of one task, over all its sketches."""

    def score(self, population: Population) -> Floats:
        """[P]: positive, time-like; lower is better."""
        ...


def features_of(population: Population) -> Features:
    """Features of all rows at once."""
    from costmodel.extract import extract
    from sketch.lower import lower

    sketch = population.sketch
    nest = lower(sketch, population.columns())
    return extract(nest, population.count, sketch.dag, sketch.target)


class ModelScorer:
    """Geometric mean of the learned model and the draft model.

    ``trust()`` is the learned model's share, from 0 (the draft alone) to 1.
    """

    def __init__(self, model: CostModel, trust: Callable[[], float]) -> None:
        self._model, self._trust = model, trust

    def score(self, population: Population) -> Floats:
        """[P]: time-like."""
        features = features_of(population)
        trust = self._trust() if self._model.ready else 0.0
        logs = np.zeros(population.count)
        if trust < 1.0:
            logs += (1.0 - trust) * np.log(features.draft_seconds())
        if trust > 0.0:
            logs += trust * np.log(self._model.predict(features))
        return np.exp(logs)


def rounded(scores: Floats) -> Floats:
    """Logarithms to five decimals: what ranks must not depend on the last bits of a sum."""
    return np.asarray(np.round(np.log(np.maximum(scores, 1e-30)), 5), dtype=np.float64)


def ranking(population: Population, scores: Floats) -> NDArray[np.intp]:
    """Indices, best first; equal scores in the order of the rows' hashes."""
    return np.lexsort((population.keys(), rounded(scores)))
