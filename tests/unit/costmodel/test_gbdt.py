"""The boosted trees: they learn rankings, continue, start over, and are deterministic."""

from __future__ import annotations

import pickle
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from costmodel.dataset import Dataset
from costmodel.features import Features
from costmodel.gbdt import GradientBoostedModel, _Objective
from costmodel.gbdt_options import GbdtOptions
from costmodel.metrics import pairwise_accuracy, peak_score
from costmodel.model import RandomModel


def true_times(features: Features, seed: int) -> np.ndarray:
    """A machine unlike the draft's: odd tiles and many loads are slow, memory counts double."""
    column = features.column
    compute = column("draft_compute_seconds") * (
        1 + 0.7 * (column("tile_rows") % 4 == 3) + 0.5 * (column("vector_loads") > 1)
    )
    time = compute + 2 * column("draft_memory_seconds") * column("imbalance")
    noise = np.random.default_rng(seed).lognormal(0, 0.02, features.count)
    return time.sum(axis=0, dtype=np.float64) * noise


def dataset_of(parts: tuple[Features, ...], rows: slice) -> Dataset:
    dataset = Dataset()
    for seed, features in enumerate(parts):
        chosen = features.take(np.arange(features.count)[rows])
        dataset.append("task", chosen, true_times(features, seed)[rows])
    return dataset


@pytest.fixture(scope="module")
def train(conv_features: tuple[Features, ...]) -> Dataset:
    return dataset_of(conv_features, slice(0, 150))


def test_learns_a_ranking(conv_features: tuple[Features, ...], train: Dataset) -> None:
    model = GradientBoostedModel()
    model.update(train)
    held_out = [part.take(np.arange(150, 300)) for part in conv_features]
    seconds = np.concatenate([true_times(f, s)[150:] for s, f in enumerate(conv_features)])
    learned = np.concatenate([model.predict(part) for part in held_out])
    drafted = np.concatenate([part.draft_seconds() for part in held_out])
    accuracy = pairwise_accuracy(seconds, learned)
    assert accuracy > 0.85
    assert accuracy > pairwise_accuracy(seconds, drafted) + 0.05
    random = RandomModel(np.random.default_rng(0))
    guessed = np.concatenate([random.predict(part) for part in held_out])
    assert peak_score(seconds, learned, 8) > peak_score(seconds, guessed, 8)


def test_before_data_it_follows_the_draft(conv_features: tuple[Features, ...]) -> None:
    features = conv_features[0]
    predicted = GradientBoostedModel().predict(features)
    np.testing.assert_allclose(predicted, features.draft_seconds(), rtol=1e-5)


def test_small_data_train_from_scratch(train: Dataset) -> None:
    model = GradientBoostedModel(GbdtOptions(trees=12))
    model.update(train)
    model.update(train)
    assert model.trees == 12


def test_large_data_continue_up_to_the_limit(
    conv_features: tuple[Features, ...], train: Dataset
) -> None:
    options = GbdtOptions(trees=12, more_trees=5, tree_limit=20, scratch_programs=10)
    model = GradientBoostedModel(options)
    sizes = []
    for _ in range(4):
        model.update(train)
        sizes.append(model.trees)
    assert sizes == [12, 17, 12, 17]
    loss = _loss(model, train)
    assert loss < _loss(GradientBoostedModel(), train)


def test_very_large_data_teach_as_their_recent_part_does(
    conv_features: tuple[Features, ...], train: Dataset
) -> None:
    options = GbdtOptions(trees=12, most_programs=64)
    recent = train.take(train.table().recent(64))
    assert 64 <= len(recent) <= 64 + len(train.tasks) < len(train)
    models = (
        GradientBoostedModel(options),
        GradientBoostedModel(replace(options, most_programs=999)),
    )
    for model, data in zip(models, (train, recent), strict=True):
        model.update(data, np.zeros(len(data)))
    predicted = [model.predict(conv_features[0]) for model in models]
    np.testing.assert_allclose(*predicted, rtol=1e-6)


def _loss(model: GradientBoostedModel, dataset: Dataset) -> float:
    table = dataset.table()
    objective = _Objective.of(table, model.options)
    booster = model._booster
    raw = np.zeros(len(table.rows)) if booster is None else booster.predict(table.rows)
    scores = np.log(np.add.reduceat(np.exp(objective.base + raw), objective.starts))
    residual = objective.centred(scores - objective.target)
    return float((objective.weight * residual**2).sum())


