"""What every search policy must do, whatever it proposes."""

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
from autosched.task import Task
from autosched.tasks.candidate import Candidate
from costmodel.extract import features_of
from sketch.population.feasible import feasible
from sketch.population.population import Population
from tests.support.fake_runner import landscape
from tests.support.targets import SMALL
from tests.support.workloads import conv2d_relu, matmul_dag

OPTIONS = SearchOptions(population=256, generations=2, sketch_rows=64)
TASK = Task(conv2d_relu(), SMALL)
TINY = Task(matmul_dag(2, 3, 2), SMALL)


class DraftScorer:
    def score(self, population: Population) -> np.ndarray:
        return features_of(population).draft_seconds()


class PolicyConformance:
    """Subclasses make a fresh policy."""

    def make(self, space: Space, seed: int) -> SearchPolicy:
        raise AssertionError("a subclass makes the policy")

    def run(self, seed: int, rounds: int = 3, space: Space = TASK.space) -> list[Candidate]:
        policy, asked = self.make(space, seed), []
        for _ in range(rounds):
            batch = policy.ask(7)
            policy.tell(batch, [Timing((landscape(c),)) for c in batch])
            asked += batch
        return asked

    def test_is_a_policy(self) -> None:
        assert isinstance(self.make(TASK.space, 0), SearchPolicy)

    def test_proposes_as_many_as_asked(self) -> None:
        assert len(self.make(TASK.space, 0).ask(5)) == 5

    def test_everything_is_feasible_and_new(self) -> None:
        asked = self.run(0)
        assert len({candidate.key for candidate in asked}) == len(asked) == 21
        assert all(feasible(c.sketch, dict(c.values)).all() for c in asked)
        assert all(type(value) is int for c in asked for value in c.values.values())

    def test_new_even_when_nothing_is_told(self) -> None:
        policy = self.make(TASK.space, 0)
        asked = [c.key for _ in range(3) for c in policy.ask(6)]
        assert len(set(asked)) == len(asked)

    def test_equal_seeds_give_equal_sequences(self) -> None:
        assert [c.key for c in self.run(3)] == [c.key for c in self.run(3)]

    def test_what_a_log_knows_is_not_proposed(self) -> None:
        first = self.run(0, rounds=1)
        policy = self.make(TASK.space, 0)
        policy.tell(first, [Timing((1.0,))] * len(first))
        assert not {c.key for c in first} & {c.key for c in policy.ask(7)}

    def test_failures_do_not_stop_it(self) -> None:
        policy = self.make(TASK.space, 0)
        for _ in range(3):
            batch = policy.ask(4)
            assert batch
            policy.tell(batch, [Failure("compile", "Error", "no")] * len(batch))

    def test_a_space_that_is_used_up_gives_an_empty_list(self) -> None:
        policy, seen = self.make(TINY.space, 0), set()
        for _ in range(400):
            batch = policy.ask(64)
            policy.tell(batch, [Timing((landscape(c),)) for c in batch])
            seen |= {c.key for c in batch}
            if not batch:
                break
        assert policy.ask(8) == []


class TestRandom(PolicyConformance):
    def make(self, space: Space, seed: int) -> SearchPolicy:
        return RandomPolicy(space, np.random.default_rng(seed))

    def test_equal_odds_for_all_sketches(self) -> None:
        batch = RandomPolicy(TASK.space, np.random.default_rng(0)).ask(200)
        counts = [sum(c.sketch is s for c in batch) for s in TASK.sketches]
        assert min(counts) > 0.5 * 200 / len(counts)


class TestEvolutionary(PolicyConformance):
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


class TestGenetic(PolicyConformance):
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


class TestGrid(PolicyConformance):
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


class TestFinish(PolicyConformance):
    def make(self, space: Space, seed: int) -> SearchPolicy:
        measured = Measured(space.sketches)
        start = RandomPolicy(space, np.random.default_rng(seed), measured)
        batch = start.ask(4)
        start.tell(batch, [Timing((landscape(c),)) for c in batch])
        return FinishPolicy(measured, DraftScorer())
