"""A trained model helps from the start, learns what it misses, and steps back where it is wrong."""

from __future__ import annotations

import functools
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from autosched.search.learner import Learner
from autosched.search.models import make_model, trained_model, usual_model
from costmodel.adapted import AdaptedModel
from costmodel.dataset import Dataset
from costmodel.errors import CostModelError
from costmodel.feature_table import FEATURE_COUNT, FEATURE_INDEX
from costmodel.features import Features
from costmodel.gbdt import GradientBoostedModel
from costmodel.gbdt_options import GbdtOptions
from costmodel.metrics import rank_correlation
from costmodel.shipped import SHIPPED
from sketch.target.gpu_targets import cuda_target
from tests.support.targets import AVX512

CPU = AVX512
_SMALL = GbdtOptions(trees=40, least_trees=40)
# What takes longer than the draft says: everywhere, and on one machine alone.
_EVERYWHERE, _HERE = FEATURE_INDEX["register_spill"], FEATURE_INDEX["tail_valid"]


def programs(
    count: int, seed: int, sign: float = 1.0, here: float = 0.0
) -> tuple[Features, NDArray[np.float64]]:
    values = (
        np.random.default_rng(seed).lognormal(size=(2, FEATURE_COUNT, count)).astype(np.float32)
    )
    drafts = values[:, FEATURE_INDEX["draft_seconds"]]
    drafts[:] = drafts**0.1  # the draft says little
    log = sign * 1.5 * (values[:, _EVERYWHERE] > 1) + here * (values[:, _HERE] > 1)
    return Features(values, ("a", "b")), (drafts * np.exp(log)).sum(axis=0, dtype=np.float64)


def dataset(tasks: int, count: int, sign: float = 1.0, here: float = 0.0) -> Dataset:
    made = Dataset()
    for task in range(tasks):
        made.append(f"task{task}", *programs(count, 100 + task, sign, here))
    return made


@functools.cache
def prior() -> GradientBoostedModel:
    model = GradientBoostedModel(GbdtOptions(trees=60))
    model.update(dataset(6, 60))
    return model


def rank(model: AdaptedModel | GradientBoostedModel, sign: float, here: float) -> float:
    features, seconds = programs(200, 7, sign, here)
    return rank_correlation(seconds, model.predict(features))


def test_it_ranks_before_anything_is_measured() -> None:
    model = AdaptedModel(prior(), _SMALL)
    assert model.ready and model.share == 1.0
    assert rank(model, 1.0, 0.0) > 0.8
    np.testing.assert_allclose(
        model.predict(programs(9, 3)[0]), prior().predict(programs(9, 3)[0]), rtol=1e-6
    )


def test_it_learns_what_the_prior_misses() -> None:
    model, alone = AdaptedModel(prior(), _SMALL), GradientBoostedModel(_SMALL)
    before = rank(model, 1.0, 0.8)
    measured = dataset(1, 24, here=0.8)
    model.update(measured)
    alone.update(measured)
    assert model.share == 1.0
    assert rank(model, 1.0, 0.8) > max(before, rank(alone, 1.0, 0.8))


def test_a_prior_that_ranks_badly_is_left_alone() -> None:
    model, alone = AdaptedModel(prior(), _SMALL), GradientBoostedModel(_SMALL)
    measured = dataset(2, 48, sign=-1.0)
    model.update(measured)
    alone.update(measured)
    assert model.share == 0.0 == model.head_start
    features, _ = programs(20, 3)
    np.testing.assert_array_equal(model.predict(features), alone.predict(features))


def test_later_programs_do_not_judge_the_prior() -> None:
    model = AdaptedModel(prior(), _SMALL)
    made = Dataset()
    made.append("task", *programs(64, 1))
    features, seconds = programs(200, 2, sign=-1.0)
    made.append("task", features, seconds)
    model.update(made)
    assert model.share == 1.0


def test_what_was_measured_first_judges_the_prior_in_any_order_of_the_data() -> None:
    model, made = AdaptedModel(prior(), _SMALL), Dataset()
    features, seconds = programs(200, 2, sign=-1.0)
    made.append("task", features, seconds, range(64, 264))  # a later sketch of a resumed log
    made.append("task", *programs(64, 1), range(64))
    model.update(made)
    assert model.share == 1.0


def test_it_corrects_the_draft_or_is_refused() -> None:
    with pytest.raises(CostModelError, match="on_draft is False"):
        AdaptedModel(prior(), GbdtOptions(on_draft=False))


def test_extra_features_are_for_its_own_trees() -> None:
    features, seconds = programs(60, 5)
    extra = np.concatenate([features.values, np.ones((2, 1, 60), np.float32)], axis=1)
    wide = Features(extra, features.statements, ("mine",))
    made = Dataset()
    made.append("task", wide, seconds)
    model = AdaptedModel(prior(), _SMALL)
    model.update(made)
    assert np.isfinite(model.predict(wide)).all()


def test_only_trained_models_are_adapted() -> None:
    with pytest.raises(CostModelError, match="not trained"):
        AdaptedModel(GradientBoostedModel())


def test_the_search_trusts_it_from_the_start() -> None:
    model = AdaptedModel(prior(), _SMALL)
    assert Learner(model).trust("task") > 0.7
    assert Learner(GradientBoostedModel()).trust("task") == 0.0
    model.update(dataset(2, 48, sign=-1.0))
    assert Learner(model).trust("task") == 0.0


def test_the_usual_model_is_the_shipped_one_where_there_is_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "shipped.json"
    monkeypatch.setattr("costmodel.shipped.SHIPPED", path)
    assert isinstance(usual_model(CPU), GradientBoostedModel)
    prior().save(path)
    for model in (usual_model(CPU, 3), trained_model(path, 3)):
        assert isinstance(model, AdaptedModel)
    assert isinstance(make_model("gbdt"), GradientBoostedModel)
    assert isinstance(usual_model(cuda_target("sm_90")), GradientBoostedModel)
    path.write_text(path.read_text().replace('"features": "', '"features": "0-'))
    with pytest.raises(CostModelError, match="features of version 0-"):
        usual_model(CPU)


def test_the_shipped_model_is_of_this_feature_table() -> None:
    if SHIPPED.exists():  # a release may come without one
        assert GradientBoostedModel.load(SHIPPED).ready
        assert SHIPPED.stat().st_size <= 3_000_000
