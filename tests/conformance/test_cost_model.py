"""What every cost model must do, whatever it learns."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import GammaRegressor, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from costmodel.checked import checked_prediction, checked_ready, checked_update
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

    damages = 40
    deterministic = True

    def make(self) -> CostModel:
        raise AssertionError("a subclass makes the model")

    def load(self, path: Path) -> CostModel:
        return type(self.make()).load(path)

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
            loaded = self.load(tmp_path / "model")
            assert loaded.ready == model.ready
            np.testing.assert_array_equal(loaded.predict(features), model.predict(features))

    def test_wrong_files_are_errors(self, tmp_path: Path) -> None:
        path = tmp_path / "model"
        for text in ("nonsense", "[" * 100_000, "{}", "[]", "null", '{"model": 1, "state": {}}'):
            path.write_text(text)
            with pytest.raises(CostModelError):
                self.load(path)
        with pytest.raises(CostModelError):
            self.load(tmp_path / "missing")

    def test_damaged_files_are_errors_or_the_same_model(self, tmp_path: Path) -> None:
        features, _ = synthetic(7, 1, 3)
        model, path = self.trained(), tmp_path / "model"
        model.save(path)
        written, rng = path.read_bytes(), np.random.default_rng(0)
        expected = self.load(path).predict(features)
        for _ in range(self.damages):
            damaged = bytearray(written)
            damaged[rng.integers(len(damaged))] ^= 1 << rng.integers(8)
            path.write_bytes(damaged[: rng.choice([len(damaged), rng.integers(len(damaged))])])
            try:
                found = self.load(path).predict(features)
            except CostModelError:
                continue
            if self.deterministic:
                np.testing.assert_array_equal(found, expected)

    def test_what_it_predicts_passes_the_check(self) -> None:
        for model in (self.make(), self.trained()):
            assert checked_ready(model) in (True, False)
            for programs in (1, 5):
                features, _ = synthetic(programs, 2, 6)
                assert checked_prediction(model, features).shape == (programs,)
        checked_update(self.make(), self.data())

    def test_the_same_data_give_the_same_predictions(self) -> None:
        features, _ = synthetic(20, 2, 12)
        a, b = (self.trained().predict(features) for _ in range(2))
        np.testing.assert_array_equal(a, b)


class TestRandomModel(CostModelConformance):
    deterministic = False  # a digit of its state is as good as another

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


class PickledConformance(CostModelConformance):
    damages = 0  # a damaged pickle may be any program

    def load(self, path: Path) -> CostModel:
        return SklearnModel.load(path, trusted=True)

    def test_it_is_not_loaded_unless_it_is_trusted(self, tmp_path: Path) -> None:
        class Payload:
            def __reduce__(self):
                return (tmp_path.joinpath("ran").touch, ())

        (tmp_path / "model").write_bytes(pickle.dumps(Payload()))
        with pytest.raises(CostModelError, match=r"is a pickle.*trusted=True"):
            SklearnModel.load(tmp_path / "model")
        assert not (tmp_path / "ran").exists()


class TestRandomForest(PickledConformance):
    def make(self) -> CostModel:
        return SklearnModel(RandomForestRegressor(10, random_state=0))


class TestSklearnModel(PickledConformance):
    def make(self) -> CostModel:
        return SklearnModel(make_pipeline(StandardScaler(), Ridge()))

    def test_what_is_no_regressor_is_refused(self) -> None:
        with pytest.raises(CostModelError, match="object is no regressor of scikit-learn"):
            SklearnModel(object())

    def test_a_regressor_that_refuses_the_programs_is_named(self) -> None:
        with pytest.raises(CostModelError, match=r"learn from 120 programs: .*GammaRegressor"):
            SklearnModel(GammaRegressor()).update(self.data())
