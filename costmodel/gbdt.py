"""The learned model: gradient-boosted trees on statements (LightGBM).

    time(program) = sum over its statements of base(x) * exp(f(x))

``base`` is the draft model's time of the statement, so that the trees learn what the draft gets
wrong, and every program starts where the draft puts it.  The loss is the squared error of the log
time, weighted in favour of fast programs, *after the mean error of a task is taken off*: only the
ranking within a task counts, so the trees need not learn how large the tasks are.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

import numpy as np
from numpy.typing import NDArray

from costmodel.dataset import Dataset, Table
from costmodel.errors import CostModelError
from costmodel.extra_feature import ExtraFeature, check_version, extra_names, feature_version
from costmodel.feature_table import FEATURE_INDEX
from costmodel.features import Features
from costmodel.forest import Forest
from costmodel.gbdt_options import GbdtOptions
from costmodel.lightgbm_alone import load_lightgbm
from costmodel.model_file import read_model, write_model

if TYPE_CHECKING:
    import lightgbm

_DRAFT = FEATURE_INDEX["draft_seconds"]
UNREADABLE: Final = (OSError, ValueError, LookupError, TypeError, RecursionError)
_SHORTEST_S = 1e-12  # keeps the logarithm of an empty statement's draft finite


@dataclass(frozen=True, slots=True, eq=False)
class _Objective:
    """Gradients for LightGBM; arrays by program unless noted.

    With shares ``s_i = time_i / time`` of a program's statements and the residual ``r`` of its log
    time, the gradient of a statement is ``2 w r s_i``.  The second derivative ``2 w s_i**2`` would
    let statements of small share take enormous steps; ``2 w s_i`` bounds it (the shares sum to
    one, Jensen) and gives every statement the same step r.
    """

    starts: NDArray[np.int64]
    program: NDArray[np.int64]  # [rows]
    base: NDArray[np.float64]  # [rows], log of the draft, and what is known to be added to it
    groups: NDArray[np.int64]
    target: NDArray[np.float64]  # log of the relative time
    weight: NDArray[np.float64]

    @staticmethod
    def of(
        table: Table, options: GbdtOptions, offsets: NDArray[np.float64] | None = None
    ) -> _Objective:
        relative = table.relative_times()
        base = _log_base(table.rows[:, _DRAFT], options)
        if offsets is not None:
            base = base + offsets[table.program_of_row()]
        return _Objective(
            starts=table.offsets[:-1],
            program=table.program_of_row(),
            base=base,
            groups=table.groups,
            target=np.log(relative),
            weight=relative**-options.weight_power,
        )

    def __call__(
        self, prediction: NDArray[np.float64], data: lightgbm.Dataset
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        scores = self.base + prediction
        peak = np.maximum.reduceat(scores, self.starts)
        parts = np.exp(scores - peak[self.program])
        totals = np.add.reduceat(parts, self.starts)
        residual = np.log(totals) + peak - self.target
        scale = 2.0 * self.weight[self.program] * parts / totals[self.program]
        return self.centred(residual)[self.program] * scale, scale

    def centred(self, residual: NDArray[np.float64]) -> NDArray[np.float64]:
        """Residuals minus their weighted mean in the task."""
        mass = np.bincount(self.groups, self.weight)
        mean = np.bincount(self.groups, self.weight * residual) / np.maximum(mass, 1e-300)
        return residual - mean[self.groups]


def _log_base(drafts: NDArray[np.float32], options: GbdtOptions) -> NDArray[np.float64]:
    """Logarithm of what the trees correct, in the shape of ``drafts``."""
    if not options.on_draft:
        return np.zeros(drafts.shape)
    return np.log(np.maximum(drafts.astype(np.float64), _SHORTEST_S))


class GradientBoostedModel:
    """Trees on statements; before any data it follows the draft model."""

    def __init__(self, options: GbdtOptions | None = None) -> None:
        self.options = options or GbdtOptions()
        self._booster: lightgbm.Booster | None = None
        self._forest: Forest | None = None
        self._extra: tuple[str, ...] = ()

    def __getstate__(self) -> dict[str, Any]:
        """For pickles, which would look for LightGBM's class where only others find it."""
        return {**self.__dict__, "_booster": self._booster and self._booster.model_to_string()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        text = state["_booster"]
        self.__dict__.update(state)
        self._booster = text and load_lightgbm().Booster(model_str=text)

    @property
    def ready(self) -> bool:
        """Whether the model has been trained."""
        return self._booster is not None

    @property
    def process_share(self) -> float:
        """See ``GbdtOptions``."""
        return self.options.process_share

    @property
    def extra_features(self) -> tuple[str, ...]:
        """Names of the extra features that it was trained with."""
        return self._extra

    @property
    def trees(self) -> int:
        """Trees so far."""
        return 0 if self._booster is None else int(self._booster.num_trees())

    def contributions(self, features: Features) -> NDArray[np.float64]:
        """[P, F]: what each feature adds to the logarithm of the time, as the trees have it.

        SHAP values of the statements, each by its share of the predicted time; 0 before any data.
        """
        if self._booster is None:
            return np.zeros((features.count, features.values.shape[1]))
        rows = self._booster.predict(features.rows(), pred_contrib=True, num_threads=1)
        values = np.asarray(rows, dtype=np.float64)[:, :-1]  # the last one is the mean of all
        values = values.reshape(features.count, len(features.statements), -1)
        times = np.exp(_log_base(features.values[:, _DRAFT], self.options).T)
        times = times * np.exp(self._corrections(features))
        shares = times / times.sum(axis=1, keepdims=True)
        return np.asarray((shares[:, :, None] * values).sum(axis=1))

    def predict(self, features: Features) -> NDArray[np.float64]:
        """[P]: relative times, lower is better."""
        scores = np.ascontiguousarray(_log_base(features.values[:, _DRAFT], self.options).T)
        scores += self._corrections(features)
        return np.exp(scores).sum(axis=1)

    def _corrections(self, features: Features) -> NDArray[np.float64] | float:
        """[P, S]: what the trees add."""
        if self._booster is None:
            return 0.0
        sums = None if self._forest is None else self._forest.scores(features.values)
        if sums is None:  # values or trees that LightGBM alone knows about
            rows = self._booster.predict(features.rows(), raw_score=True, num_threads=1)
            return np.asarray(rows, dtype=np.float64).reshape(features.count, -1)
        return sums.T

    def prepare(self) -> None:
        """Load LightGBM, which takes a part of a second."""
        load_lightgbm()

    def update(self, dataset: Dataset, offsets: NDArray[np.float64] | None = None) -> None:
        """Train on all programs: from scratch while there are few, else some more trees.

        A dataset with fewer than ``least_programs`` successes changes nothing.  Tasks without any
        teach nothing.

        ``offsets``: [N] what whoever uses the predictions adds to their logarithms; None: nothing.
        """
        table, options = dataset.table(), self.options
        if np.isfinite(table.seconds).sum() < options.least_programs:
            return
        lightgbm = load_lightgbm()
        chosen = np.flatnonzero(table.comparable())
        programs = len(chosen)
        if programs > options.most_programs:
            chosen = chosen[table.take(chosen).recent(options.most_programs)]
        if len(chosen) < len(table.seconds):
            table = table.take(chosen)
            offsets = None if offsets is None else offsets[chosen]
        objective = _Objective.of(table, options, offsets)
        parameters = {**options.parameters(), "objective": objective}
        scratch = self._starts_over(programs) or table.extra != self._extra
        data = lightgbm.Dataset(table.rows, params=options.parameters(), free_raw_data=False)
        self._booster = lightgbm.train(
            parameters,
            data,
            num_boost_round=options.scratch_trees(programs) if scratch else options.more_trees,
            init_model=None if scratch else self._booster,
        )
        self._forest = Forest.of(self._booster.model_to_string())
        self._extra = table.extra

    def _starts_over(self, programs: int) -> bool:
        full = self.trees + self.options.more_trees > self.options.tree_limit
        return self.trees == 0 or full or programs < self.options.scratch_programs

    def content(self) -> dict[str, Any]:
        """Options and trees as JSON values; the trees in LightGBM's own text format."""
        text = None if self._booster is None else self._booster.model_to_string()
        return {
            "model": "gbdt", "features": feature_version(self._extra),
            "options": asdict(self.options), "trees": text, "digest": _digest(text),
        }  # fmt: skip

    @classmethod
    def of_content(
        cls, content: Any, where: str, extra_features: Sequence[ExtraFeature] = ()
    ) -> Self:
        """The inverse of ``content``.

        Args:
            content: JSON values.
            where: they come from, for messages.
            extra_features: those that it was trained with.

        Raises:
            CostModelError: it is no such model, is damaged, of another release, or trained with
                other extra features.
        """
        try:
            version, text = content["features"], content["trees"]
            model = cls(GbdtOptions(**content["options"]))
            if content["digest"] != _digest(text):
                raise ValueError("its trees are not those that were saved")
        except (*UNREADABLE, CostModelError) as error:
            raise CostModelError(f"not a saved model: {error}", where) from error
        model._extra = extra_names(extra_features)
        check_version(version, model._extra, where, "train it again from the records")
        if text is not None:
            lightgbm = load_lightgbm()
            try:
                model._booster = lightgbm.Booster(model_str=text)
                model._forest = Forest.of(text)
            except (lightgbm.basic.LightGBMError, *UNREADABLE) as error:
                raise CostModelError(f"not a saved model: {error}", where) from error
        return model

    def save(self, path: Path) -> None:
        """Write options and trees to one JSON file.

        Raises:
            CostModelError: it cannot be written.
        """
        write_model(path, json.dumps(self.content()))

    @classmethod
    def load(cls, path: Path, extra_features: Sequence[ExtraFeature] = ()) -> Self:
        """Read what ``save`` wrote: numbers and text, no code.

        Args:
            path: of the file.
            extra_features: those that it was trained with.

        Raises:
            CostModelError: the file is no such model, is damaged, of another release, or trained
                with other extra features.
        """
        try:
            content = json.loads(read_model(path))
        except UNREADABLE as error:
            raise CostModelError(f"not a saved model: {error}", str(path)) from error
        return cls.of_content(content, str(path), extra_features)


def _digest(trees: str | None) -> str:
    """Of the trees' text: LightGBM's parser does not expect damage."""
    if trees is not None and not isinstance(trees, str):
        raise TypeError("the trees are no text")
    return hashlib.sha256((trees or "").encode()).hexdigest()
