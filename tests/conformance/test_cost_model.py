"""What every cost model must do, whatever it learns."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import GammaRegressor, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from costmodel.dataset import Dataset
from costmodel.errors import CostModelError
from costmodel.feature_table import FEATURE_COUNT, FEATURE_INDEX
from costmodel.features import Features
from costmodel.gbdt import GbdtOptions, GradientBoostedModel
from costmodel.model import CostModel, DraftModel, RandomModel
from costmodel.sklearn_model import SklearnModel


def synthetic(programs: int, statements: int, seed: int) -> tuple[Features, np.ndarray]:
    """Programs whose time is the draft's, distorted by two other features."""
    rng = np.random.default_rng(seed)
    values = rng.lognormal(size=(statements, FEATURE_COUNT, programs)).astype(np.float32)
    draft = values[:, FEATURE_INDEX["draft_seconds"]]
    spill = values[:, FEATURE_INDEX["register_spill"]]
    tail = values[:, FEATURE_INDEX["tail_valid"]]
    times = (draft * (1 + 3 * (spill > 1)) / np.minimum(tail, 2)).sum(axis=0, dtype=np.float64)
    return Features(values, tuple(f"s{i}" for i in range(statements))), times


class CostModelConformance:
    """Subclasses make a fresh, untrained model."""

    def make(self) -> CostModel:
        raise AssertionError("a subclass makes the model")

    def trained(self) -> CostModel:
        model = self.make()
        model.update(self.data())
        return model

    def data(self) -> Dataset:
        dataset = Dataset()
        for seed, statements in enumerate((1, 3)):
            features, times = synthetic(60, statements, seed)
            dataset.append(f"task{seed}", features, [*times[:-2], None, None])
        return dataset

    def test_is_a_cost_model(self) -> None:
        assert isinstance(self.make(), CostModel)

    def test_predictions_are_positive_times(self) -> None:
        for model in (self.make(), self.trained()):
            for statements in (1, 2):
                predicted = model.predict(synthetic(17, statements, 9)[0])
                assert predicted.shape == (17,) and predicted.dtype == np.float64
                assert np.isfinite(predicted).all() and (predicted > 0).all()

    def test_is_ready_after_an_update(self) -> None:
        assert self.trained().ready

    def test_no_or_few_data_are_no_error(self) -> None:
        model = self.make()
        model.update(Dataset())
        few = Dataset()
        features, times = synthetic(2, 1, 4)
        few.append("a", features, times)
        failed = Dataset()
        failed.append("a", features, [None, None])
        model.update(few)
        model.update(failed)
        assert model.predict(features).shape == (2,)

    def test_updates_can_follow_each_other(self) -> None:
        model, dataset = self.trained(), self.data()
        features, times = synthetic(30, 2, 11)
        dataset.append("task2", features, times)
        model.update(dataset)
        assert np.isfinite(model.predict(features)).all()

    def test_saving_keeps_predictions(self, tmp_path: Path) -> None:
        features, _ = synthetic(20, 2, 12)
        for model in (self.make(), self.trained()):
            model.save(tmp_path / "model")
            loaded = type(model).load(tmp_path / "model")
            assert loaded.ready == model.ready
            np.testing.assert_array_equal(loaded.predict(features), model.predict(features))

    def test_wrong_files_are_errors(self, tmp_path: Path) -> None:
        path = tmp_path / "model"
        path.write_text("nonsense")
        with pytest.raises(CostModelError):
            type(self.make()).load(path)
        with pytest.raises(CostModelError):
            type(self.make()).load(tmp_path / "missing")

    def test_the_same_data_give_the_same_predictions(self) -> None:
        features, _ = synthetic(20, 2, 12)
        a, b = (self.trained().predict(features) for _ in range(2))
        np.testing.assert_array_equal(a, b)


class TestRandomModel(CostModelConformance):
    def make(self) -> CostModel:
        return RandomModel(np.random.default_rng(1))


class TestDraftModel(CostModelConformance):
    def make(self) -> CostModel:
        return DraftModel()

    def test_predicts_what_the_draft_says(self) -> None:
        features, _ = synthetic(9, 2, 1)
        np.testing.assert_array_equal(self.make().predict(features), features.draft_seconds())


class TestGradientBoostedModel(CostModelConformance):
    def make(self) -> CostModel:
        return GradientBoostedModel(GbdtOptions(trees=20))


class TestRandomForest(CostModelConformance):
    def make(self) -> CostModel:
        return SklearnModel(RandomForestRegressor(10, random_state=0))


class TestSklearnModel(CostModelConformance):
    def make(self) -> CostModel:
        return SklearnModel(make_pipeline(StandardScaler(), Ridge()))

    def test_what_is_no_regressor_is_refused(self) -> None:
        with pytest.raises(CostModelError, match="object is no regressor of scikit-learn"):
            SklearnModel(object())

    def test_a_regressor_that_refuses_the_programs_is_named(self) -> None:
        with pytest.raises(CostModelError, match=r"learn from 120 programs: .*GammaRegressor"):
            SklearnModel(GammaRegressor()).update(self.data())
