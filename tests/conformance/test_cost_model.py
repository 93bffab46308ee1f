"""The cost models that are built in keep what every cost model promises."""

from __future__ import annotations

import functools
import pickle
from pathlib import Path

import numpy as np
import pytest

from autosched.testing import CostModelConformance
from autosched.testing.cost_model import synthetic
from costmodel.adapted import AdaptedModel
from costmodel.dataset import Dataset
from costmodel.errors import CostModelError
from costmodel.gbdt import GradientBoostedModel
from costmodel.gbdt_options import GbdtOptions
from costmodel.model import CostModel, DraftModel, RandomModel
from tests.support.lazily import lazily

adapter = lazily("costmodel.sklearn_model")
ensemble = lazily("sklearn.ensemble")
linear_model = lazily("sklearn.linear_model")
pipeline = lazily("sklearn.pipeline")
preprocessing = lazily("sklearn.preprocessing")


class TestRandomModel(CostModelConformance):
    by_features = False
    damage_shows = False  # a digit of its state is as good as another

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


class TestAdaptedModel(CostModelConformance):
    def make(self) -> CostModel:
        return AdaptedModel(_prior(), GbdtOptions(trees=20))


@functools.cache
def _prior() -> GradientBoostedModel:
    """Trained on other programs than those of the suite."""
    dataset = Dataset()
    features, times = synthetic(80, 2, 21)
    dataset.append("elsewhere", features, times)
    model = GradientBoostedModel(GbdtOptions(trees=20))
    model.update(dataset)
    return model


class PickledConformance(CostModelConformance):
    damages = 0  # a damaged pickle may be any program

    def load(self, path: Path) -> CostModel:
        return adapter.SklearnModel.load(path, trusted=True)

    def test_it_is_not_loaded_unless_it_is_trusted(self, tmp_path: Path) -> None:
        class Payload:
            def __reduce__(self):
                return (tmp_path.joinpath("ran").touch, ())

        (tmp_path / "model").write_bytes(pickle.dumps(Payload()))
        with pytest.raises(CostModelError, match=r"is a pickle.*trusted=True"):
            adapter.SklearnModel.load(tmp_path / "model")
        assert not (tmp_path / "ran").exists()


class TestRandomForest(PickledConformance):
    def make(self) -> CostModel:
        return adapter.SklearnModel(ensemble.RandomForestRegressor(10, random_state=0))


class TestSklearnModel(PickledConformance):
    def make(self) -> CostModel:
        scaled = pipeline.make_pipeline(preprocessing.StandardScaler(), linear_model.Ridge())
        return adapter.SklearnModel(scaled)

    def test_what_is_no_regressor_is_refused(self) -> None:
        with pytest.raises(CostModelError, match="object is no regressor of scikit-learn"):
            adapter.SklearnModel(object())

    def test_a_regressor_that_refuses_the_programs_is_named(self) -> None:
        with pytest.raises(CostModelError, match=r"learn from 120 programs: .*GammaRegressor"):
            adapter.SklearnModel(linear_model.GammaRegressor()).update(self.data())
