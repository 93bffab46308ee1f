"""The suites notice models, policies and runners that break a promise."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from autosched.measure.protocol import MeasuredTask, Runner
from autosched.measure.result import Failure, MeasureResult
from autosched.measure.simulated import SimulatedRunner
from autosched.search.policy import SearchPolicy
from autosched.search.random_search import RandomPolicy
from autosched.search.space import Space
from autosched.tasks.candidate import Candidate
from autosched.testing import (
    CostModelConformance,
    RunnerConformance,
    SearchPolicyConformance,
)
from autosched.testing.cost_model import synthetic
from costmodel.dataset import Dataset
from costmodel.features import Features
from costmodel.model import CostModel, DraftModel


class Negative(DraftModel):
    def predict(self, features: Features) -> NDArray[np.float64]:
        return -super().predict(features)


class Relative(DraftModel):
    """Times relative to those of the programs beside."""

    def predict(self, features: Features) -> NDArray[np.float64]:
        times = super().predict(features)
        return np.asarray(times / times.mean())


class Overwriting(DraftModel):
    def predict(self, features: Features) -> NDArray[np.float64]:
        times = super().predict(features)
        features.values[:] = np.log1p(features.values)
        return times


class Consuming(DraftModel):
    def update(self, dataset: Dataset) -> None:
        super().update(dataset)
        dataset.clear_feature("draft_seconds")
        dataset.append("one more", *synthetic(1, 1, 0))


class Forgetful(RandomPolicy):
    """Asks for its first batch again and again."""

    first: list[Candidate] | None = None

    def ask(self, count: int) -> list[Candidate]:
        self.first = self.first or super().ask(count)
        return self.first[:count]


class Unseeded(RandomPolicy):
    def __init__(self, space: Space, rng: np.random.Generator) -> None:
        super().__init__(space, np.random.default_rng())


class Reversed(SimulatedRunner):
    def answer(self, task: MeasuredTask, candidates: Sequence[Candidate]) -> list[MeasureResult]:
        return super().answer(task, candidates)[::-1]


class Inexact(SimulatedRunner):
    def verify(self, task: MeasuredTask, candidate: Candidate) -> float | Failure:
        return 0.5


def test_a_model_that_predicts_negative_times() -> None:
    class Suite(CostModelConformance):
        def make(self) -> CostModel:
            return Negative()

    with pytest.raises(AssertionError):
        Suite().test_predictions_are_positive_times()


@pytest.mark.parametrize(
    ("model", "test"),
    [
        (Relative, "test_a_prediction_does_not_depend_on_those_beside_it"),
        (Overwriting, "test_what_it_is_given_stays_as_it_is"),
        (Consuming, "test_what_it_is_given_stays_as_it_is"),
    ],
)
def test_models(model: type[DraftModel], test: str) -> None:
    class Suite(CostModelConformance):
        def make(self) -> CostModel:
            return model()

    with pytest.raises(AssertionError):
        getattr(Suite(), test)()


@pytest.mark.parametrize(
    ("policy", "test"),
    [
        (Forgetful, "test_everything_is_feasible_and_new"),
        (Forgetful, "test_new_even_when_nothing_is_told"),
        (Unseeded, "test_equal_seeds_give_equal_sequences"),
    ],
)
def test_policies(policy: type[RandomPolicy], test: str) -> None:
    class Suite(SearchPolicyConformance):
        def make(self, space: Space, seed: int) -> SearchPolicy:
            return policy(space, np.random.default_rng(seed))

    with pytest.raises(AssertionError):
        getattr(Suite(), test)()


@pytest.mark.parametrize(
    ("runner", "test"),
    [
        (Reversed, "test_one_result_a_candidate_in_order"),
        (Inexact, "test_checks_are_errors_or_failures"),
    ],
)
def test_runners(runner: type[SimulatedRunner], test: str) -> None:
    class Suite(RunnerConformance):
        def make(self) -> Runner:
            return runner()

    with pytest.raises(AssertionError):
        getattr(Suite(), test)()
