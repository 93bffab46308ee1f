"""Scoring populations: the cost model's view, or the draft model's as long as there is no data."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from sketch.population.population import Population

if TYPE_CHECKING:
    from autosched.search.task_process import TaskProcess
    from costmodel.errors import ModelFaultError
    from costmodel.extract.extra import ExtraColumns
    from costmodel.model import CostModel

Floats = NDArray[np.float64]


class Scorer(Protocol):
    """Ranks rows of one task, over all its sketches."""

    def score(self, population: Population) -> Floats:
        """[P]: positive, time-like; lower is better."""
        ...


class ModelScorer:
    """Geometric mean of the learned model and the draft model, and what the process says.

    Args:
        model: anybody's; what it predicts is checked.
        trust: gives the learned model's share, from 0 (the draft alone) to 1.
        on_fault: told what is wrong with the model; the draft then ranks alone.  By default it is
            an error.
        columns: adds the extra features that the model was trained with; None: there are none.
        draft: whether the draft model ranks; else it is 1 for every row.
        process: what the task's measured programs say; None: it is not asked.
        process_share: its part of the ranking, from 0 to 1.
    """

    def __init__(
        self,
        model: CostModel,
        trust: Callable[[], float],
        on_fault: Callable[[ModelFaultError], None] | None = None,
        columns: ExtraColumns | None = None,
        draft: bool = True,
        process: TaskProcess | None = None,
        process_share: float = 0.0,
    ) -> None:
        self._model, self._trust, self._on_fault = model, trust, on_fault
        self._columns, self._draft = columns, draft
        self._process, self._process_share = process, process_share
        # log(score / draft) of the last rows that the model ranked, in the middle: what the draft
        # ranks alone must compare with what both have ranked in the same round.
        self._shift = 0.0

    def score(self, population: Population) -> Floats:
        """[P]: time-like."""
        drafts, shifts = self._learned(population)
        near = None if self._process is None else self._process.errors(population)
        if near is not None:
            shifts = (1.0 - self._process_share) * shifts + self._process_share * near
        return np.asarray(np.exp(drafts + shifts))

    def _learned(self, population: Population) -> tuple[Floats, Floats]:
        """[P] each: logarithms of the draft, and of the model's part over it."""
        from costmodel.errors import ModelFaultError

        trust = self._trust()
        if trust > 0.0:
            try:
                return self._both(population, trust)
            except ModelFaultError as error:
                if self._on_fault is None:
                    raise
                self._on_fault(error)
        return self._drafts(population), np.full(population.count, self._shift)

    def _drafts(self, population: Population) -> Floats:
        """[P]: logarithms of what ranks alone where the model does not."""
        from costmodel.extract import draft_seconds

        return np.log(draft_seconds(population)) if self._draft else np.zeros(population.count)

    def _both(self, population: Population, trust: float) -> tuple[Floats, Floats]:
        from costmodel.checked import checked_prediction, checked_ready
        from costmodel.extract import features_of

        if not checked_ready(self._model):
            return self._drafts(population), np.zeros(population.count)
        extract = features_of if self._columns is None else self._columns.features_of
        features = extract(population)
        drafts = np.log(features.draft_seconds()) if self._draft else np.zeros(population.count)
        shifts = trust * (np.log(checked_prediction(self._model, features)) - drafts)
        if len(shifts):
            self._shift = float(np.median(shifts))
        return drafts, shifts


def rounded(scores: Floats) -> Floats:
    """Logarithms to five decimals: what ranks must not depend on the last bits of a sum."""
    return np.asarray(np.round(np.log(np.maximum(scores, 1e-30)), 5), dtype=np.float64)


def ranking(population: Population, scores: Floats) -> NDArray[np.intp]:
    """Indices, best first; equal scores in the order of the rows' hashes."""
    return np.lexsort((population.keys(), rounded(scores)))
