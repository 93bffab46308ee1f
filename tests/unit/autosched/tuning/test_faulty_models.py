"""Cost models that misbehave: the search names them and goes on without them."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from autosched.report.events import Quiet
from autosched.search.options import SearchOptions
from autosched.task import Task
from autosched.tuning.job import TuneJob
from autosched.tuning.options import TuneOptions
from autosched.tuning.result import TuneResult
from autosched.tuning.run import run_job
from costmodel.dataset import Dataset
from costmodel.features import Features
from costmodel.gbdt import GradientBoostedModel
from costmodel.gbdt_options import GbdtOptions
from costmodel.model import DraftModel
from tests.support.fake_runner import FakeRunner, ticking
from tests.support.targets import SMALL
from tests.support.workloads import conv2d_relu, matmul_dag

SEARCH = SearchOptions(population=128, generations=1, sketch_rows=64)
OPTIONS = TuneOptions(trials=32, leaders=0, search=SEARCH)


class Healthy(DraftModel):
    """Ready from the start; subclasses break one thing."""


class Nan(Healthy):
    def predict(self, features: Features) -> np.ndarray:
        return np.full(features.count, np.nan)


class Infinite(Healthy):
    def predict(self, features: Features) -> np.ndarray:
        return np.where(np.arange(features.count) % 2, 1.0, np.inf)


class Negative(Healthy):
    def predict(self, features: Features) -> np.ndarray:
        return -super().predict(features)


class WrongShape(Healthy):
    def predict(self, features: Features) -> np.ndarray:
        return np.ones(3)


class Column(Healthy):
    def predict(self, features: Features) -> np.ndarray:
        return super().predict(features)[:, None]


class Scalar(Healthy):
    def predict(self, features: Features) -> float:  # type: ignore[override]
        return 1.0


class Words(Healthy):
    def predict(self, features: Features) -> list[str]:  # type: ignore[override]
        return ["fast"] * features.count


class Nothing(Healthy):
    def predict(self, features: Features) -> None:  # type: ignore[override]
        return None


class Raises(Healthy):
    def predict(self, features: Features) -> np.ndarray:
        raise KeyError("weights")


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


class RaisesUnspeakable(Healthy):
    def predict(self, features: Features) -> np.ndarray:
        raise Unspeakable


class RaisesInFit(Healthy):
    def update(self, dataset: Dataset) -> None:
        raise RuntimeError("diverged")


class NeverReady(Healthy):
    @property
    def ready(self) -> bool:
        raise AttributeError("no weights yet")


class Messages(Quiet):
    def __init__(self) -> None:
        self.said: list[str] = []

    def message(self, text: str) -> None:
        self.said.append(text)


@cache
def tasks() -> tuple[Task, ...]:
    """The same ones in all tests: what is known of their sketches is found out once."""
    return Task(conv2d_relu(), SMALL, "conv"), Task(matmul_dag(), SMALL, "matmul")


def tune(model: DraftModel, options: TuneOptions = OPTIONS) -> tuple[TuneResult, list[str]]:
    progress = Messages()
    result = run_job(
        TuneJob(
            tasks(), runner=FakeRunner(), options=options, progress=progress, cost_model=model,
            clock=ticking(0), now=lambda: 0.0,
        )
    )  # fmt: skip
    return result, progress.said


@pytest.mark.parametrize(
    "model, what",
    [
        (Nan, "predict gave NaN for"),
        (Infinite, "predict gave infinity for"),
        (Negative, "predict gave a time <= 0 for"),
        (WrongShape, "predict gave an array of shape (3,) for"),
        (Column, "predict gave an array of shape"),
        (Scalar, "predict gave an array of shape () for"),
        (Words, "predict gave no array of numbers"),
        (Nothing, "predict gave no array of numbers"),
        (Raises, "predict raised KeyError: 'weights'"),
        (RaisesUnspeakable, "predict raised Unspeakable: its text raised RuntimeError"),
        (RaisesInFit, "update raised RuntimeError: diverged"),
        (NeverReady, "ready raised AttributeError: no weights yet"),
    ],
)
def test_a_faulty_model_is_named_once_and_the_draft_ranks(model, what: str) -> None:
    result, said = tune(model())
    assert result.trials == OPTIONS.trials
    (warning,) = result.warnings
    assert warning.startswith(what) and f"cost model {model.__name__}" in warning
    assert "the draft model ranked without it in" in warning
    assert len(said) == 1 and said[0].startswith(f"warning: {what}")


@pytest.mark.parametrize("head_start", ["many", float("nan"), -1.0, float("inf")])
def test_a_head_start_that_is_no_number_counts_as_none(head_start: Any) -> None:
    class Ahead(Healthy):
        @property
        def head_start(self) -> Any:
            return head_start

    result, said = tune(Ahead())
    (warning,) = result.warnings
    assert "head_start" in warning and "cost model Ahead" in warning
    assert warning.endswith("it counts as no candidates") and said == [f"warning: {warning}"]
    healthy = tune(Healthy())[0]
    keys = [[r.candidate_key for r in each.records] for each in (result, healthy)]
    assert keys[0] == keys[1]


def test_a_model_prepares_once_after_the_first_batch_was_submitted() -> None:
    class Careful(Healthy):
        prepared = 0

        def prepare(self) -> None:
            Careful.prepared += 1
            raise OSError("no library")

    result, said = tune(Careful())
    assert Careful.prepared == 1 and result.trials == OPTIONS.trials
    (warning,) = result.warnings
    assert warning.startswith("prepare raised OSError: no library")
    assert warning.endswith("the search goes on") and said == [f"warning: {warning}"]


@pytest.mark.parametrize("model", [Nan, Raises, RaisesInFit])
def test_without_it_the_search_is_that_of_the_draft(model) -> None:
    found = [tune(each())[0] for each in (model, Healthy)]
    first, second = ([r.candidate_key for r in result.records] for result in found)
    assert first == second


def test_a_model_that_recovers_is_used_again() -> None:
    class Moody(GradientBoostedModel):
        calls = 0

        def predict(self, features: Features) -> np.ndarray:
            Moody.calls += 1
            found = super().predict(features)
            return found if Moody.calls > 1 else found * np.nan

    result, _ = tune(Moody(GbdtOptions(trees=10)), replace(OPTIONS, trials=64))  # type: ignore[arg-type]
    (warning,) = result.warnings
    assert warning.endswith("in 1 round")
    assert Moody.calls > 2
