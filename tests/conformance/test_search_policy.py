"""The policies that are built in keep what every policy promises."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from autosched.measure.result import Failure, Timing
from autosched.search.evolutionary import EvolutionaryPolicy
from autosched.search.finish import FinishPolicy
from autosched.search.genetic import GeneticPolicy
from autosched.search.grid import GridPolicy, enumerate_rows
from autosched.search.measured import Measured
from autosched.search.options import SearchOptions
from autosched.search.policy import SearchPolicy
from autosched.search.random_search import RandomPolicy
from autosched.search.space import Space
from autosched.testing import SearchPolicyConformance
from autosched.testing.programs import large_task, small_task
from costmodel.extract import features_of
from sketch.population.population import Population
from tests.support.fake_runner import landscape

OPTIONS = SearchOptions(population=256, generations=2, sketch_rows=64)
TASK, TINY = large_task(), small_task()


class DraftScorer:
    def score(self, population: Population) -> np.ndarray:
        return features_of(population).draft_seconds()


class TestRandom(SearchPolicyConformance):
    def make(self, space: Space, seed: int) -> SearchPolicy:
        return RandomPolicy(space, np.random.default_rng(seed))

    def test_equal_odds_for_all_sketches(self) -> None:
        batch = RandomPolicy(TASK.space, np.random.default_rng(0)).ask(200)
        counts = [sum(c.sketch is s for c in batch) for s in TASK.sketches]
        assert min(counts) > 0.5 * 200 / len(counts)


class TestEvolutionary(SearchPolicyConformance):
    def make(self, space: Space, seed: int) -> SearchPolicy:
        return EvolutionaryPolicy(space, DraftScorer(), np.random.default_rng(seed), OPTIONS)

    @pytest.mark.parametrize("epsilon", [0.0, 1.0])
    def test_extremes_of_epsilon(self, epsilon: float) -> None:
        options = replace(OPTIONS, epsilon=epsilon)
        policy = EvolutionaryPolicy(TASK.space, DraftScorer(), np.random.default_rng(0), options)
        assert len(policy.ask(9)) == 9

    def test_seeds_come_first_and_once(self) -> None:
        (seed,) = RandomPolicy(TASK.space, np.random.default_rng(9)).ask(1)
        rng = np.random.default_rng(0)
        policy = EvolutionaryPolicy(TASK.space, DraftScorer(), rng, OPTIONS, seeds=[seed, seed])
        batch = policy.ask(4)
        assert batch[0].key == seed.key
        assert [c.key for c in batch].count(seed.key) == 1


class TestGenetic(SearchPolicyConformance):
    def make(self, space: Space, seed: int) -> SearchPolicy:
        return GeneticPolicy(space, np.random.default_rng(seed), OPTIONS)

    def test_children_follow_what_was_measured(self) -> None:
        """After some random rows, a batch is faster than random rows are."""
        policy, rng = self.make(TASK.space, 1), np.random.default_rng(7)
        for _ in range(8):
            batch = policy.ask(24)
            policy.tell(batch, [Timing((landscape(c),)) for c in batch])
        random = RandomPolicy(TASK.space, rng).ask(24)
        bred = np.median([landscape(c) for c in policy.ask(24)])
        assert bred < 0.5 * np.median([landscape(c) for c in random])

    def test_without_a_success_it_goes_on_at_random(self) -> None:
        policy = self.make(TASK.space, 0)
        batch = policy.ask(40)
        policy.tell(batch, [Failure("run", "SIGSEGV", "crash")] * len(batch))
        assert len(policy.ask(5)) == 5


class TestGrid(SearchPolicyConformance):
    def make(self, space: Space, seed: int) -> SearchPolicy:
        return GridPolicy(space)

    def test_a_small_space_is_covered_exhaustively(self) -> None:
        found = {c.key for c in GridPolicy(TINY.space).ask(100_000)}
        drawn = {c.key for c in RandomPolicy(TINY.space, np.random.default_rng(0)).ask(100_000)}
        assert found >= drawn and len(found) >= len(TINY.sketches)

    def test_every_row_comes_once(self) -> None:
        sketch = TINY.sketches[0]
        rows = np.concatenate([block.values for block in enumerate_rows(sketch)])
        assert len(np.unique(rows, axis=0)) == len(rows)

    def test_sketches_take_turns(self) -> None:
        batch = GridPolicy(TASK.space).ask(2 * len(TASK.sketches))
        assert [c.sketch for c in batch] == [*TASK.sketches] * 2

    def test_the_beginning_covers_every_decision(self) -> None:
        """No decision keeps one value for long, as the outermost of nested loops would."""
        sketch = max(TASK.sketches, key=lambda s: len(s.decisions))
        rows = next(block for block in enumerate_rows(sketch) if block.count >= 16).values
        free = [n for n, d in enumerate(sketch.decisions) if len(d.choices) > 3]
        assert all(len(np.unique(rows[:, n])) > 1 for n in free)


class TestFinish(SearchPolicyConformance):
    def make(self, space: Space, seed: int) -> SearchPolicy:
        measured = Measured(space.sketches)
        start = RandomPolicy(space, np.random.default_rng(seed), measured)
        batch = start.ask(4)
        start.tell(batch, [Timing((landscape(c),)) for c in batch])
        return FinishPolicy(measured, DraftScorer())
