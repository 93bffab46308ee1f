"""Every field of the policies' options changes what is proposed."""

from __future__ import annotations

import numpy as np
import pytest

from autosched.measure.result import Timing
from autosched.search.evolutionary import EvolutionaryPolicy
from autosched.search.genetic import GeneticPolicy
from autosched.search.options import EvolutionOptions, GeneticOptions, SearchOptions
from autosched.system.errors import OptionError
from autosched.task import Task
from sketch.population.population import Population
from tests.support.fake_runner import landscape
from tests.support.targets import SMALL
from tests.support.workloads import conv2d_relu

TASK = Task(conv2d_relu(), SMALL)


class Smooth:
    """Likes small decisions."""

    def score(self, population: Population) -> np.ndarray:
        return np.exp(np.log2(population.values + 1).sum(axis=1) * 0.1)


def proposed(evolution: EvolutionOptions) -> list[str]:
    """Keys of two batches; the first one's times are told."""
    options = SearchOptions(population=512, generations=2, sketch_rows=32, evolution=evolution)
    policy = EvolutionaryPolicy(TASK.space, Smooth(), np.random.default_rng(0), options)
    first = policy.ask(12)
    policy.tell(first, [Timing((landscape(candidate),)) for candidate in first])
    return [candidate.key for candidate in (*first, *policy.ask(12))]


@pytest.mark.parametrize(
    "change",
    [{"draft_share": 0.0}, {"rows_a_trial": 8}, {"curiosity": 0.0}, {"curious_trials": 1},
     {"good": 9}, {"quota": 1.0}, {"pressure": 0.01}, {"elite_share": 1.0}, {"spare": 4.0}],
)  # fmt: skip
def test_every_field_acts(change: dict[str, float]) -> None:
    assert proposed(EvolutionOptions(**change)) != proposed(EvolutionOptions())  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "change", [{"draft_share": 1.5}, {"curiosity": -0.1}, {"rows_a_trial": 0}, {"quota": 0.5}]
)
def test_fields_are_checked(change: dict[str, float]) -> None:
    with pytest.raises(OptionError, match=next(iter(change))):
        EvolutionOptions(**change)  # type: ignore[arg-type]


def bred(genetic: GeneticOptions) -> list[str]:
    """Keys of two batches of the genetic policy; the first one's times are told."""
    policy = GeneticPolicy(TASK.space, np.random.default_rng(0), SearchOptions(genetic=genetic))
    first = policy.ask(24)
    policy.tell(first, [Timing((landscape(candidate),)) for candidate in first])
    return [candidate.key for candidate in policy.ask(12)]


@pytest.mark.parametrize("change", [{"founders": 99}, {"parents": 2}, {"decay": 1.0}, {"spare": 1}])
def test_every_field_of_the_genetic_policy_acts(change: dict[str, float]) -> None:
    assert bred(GeneticOptions(**change)) != bred(GeneticOptions())  # type: ignore[arg-type]
