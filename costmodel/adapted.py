"""A model that was trained on a corpus, and trees that learn the rest from what a run measures."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any, Final, Self

import numpy as np
from numpy.typing import NDArray

from costmodel.dataset import Dataset, Table
from costmodel.errors import CostModelError
from costmodel.evaluation import predict
from costmodel.feature_table import FEATURE_COUNT
from costmodel.features import Features
from costmodel.gbdt import UNREADABLE, GradientBoostedModel
from costmodel.gbdt_options import GbdtOptions
from costmodel.metrics import rank_correlation
from costmodel.model_file import read_model, write_model

# The prior counts in full from this rank correlation with measured times on, and not at all where
# there is none.
_GOOD_RANK: Final = 0.5
_FIRST: Final = 64  # programs of a task that it is judged by: later ones were chosen by it
_FEWEST: Final = 8  # successes to judge it by
# A prior that ranks well is worth so many measured candidates of a task.
_WORTH: Final = 12.0
_STEPS: Final = 4  # of the share of the prior: trees are grown for one share of it


class AdaptedModel:
    """``own * (prior / draft) ** share``: the prior's correction of the draft, and our own on top.

    The share is 1 until something was measured.  It falls where the prior ranks the first measured
    programs of the tasks badly: on a machine unlike those that it was trained on, say.

    Args:
        prior: trained on a corpus, without extra features; it does not change.
        options: of the trees that are grown during a run; they correct the draft, too.

    Raises:
        CostModelError: the prior has not been trained, or with extra features, or trees are to
            predict without the draft.
    """

    def __init__(self, prior: GradientBoostedModel, options: GbdtOptions | None = None) -> None:
        if not prior.ready or prior.extra_features:
            raise CostModelError(
                "the model that is to be adapted was not trained, or with extra features",
                hint="give what `autosched costmodel train` wrote",
            )
        if options is not None and not options.on_draft:
            raise CostModelError(
                "a trained model corrects the draft, and on_draft is False",
                "GbdtOptions",
                "leave on_draft at True, or begin without a trained model",
            )
        self._prior = prior
        self._own = GradientBoostedModel(options)
        self._share = 1.0

    @property
    def ready(self) -> bool:
        """Always: the prior is."""
        return True

    @property
    def share(self) -> float:
        """Of the prior, from 0 to 1."""
        return self._share

    @property
    def head_start(self) -> float:
        """How many measured candidates of a task the prior is worth."""
        return _WORTH * self._share

    @property
    def process_share(self) -> float:
        """See ``GbdtOptions``."""
        return self._own.process_share

    def predict(self, features: Features) -> NDArray[np.float64]:
        """[P]: relative times, lower is better."""
        own = self._own.predict(features)
        if not self._share:
            return own
        return np.asarray(own * np.exp(self._share * _corrections(self._prior, features)))

    def contributions(self, features: Features) -> NDArray[np.float64]:
        """[P, F]: what each feature adds to the logarithm of the time, see the own trees' model."""
        added = self._own.contributions(features)
        added[:, :FEATURE_COUNT] += self._share * self._prior.contributions(_plain(features))
        return added

    def prepare(self) -> None:
        """That of the own trees."""
        self._own.prepare()

    def update(self, dataset: Dataset) -> None:
        """Judge the prior by the first programs of each task, and learn what it misses."""
        table = dataset.table()
        plain = dataset.plain()
        programs = np.arange(len(table.seconds))
        prior = np.log(predict(self._prior, plain, programs))
        share = _share(table, prior)
        if share != self._share:
            self._share, self._own = share, GradientBoostedModel(self._own.options)
        drafts = np.log(np.maximum(dataset.drafts(), 1e-30))
        self._own.update(dataset, self._share * (prior - drafts))

    def save(self, path: Path) -> None:
        """Write prior, own trees and share to one JSON file.

        Raises:
            CostModelError: it cannot be written.
        """
        content = {
            "model": "adapted", "share": self._share, "prior": self._prior.content(),
            "own": self._own.content(),
        }  # fmt: skip
        write_model(path, json.dumps({**content, "digest": _digest(content)}))

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read what ``save`` wrote: numbers and text, no code.

        Raises:
            CostModelError: the file is no such model, is damaged, or of another release.
        """
        try:
            content = json.loads(read_model(path))
            share, parts = float(content["share"]), (content["prior"], content["own"])
            if content.pop("digest") != _digest(content):
                raise ValueError("its content is not what was saved")
        except UNREADABLE as error:
            raise CostModelError(f"not a saved model: {error}", str(path)) from error
        prior, own = (GradientBoostedModel.of_content(part, str(path)) for part in parts)
        model = cls(prior)
        model._own, model._share = own, share
        return model


def _plain(features: Features) -> Features:
    """Without the extra ones, which the prior does not know."""
    return Features(features.values[:, :FEATURE_COUNT], features.statements)


def _corrections(model: GradientBoostedModel, features: Features) -> NDArray[np.float64]:
    """[P]: logarithm of what a model predicts over the draft."""
    return np.log(model.predict(_plain(features))) - np.log(
        np.maximum(features.draft_seconds(), 1e-30)
    )


def _share(table: Table, predicted: NDArray[np.float64]) -> float:
    """Of the prior, in a few steps: by its mean rank correlation with the first programs."""
    ranks, counts = [], []
    for group in np.unique(table.groups):
        first = table.first_trials(group, _FIRST)
        seconds = np.where(np.isnan(table.seconds[first]), np.inf, table.seconds[first])
        if np.isfinite(seconds).sum() >= _FEWEST:
            ranks.append(rank_correlation(seconds, predicted[first]))
            counts.append(len(first))
    if not ranks:
        return 1.0
    share = float(np.clip(np.average(ranks, weights=counts) / _GOOD_RANK, 0.0, 1.0))
    return round(share * _STEPS) / _STEPS


def _digest(content: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