def test_the_gradient_is_that_of_the_loss(train: Dataset) -> None:
    table = train.take(np.arange(0, 600, 60)).table()
    objective = _Objective.of(table, GbdtOptions(weight_power=0.5))
    rng = np.random.default_rng(0)
    at = rng.normal(size=len(table.rows))

    def loss(point: np.ndarray) -> float:
        scores = np.log(np.add.reduceat(np.exp(objective.base + point), objective.starts))
        residual = objective.centred(scores - objective.target)
        return float((objective.weight * residual**2).sum())

    gradient, hessian = objective(at, None)
    assert (hessian > 0).all()
    for row in range(len(table.rows)):
        step = np.zeros(len(table.rows))
        step[row] = 1e-5
        numeric = (loss(at + step) - loss(at - step)) / 2e-5
        assert gradient[row] == pytest.approx(numeric, rel=1e-3, abs=1e-6)


def test_the_scale_of_a_task_does_not_matter(conv_features: tuple[Features, ...]) -> None:
    """A task a thousand times slower, with failures, leaves the ranking of the other alone."""
    features = conv_features[0]
    dataset = Dataset()
    times = true_times(features, 0)
    dataset.append("a", features.take(np.arange(200)), times[:200])
    dataset.append("b", features.take(np.arange(200)), 1000.0 * times[:200])
    model = GradientBoostedModel()
    model.update(dataset)
    predicted = model.predict(features.take(np.arange(200, 300)))
    assert pairwise_accuracy(times[200:], predicted) > 0.85


SCRIPT = """
import sys
from pathlib import Path
from costmodel.dataset import Dataset
from costmodel.gbdt import GradientBoostedModel
from costmodel.gbdt_options import GbdtOptions
model = GradientBoostedModel(GbdtOptions(trees=30))
model.update(Dataset.load(Path(sys.argv[1])))
model.save(Path(sys.argv[2]))
"""


def test_another_process_grows_the_same_trees(tmp_path: Path, train: Dataset) -> None:
    train.save(tmp_path / "data.npz")
    command = [sys.executable, "-c", SCRIPT, str(tmp_path / "data.npz"), str(tmp_path / "other")]
    subprocess.run(command, check=True, timeout=120)
    model = GradientBoostedModel(GbdtOptions(trees=30))
    model.update(train)
    model.save(tmp_path / "mine")
    assert (tmp_path / "mine").read_text() == (tmp_path / "other").read_text()


def test_a_pickled_model_predicts_the_same(
    train: Dataset, conv_features: tuple[Features, ...]
) -> None:
    model = GradientBoostedModel(GbdtOptions(trees=3))
    assert not pickle.loads(pickle.dumps(model)).ready
    model.update(train)
    copy = pickle.loads(pickle.dumps(model))
    assert copy.trees == 3
    assert np.array_equal(copy.predict(conv_features[0]), model.predict(conv_features[0]))


def test_importing_the_package_is_light() -> None:
    names = "costmodel, costmodel.model, costmodel.extract, costmodel.metrics"
    script = f"import sys, {names}; print(*sys.modules)"
    result = subprocess.run(
        [sys.executable, "-c", script], check=True, capture_output=True, text=True, timeout=60
    )
    loaded = set(result.stdout.split())
    assert not loaded & {"lightgbm", "sklearn", "scipy", "pandas", "sympy", "llvmlite"}


def test_a_task_without_a_success_teaches_nothing(conv_features: tuple[Features, ...]) -> None:
    """Not that its programs are equally fast."""
    train = dataset_of(conv_features[1:], slice(0, 150))
    models = (
        GradientBoostedModel(GbdtOptions(trees=15)),
        GradientBoostedModel(GbdtOptions(trees=15)),
    )
    models[0].update(train)
    failed = conv_features[0].take(np.arange(40))
    train.append("nothing ran", failed, [None] * 40)
    models[1].update(train)
    alone, beside = (model.predict(failed) for model in models)
    np.testing.assert_allclose(alone, beside, rtol=1e-5)
