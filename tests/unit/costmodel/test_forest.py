"""The trees as tables give LightGBM's own sums, to the last bit."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from costmodel.dataset import Dataset
from costmodel.features import Features
from costmodel.forest import Forest
from costmodel.gbdt import UNREADABLE, GradientBoostedModel
from costmodel.gbdt_options import GbdtOptions
from costmodel.lightgbm_alone import load_lightgbm

if TYPE_CHECKING:
    import lightgbm

OPTIONS = GbdtOptions(trees=12, least_trees=12)
TREE = "\nTree=0\nnum_leaves={}\nleaf_value={}\n"


@pytest.fixture(scope="module")
def train(conv_features: tuple[Features, ...]) -> Dataset:
    dataset, rng = Dataset(), np.random.default_rng(0)
    for features in conv_features:
        seconds = features.draft_seconds() * rng.lognormal(0.0, 0.5, features.count)
        dataset.append("task", features, seconds)
    return dataset


def trained(train: Dataset, options: GbdtOptions, updates: int = 1) -> GradientBoostedModel:
    model = GradientBoostedModel(options)
    for _ in range(updates):
        model.update(train)
    return model


def summed_by_lightgbm(model: GradientBoostedModel, features: Features) -> np.ndarray:
    assert model._booster is not None
    sums = model._booster.predict(features.rows(), raw_score=True, num_threads=1)
    return np.asarray(sums).reshape(features.count, -1).T


@pytest.mark.parametrize("leaves", [2, 5, 16])
def test_sums_are_lightgbms(
    leaves: int, train: Dataset, conv_features: tuple[Features, ...]
) -> None:
    model = trained(train, replace(OPTIONS, leaves=leaves))
    forest = model._forest
    assert forest is not None
    for features in conv_features:
        sums = forest.scores(features.values)
        assert sums is not None
        assert np.ptp(sums) > 0
        np.testing.assert_array_equal(sums, summed_by_lightgbm(model, features))


def test_a_statement_alone_has_the_sum_that_it_has_among_others(
    train: Dataset, conv_features: tuple[Features, ...]
) -> None:
    forest = trained(train, OPTIONS)._forest
    assert forest is not None
    values = conv_features[0].values[:1]
    together = forest.scores(values)
    assert together is not None
    alone = [forest.scores(values[:, :, n : n + 1]) for n in range(values.shape[2])]
    np.testing.assert_array_equal(np.concatenate(alone, axis=1), together)


def test_trees_that_were_added_count(train: Dataset, conv_features: tuple[Features, ...]) -> None:
    model = trained(train, replace(OPTIONS, scratch_programs=1, more_trees=5), updates=2)
    forest = model._forest
    assert forest is not None
    assert model.trees == len(forest.values) // 16 == 17
    sums = forest.scores(conv_features[0].values)
    np.testing.assert_array_equal(sums, summed_by_lightgbm(model, conv_features[0]))


def test_larger_trees_are_left_to_lightgbm(
    train: Dataset, conv_features: tuple[Features, ...]
) -> None:
    model = trained(train, replace(OPTIONS, leaves=17))
    assert model._forest is None
    features = conv_features[0]
    sums = summed_by_lightgbm(model, features)
    base = np.log(features.column("draft_seconds").astype(np.float64))
    np.testing.assert_allclose(model.predict(features), np.exp(base + sums).sum(axis=0))


def test_missing_values_are_left_to_lightgbm(
    train: Dataset, conv_features: tuple[Features, ...]
) -> None:
    model = trained(train, OPTIONS)
    forest = model._forest
    assert forest is not None
    values = conv_features[0].values.copy()
    values[0, forest.features[0], 3] = np.nan
    features = replace(conv_features[0], values=values)
    assert forest.scores(values) is None
    sums = summed_by_lightgbm(model, features)
    base = np.log(features.column("draft_seconds").astype(np.float64))
    np.testing.assert_allclose(model.predict(features), np.exp(base + sums).sum(axis=0))


def test_values_at_a_limit() -> None:
    """A float64 limit between two float32 parts them; one that is a float32 holds for itself."""
    between, exact = 0.1, 0.5
    text = "num_tree_per_iteration=1\n\nTree=0\nnum_leaves=3\nsplit_feature=0 0\n" + (
        f"threshold={exact} {between}\ndecision_type=2 2\nleft_child=1 -1\nright_child=-3 -2\n"
        "leaf_value=1 2 4\n"
    )
    forest = Forest.of(text)
    assert forest is not None
    above = np.float32(between)  # rounds up
    assert float(above) > between
    row = [np.nextafter(above, np.float32(0)), above, exact, np.nextafter(np.float32(exact), 1)]
    sums = forest.scores(np.array([[row]], dtype=np.float32))
    np.testing.assert_array_equal(sums, [[1.0, 2.0, 2.0, 4.0]])


def test_trees_without_conditions() -> None:
    assert Forest.of(TREE.format(1, "0.5")) is None
    assert Forest.of("no trees") is None


def boosted(rows: np.ndarray, **parameters: Any) -> lightgbm.Booster:
    """Five trees of four leaves, of random targets."""
    module = load_lightgbm()
    options = {"num_leaves": 4, "min_data_in_leaf": 1, "verbosity": -1, "num_threads": 1}
    targets = np.arange(len(rows)) % 3
    data = module.Dataset(rows, targets, params={**options, **parameters})
    return module.train({**options, **parameters}, data, num_boost_round=5)


ROWS = np.random.default_rng(0).integers(-2, 3, (60, 2)).astype(np.float32)


def test_numbers_next_to_zero_are_zero_as_for_lightgbm() -> None:
    booster = boosted(ROWS)
    forest = Forest.of(booster.model_to_string())
    assert forest is not None
    least = np.float32(1e-35)
    near = [least, np.nextafter(least, 1), np.nextafter(least, 0), np.float32(1e-45), 0.0]
    values = np.array([*near, *np.negative(near)], np.float32)
    pairs = np.stack(np.meshgrid(values, values)).reshape(1, 2, -1)
    sums = forest.scores(pairs)
    np.testing.assert_array_equal(sums, [booster.predict(pairs[0].T, num_threads=1)])


def test_no_programs_have_no_sums() -> None:
    forest = Forest.of(boosted(ROWS).model_to_string())
    assert forest is not None
    sums = forest.scores(np.zeros((3, 2, 0), np.float32))
    assert sums is not None
    assert sums.shape == (3, 0)


OTHERS: dict[str, dict[str, Any]] = {
    "linear leaves": {"linear_tree": True},
    "an average": {"boosting": "rf", "bagging_freq": 1, "bagging_fraction": 0.5},
    "several classes": {"objective": "multiclass", "num_class": 3},
}


@pytest.mark.parametrize("name", OTHERS)
def test_scores_that_are_no_sums_are_left_to_lightgbm(name: str) -> None:
    assert Forest.of(boosted(ROWS, **OTHERS[name]).model_to_string()) is None


@pytest.mark.parametrize(
    ("line", "other"),
    [("left_child=", "left_child=9 9 9"), ("leaf_value=", "leaf_value=1"), ("leaf_value=", "")],
)
def test_damaged_trees_are_refused(line: str, other: str) -> None:
    text = boosted(ROWS).model_to_string()
    damaged = "\n".join(other if part.startswith(line) else part for part in text.split("\n"))
    with pytest.raises(UNREADABLE):
        Forest.of(damaged)
