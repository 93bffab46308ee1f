"""Every field of the policies' options changes what is proposed."""

from __future__ import annotations

import numpy as np
import pytest

from autosched.measure.result import Timing
from autosched.search.bandit import sketch_shares
from autosched.search.evolutionary import EvolutionaryPolicy
from autosched.search.finish import FinishPolicy
from autosched.search.genetic import GeneticPolicy
from autosched.search.learner import Learner
from autosched.search.measured import Measured
from autosched.search.options import (
    BanditOptions,
    EvolutionOptions,
    FinishOptions,
    GeneticOptions,
    LearnerOptions,
    SearchOptions,
)
from autosched.search.sampling import sample_feasible
from autosched.system.errors import OptionError
from autosched.task import Task
from autosched.tasks.candidate import Candidate
from autosched.tuning.options import PRESETS
from costmodel.dataset import Dataset
from costmodel.model import DraftModel
from sketch.population.population import Population
from tests.support.fake_runner import landscape
from tests.support.targets import SMALL
from tests.support.workloads import conv2d_relu

TASK = Task(conv2d_relu(), SMALL)


class Smooth:
    """Likes small decisions."""

    def score(self, population: Population) -> np.ndarray:
        return np.exp(np.log2(population.values + 1).sum(axis=1) * 0.1)


def proposed(evolution: EvolutionOptions, bandit: BanditOptions | None = None) -> list[str]:
    """Keys of two batches; the first one's times are told."""
    options = SearchOptions(
        population=512, generations=2, sketch_rows=32, evolution=evolution,
        bandit=bandit or BanditOptions(),
    )  # fmt: skip
    policy = EvolutionaryPolicy(TASK.space, Smooth(), np.random.default_rng(0), options)
    first = policy.ask(12)
    policy.tell(first, [Timing((landscape(candidate),)) for candidate in first])
    return [candidate.key for candidate in (*first, *policy.ask(12))]


@pytest.mark.parametrize(
    "change",
    [{"draft_share": 0.0}, {"rows_a_trial": 8}, {"curiosity": 0.0}, {"curious_trials": 1},
     {"good": 9}, {"quota": 1.0}, {"pressure": 0.01}, {"elite_share": 1.0}, {"spare": 4.0},
     {"distance": 5}],
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


@pytest.mark.parametrize(
    "change", [{"sharpness": 1.0}, {"optimism": 3.0}, {"draft_trust": 4.0}, {"failed": 1.0}]
)
def test_every_field_of_the_bandit_acts(change: dict[str, float]) -> None:
    drafts, best = np.array([1.2, 1.0, np.inf]), np.array([np.inf, 2.0, np.inf])
    trials = np.array([0, 4, 6])
    usual = sketch_shares(drafts, best, trials)
    changed = BanditOptions(**change)
    assert not np.allclose(sketch_shares(drafts, best, trials, changed), usual)
    if "sharpness" in change:
        assert proposed(EvolutionOptions(), changed) != proposed(EvolutionOptions())


def finished(options: FinishOptions) -> list[str]:
    """Keys of a batch around two measured candidates."""
    memory = Measured(TASK.sketches)
    policy = FinishPolicy(memory, Smooth(), options)
    rows = sample_feasible(TASK.sketches[0], 2, np.random.default_rng(5))
    starts = [Candidate(TASK.sketches[0], rows.row(n)) for n in range(2)]
    policy.tell(starts, [Timing((landscape(start),)) for start in starts])
    return [candidate.key for candidate in policy.ask(200)]


@pytest.mark.parametrize("change", [{"centres": 1}, {"neighbours": 5}, {"hops": 1}])
def test_every_field_of_the_finish_acts(change: dict[str, int]) -> None:
    assert finished(FinishOptions(**change)) != finished(FinishOptions())


class Counted(DraftModel):
    """Counts its lessons."""

    def __init__(self) -> None:
        self.lessons = 0

    def update(self, dataset: Dataset) -> None:
        self.lessons += 1


def learned(options: LearnerOptions, least: int = 1) -> tuple[int, bool, float]:
    """Lessons of ten batches of two, whether the last may wait, and the trust of another task."""
    model = Counted()
    learner = Learner(model, 4, options)
    rows = sample_feasible(TASK.sketches[0], 20, np.random.default_rng(5))
    for n in range(0, 20, 2):
        batch = [Candidate(TASK.sketches[0], rows.row(n + more)) for more in range(2)]
        learner.tell("a", batch, [Timing((1.0,)), Timing((2.0,))])
        learner.learn(least)
    return model.lessons, learner.may_wait, learner.trust("b")


@pytest.mark.parametrize("change", [{"foreign": 0.5}, {"growth": 2.0}, {"defer": 3}])
def test_every_field_of_the_learner_acts(change: dict[str, float]) -> None:
    assert learned(LearnerOptions(**change)) != learned(LearnerOptions())  # type: ignore[arg-type]


def test_a_lesson_waits_for_enough_new_programs_but_the_first_does_not() -> None:
    options = LearnerOptions(growth=0.0)
    assert learned(options)[0] == 10 and learned(options, least=6)[0] == 1 + 18 // 6


@pytest.mark.parametrize("name", PRESETS)
def test_the_population_of_a_preset_can_be_reached(name: str) -> None:
    search = PRESETS[name].search
    assert search.population <= search.evolution.rows_a_trial * search.batch_trials
