"""How candidates are scored that a model should learn from."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from costmodel.checked import checked_prediction, checked_ready
from costmodel.errors import ModelFaultError
from costmodel.extract import draft_seconds, features_of
from sketch.population.population import Population

if TYPE_CHECKING:
    from autosched.search.scorer import Floats
    from costmodel.model import CostModel


class HopefulScorer:
    """The more hopeful of two judges, the model and the draft.

    A search under it proposes what the model likes, which shows where the model is too optimistic,
    and what the draft likes much better than the model does, which is where one of them is wrong.
    Before the model has learned anything, and where it fails, the draft judges alone.
    """

    def __init__(self, model: CostModel) -> None:
        self._model = model

    def score(self, population: Population) -> Floats:
        """[P]: time-like; lower is better."""
        try:
            if population.count and checked_ready(self._model):
                return self._both(population)
        except ModelFaultError:
            pass
        return draft_seconds(population)

    def _both(self, population: Population) -> Floats:
        features = features_of(population)
        model = np.log(checked_prediction(self._model, features))
        difference = np.log(features.draft_seconds()) - model
        # The two are on scales of their own: what counts is where the draft is more hopeful than it
        # usually is among these programs.
        return np.asarray(np.exp(model + np.minimum(0.0, difference - np.median(difference))))
