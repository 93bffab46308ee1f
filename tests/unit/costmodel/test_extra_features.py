"""Extra features: columns of a user's functions, in features, datasets, models and files."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from autosched.task import Task
from costmodel.dataset import Dataset
from costmodel.errors import CostModelError
from costmodel.extra_feature import ExtraFeature, extra_names, feature_version
from costmodel.extract import features_of
from costmodel.extract.extra import ExtraColumns
from costmodel.extract.statement import Statement
from costmodel.feature_table import FEATURE_COUNT, FEATURE_VERSION
from costmodel.gbdt import GradientBoostedModel
from costmodel.gbdt_options import GbdtOptions
from sketch.population.population import Population, sample
from tests.support.lazily import lazily
from tests.support.targets import SMALL
from tests.support.workloads import conv2d_relu

SKETCH = Task(conv2d_relu(), SMALL).sketches[0]

adapter = lazily("costmodel.sklearn_model")
linear_model = lazily("sklearn.linear_model")


def drawn(count: int, seed: int = 0) -> Population:
    return sample(SKETCH, count, np.random.default_rng(seed))


def trips(statement: Statement) -> Any:
    return math.prod(loop.extent for loop in statement.main.loops)


def vectors(statement: Statement) -> Any:
    return len(statement.main.vectors)


TRIPS, VECTORS = ExtraFeature("trips_of_all", trips), ExtraFeature("vector_depth", vectors)


def test_columns_follow_those_of_the_table() -> None:
    rows = drawn(40)
    features, plain = ExtraColumns((TRIPS, VECTORS)).features_of(rows), features_of(rows)
    assert features.names[FEATURE_COUNT:] == features.extra == ("trips_of_all", "vector_depth")
    assert np.array_equal(features.values[:, :FEATURE_COUNT], plain.values)
    assert np.array_equal(features.column("trips_of_all"), features.column("trips"))
    assert (features.column("trips").std(axis=1) > 0).any()
    assert features.rows().shape == (40 * len(features.statements), FEATURE_COUNT + 2)
    assert features.take(np.array([3])).column("vector_depth").shape == (len(plain.statements), 1)
    assert ExtraColumns().features_of(rows).extra == ()


@pytest.mark.parametrize(
    ("function", "message"),
    [(lambda _: 1 / 0, "raised ZeroDivisionError"), (lambda _: np.nan, "not finite"),
     (lambda _: np.ones(3), r"shape \(3,\) for 8 programs"), (lambda _: "x", "array of <U1"),
     (lambda _: np.full(8, 1e300), "not finite"), (lambda _: None, "array of object")],
)  # fmt: skip
def test_a_function_that_fails_is_named_once_and_gives_0(function: Any, message: str) -> None:
    told: list[tuple[str, str]] = []
    columns = ExtraColumns(
        (TRIPS, ExtraFeature("wrong", function)), lambda name, text: told.append((name, text))
    )
    for _ in range(2):
        features = columns.features_of(drawn(8))
        assert not features.column("wrong").any() and features.column("trips_of_all").all()
    ((name, text),) = told
    assert name == "wrong" and "extra feature wrong, statement " in text
    with pytest.raises(CostModelError, match=message):
        raise CostModelError(text)


def test_names_are_checked() -> None:
    for name in ("two words", "", "draft_seconds", 3):
        with pytest.raises(CostModelError, match=r"feature"):
            ExtraFeature(name, trips)  # type: ignore[arg-type]
    with pytest.raises(CostModelError, match="no function"):
        ExtraFeature("depth", 3)  # type: ignore[arg-type]
    with pytest.raises(CostModelError, match="two extra features are called 'trips_of_all'"):
        extra_names((TRIPS, VECTORS, TRIPS))
    with pytest.raises(CostModelError, match="no extra feature"):
        extra_names((trips,))  # type: ignore[arg-type]


def recorded(*features: ExtraFeature) -> Dataset:
    dataset, found = Dataset(), ExtraColumns(features).features_of(drawn(30))
    dataset.append("a", found, found.draft_seconds() * (1 + found.column("trips").max(axis=0) % 7))
    return dataset


def test_datasets_keep_the_columns_and_their_names(tmp_path: Path) -> None:
    dataset = recorded(TRIPS, VECTORS)
    dataset.save(tmp_path / "data.npz")
    read = Dataset.load(tmp_path / "data.npz")
    assert read.table().names == dataset.table().names and read.take(np.array([1])).table().extra
    assert np.array_equal(read.table().rows, dataset.table().rows)
    with pytest.raises(CostModelError, match="no extra features, before there were the extra"):
        read.append("a", features_of(drawn(2)), [1.0, 2.0])
    read.clear_feature("trips_of_all")
    assert not read.table().rows[:, -2].any() and read.table().rows[:, -1].any()


@pytest.mark.parametrize("kind", ["trees", "ridge"])
def test_a_model_trained_with_other_extra_features_is_refused(kind: str, tmp_path: Path) -> None:
    path, trees = tmp_path / "model", kind == "trees"
    model = (
        GradientBoostedModel(GbdtOptions(trees=9))
        if trees
        else adapter.SklearnModel(linear_model.Ridge())
    )

    def load(extra: tuple[ExtraFeature, ...]) -> Any:
        if trees:
            return GradientBoostedModel.load(path, extra)
        return adapter.SklearnModel.load(path, trusted=True, extra_features=extra)

    model.update(recorded(TRIPS, VECTORS))
    model.save(path)
    features = ExtraColumns((TRIPS, VECTORS)).features_of(drawn(9, 1))
    again = load((TRIPS, VECTORS))
    assert again.extra_features == ("trips_of_all", "vector_depth")
    assert np.array_equal(again.predict(features), model.predict(features))
    for other, said in ((), "no extra features"), ((VECTORS, TRIPS), "vector_depth, trips_of_all"):
        with pytest.raises(CostModelError, match=f"trips_of_all, vector_depth, now .*{said}"):
            load(other)
    model.update(recorded())
    model.save(path)
    with pytest.raises(CostModelError, match="made with no extra features, now there are"):
        load((TRIPS,))
    assert load(()).predict(features_of(drawn(9, 1))).shape == (9,)


def test_the_version_of_the_table_covers_them() -> None:
    assert feature_version() == FEATURE_VERSION
    assert len({feature_version(), feature_version(["a"]), feature_version(["a", "b"])}) == 3


def test_a_function_cannot_change_what_the_next_one_is_given() -> None:
    def doubled(statement: Statement) -> Any:
        total = 0.0
        for loop in statement.main.loops:
            extent = loop.extent
            extent *= 2.0
            total += extent
        return total

    told: list[str] = []
    columns = ExtraColumns(
        (ExtraFeature("doubled", doubled), TRIPS), lambda name, text: told.append(text)
    )
    features = columns.features_of(drawn(20))
    assert np.array_equal(features.column("trips_of_all"), features.column("trips"))
    assert not features.column("doubled").any()
    (text,) = told
    assert "read-only" in text
