"""Any scikit-learn regressor as a cost model, on one fixed-width vector per program."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import RegressorMixin, clone
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from costmodel.dataset import Dataset, Table
from costmodel.errors import CostModelError
from costmodel.extra_feature import ExtraFeature, check_version, extra_names, feature_version
from costmodel.features import Features
from costmodel.model_file import write_model

_LEAST_PROGRAMS: Final = 8


def signed_log(values: NDArray[np.float32]) -> NDArray[np.float32]:
    """``sign(x) * log2(|x| + 1)``: features span many orders of magnitude."""
    return np.sign(values) * np.log2(np.abs(values) + 1.0)


def program_vectors(rows: NDArray[np.float32], offsets: NDArray[np.int64]) -> NDArray[np.float32]:
    """[N, 2 F]: signed logarithms of the sum and the maximum over a program's rows."""
    total = np.add.reduceat(rows, offsets[:-1], axis=0)
    peak = np.maximum.reduceat(rows, offsets[:-1], axis=0)
    return np.concatenate([signed_log(total), signed_log(peak)], axis=1)


class SklearnModel:
    """Predicts the log of the relative time with ``regressor`` (or a pipeline that ends in one).

    Raises:
        CostModelError: ``regressor`` cannot be cloned, so it is none of scikit-learn's; or, while
            tuning, it refuses the programs, as one that takes positive targets only does.
    """

    def __init__(self, regressor: RegressorMixin) -> None:
        try:
            self._template = clone(regressor)
        except TypeError as error:
            raise CostModelError(
                f"{type(regressor).__name__} is no regressor of scikit-learn: {error}",
                hint="derive it from sklearn.base.BaseEstimator, or implement CostModel",
            ) from error
        self._fitted: Any = None
        self._extra: tuple[str, ...] = ()

    @property
    def ready(self) -> bool:
        """Whether the regressor has been fitted."""
        return self._fitted is not None

    @property
    def extra_features(self) -> tuple[str, ...]:
        """Names of the extra features that it was trained with."""
        return self._extra

    def predict(self, features: Features) -> NDArray[np.float64]:
        """[P]: relative times; the draft model's before any data."""
        if self._fitted is None:
            return np.maximum(features.draft_seconds(), 1e-12)
        vectors = program_vectors(features.rows(), features.offsets())
        return np.exp(np.asarray(self._fitted.predict(vectors), dtype=np.float64))

    def update(self, dataset: Dataset) -> None:
        """Fit a fresh copy of the regressor to all programs.

        Raises:
            CostModelError: the regressor fails.
        """
        table: Table = dataset.table()
        if np.isfinite(table.seconds).sum() < _LEAST_PROGRAMS:
            return
        table = table.take(np.flatnonzero(table.comparable()))
        vectors = program_vectors(table.rows, table.offsets)
        self._extra = table.extra
        try:
            self._fitted = clone(self._template).fit(vectors, np.log(table.relative_times()))
        except (ArithmeticError, TypeError, ValueError) as error:
            raise CostModelError(
                f"the regressor cannot learn from {len(vectors)} programs: {error}",
                str(self._template),
                "choose another one, or other parameters",
            ) from error

    def save(self, path: Path) -> None:
        """Write the regressor with pickle, which scikit-learn has no other format than.

        Whoever can write to such a file decides what code runs when it is loaded.

        Raises:
            CostModelError: it cannot be written.
        """
        content = {
            "model": "sklearn", "features": feature_version(self._extra),
            "template": self._template, "fitted": self._fitted,
        }  # fmt: skip
        write_model(path, pickle.dumps(content))

    @classmethod
    def load(
        cls, path: Path, trusted: bool = False, extra_features: Sequence[ExtraFeature] = ()
    ) -> Self:
        """Read what ``save`` wrote.

        The file is a pickle: loading it can run any code that its author put there.

        Args:
            path: of the file.
            trusted: that you trust whoever wrote it as you do a program that you run.
            extra_features: those that it was trained with.

        Raises:
            CostModelError: ``trusted`` was not said, or the file does not fit: it may be of another
                release, or trained with other extra features.
        """
        if not trusted:
            raise CostModelError(
                "a model of scikit-learn is a pickle, and loading it can run any code", str(path),
                "give trusted=True if you trust its author; else train it again from the records",
            )  # fmt: skip
        try:
            content = pickle.loads(path.read_bytes())
            version, model = content["features"], cls(content["template"])
            model._fitted = content["fitted"]
        except Exception as error:  # a damaged pickle may raise anything
            raise CostModelError(
                f"not a saved model: {type(error).__name__}: {error}", str(path)
            ) from error
        model._extra = extra_names(extra_features)
        check_version(version, model._extra, str(path), "train it again from the records")
        return model


def random_forest(seed: int = 0) -> SklearnModel:
    """So few and shallow trees that they score thousands of programs a second."""
    return SklearnModel(RandomForestRegressor(50, max_depth=16, random_state=seed))


def ridge_regression() -> SklearnModel:
    """Linear in the program's vector: what a model without interactions can do."""
    return SklearnModel(make_pipeline(StandardScaler(), Ridge()))
