"""Extra features in a tuning run, from the API to the model."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import autosched as asd
from autosched.measure.simulated import SimulatedRunner
from autosched.study import evaluate_model, recorded_dataset, replay_study
from autosched.system.user_warnings import AutoschedWarning
from costmodel.dataset import Dataset
from costmodel.errors import CostModelError
from costmodel.extract.statement import Statement
from costmodel.features import Features
from costmodel.gbdt import GradientBoostedModel
from costmodel.gbdt_options import GbdtOptions
from costmodel.model import DraftModel
from tests.support.targets import SMALL
from tests.support.workloads import conv2d_relu

OPTIONS = asd.TuneOptions(trials=24, search=asd.SearchOptions(population=256, batch_trials=8))
TASK = asd.Task(conv2d_relu(), SMALL)


def trips(statement: Statement) -> Any:
    return math.prod(loop.extent for loop in statement.main.loops)


TRIPS = asd.ExtraFeature("trips_of_all", trips)


class Watching(DraftModel):
    """Notes what it is given."""

    def __init__(self) -> None:
        self.seen: list[np.ndarray] = []
        self.names: set[tuple[str, ...]] = set()

    def predict(self, features: Features) -> np.ndarray:
        self.names.add(features.extra)
        return super().predict(features)

    def update(self, dataset: Dataset) -> None:
        self.seen.append(dataset.table().rows[:, -1].copy())
        self.names.add(dataset.table().extra)


def test_they_reach_every_model(tmp_path: Path) -> None:
    model, log = Watching(), tmp_path / "log.jsonl"
    result = TASK.tune(
        options=OPTIONS, log=log, cost_model=model, runner=SimulatedRunner(), extra_features=[TRIPS]
    )
    assert model.names == {("trips_of_all",)} and model.seen[-1].all() and not result.warnings
    records = asd.RecordLog(log).read().records
    again = Watching()
    replay_study([TASK], records, OPTIONS, cost_model=again, extra_features=[TRIPS])
    assert again.names == {("trips_of_all",)}
    assert recorded_dataset([TASK], records, extra_features=[TRIPS]).table().extra
    judged = evaluate_model([TASK], records, Watching, extra_features=[TRIPS])
    assert judged.programs > 0


def test_one_that_fails_is_named_and_the_run_goes_on() -> None:
    calls = 0

    def moody(statement: Statement) -> Any:
        nonlocal calls
        calls += 1
        return 1.0 if calls < 12 else np.nan

    model = Watching()
    moody_feature = asd.ExtraFeature("moody", moody)
    result = TASK.tune(
        options=OPTIONS, cost_model=model, runner=SimulatedRunner(),
        extra_features=[TRIPS, moody_feature],
    )  # fmt: skip
    (warning,) = result.warnings
    assert "extra feature moody" in warning and "goes on without" in warning
    assert result.trials == 24 and calls == 12
    assert model.seen[0].all() and not model.seen[-1].any()


def test_the_study_warns() -> None:
    records = TASK.tune(options=OPTIONS, runner=SimulatedRunner()).records
    with pytest.warns(AutoschedWarning, match="extra feature broken"):
        data = recorded_dataset(
            [TASK], records, extra_features=[asd.ExtraFeature("broken", lambda _: None)]
        )
    assert not data.table().rows[:, -1].any()


def test_a_model_of_other_features_is_refused_before_anything_is_measured() -> None:
    model = GradientBoostedModel(GbdtOptions(trees=5))
    TASK.tune(options=OPTIONS, cost_model=model, runner=SimulatedRunner(), extra_features=[TRIPS])
    assert model.extra_features == ("trips_of_all",)
    with pytest.raises(CostModelError, match="trained with the extra features trips_of_all, now"):
        TASK.tune(options=OPTIONS, cost_model=model, runner=SimulatedRunner())


def test_the_trees_learn_from_them() -> None:
    plain = TASK.tune(options=OPTIONS, runner=SimulatedRunner())
    with_extra = TASK.tune(options=OPTIONS, runner=SimulatedRunner(), extra_features=[TRIPS])
    assert plain.trials == with_extra.trials == 24 and not with_extra.warnings
