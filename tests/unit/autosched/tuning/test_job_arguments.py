"""Arguments of a tuning run that make no sense are refused before it begins."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import autosched as asd
from autosched.measure.simulated import SimulatedRunner
from autosched.report.callbacks import Callback
from autosched.search.models import MODELS, model_of
from autosched.system.errors import OptionError
from autosched.tuning.job import TuneJob
from autosched.tuning.objectives import GeometricSpeedUp
from autosched.tuning.options import QUICK
from costmodel.gbdt import GradientBoostedModel
from costmodel.model import DraftModel

TASK = asd.workloads.get("GMM").task(1, 16, 16, 16)


@pytest.mark.parametrize("given", [int, "xgboost", 3, GradientBoostedModel, DraftModel])
def test_what_is_no_cost_model_is_refused(given: Any, tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    with pytest.raises(OptionError, match=r"cost_model is .*gbdt, forest, ridge, draft, random"):
        asd.tune(asd.zoo.build("mlp", image=4), trials=2, log=log, quiet=True, cost_model=given)
    with pytest.raises(OptionError, match="cost_model is"):
        TASK.tune(trials=2, log=log, quiet=True, cost_model=given)
    assert not log.exists()


@pytest.mark.parametrize("name", MODELS)
def test_names_of_models_are_models(name: Any) -> None:
    result = TASK.tune(
        trials=4, options=QUICK, runner=SimulatedRunner(), quiet=True, cost_model=name
    )
    assert result.trials == 4 and not result.warnings


def test_a_name_makes_the_model() -> None:
    assert isinstance(model_of("draft", TASK.target), DraftModel)
    mine = DraftModel()
    assert model_of(mine, TASK.target) is mine


@pytest.mark.parametrize("given", [print, [print], Callback(), [Callback]])
def test_what_are_no_callbacks_is_refused(given: Any) -> None:
    with pytest.raises(OptionError, match=r"callbacks is .*give a list|is no callback"):
        TuneJob(callbacks=given)


@pytest.mark.parametrize("given", [3, "sum", GeometricSpeedUp])
def test_what_is_no_objective_is_refused(given: Any) -> None:
    with pytest.raises(OptionError, match=r"objective is .*give a function"):
        TuneJob(objective=given)


@pytest.mark.parametrize("given", [3, "ray", SimulatedRunner, Callback()])
def test_what_is_no_runner_is_refused(given: Any) -> None:
    with pytest.raises(OptionError, match=r"runner is .*give ray"):
        TuneJob(runner=given)
