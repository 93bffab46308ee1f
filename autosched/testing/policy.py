"""What every search policy must do, whatever it proposes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from autosched.measure.result import Failure, MeasureResult, Timing
from autosched.measure.simulated import SimulatedRunner
from autosched.search.policy import SearchPolicy
from autosched.search.space import Space
from autosched.task import Task
from autosched.tasks.candidate import Candidate
from autosched.testing.programs import large_task, small_task
from sketch.population.feasible import feasible


class SearchPolicyConformance(ABC):
    """What a policy promises: new, feasible candidates, the same ones for the same seed.

    A subclass defines ``make``.
    """

    @abstractmethod
    def make(self, space: Space, seed: int) -> SearchPolicy:
        """A new policy for a space, whose only randomness is that of the seed."""

    @property
    def task(self) -> Task:
        """A task with a large space."""
        return large_task()

    @property
    def small_task(self) -> Task:
        """A task whose space is used up after some hundred candidates."""
        return small_task()

    def measure(self, batch: Sequence[Candidate], task: Task | None = None) -> list[MeasureResult]:
        """Times of candidates on a machine that is computed."""
        return SimulatedRunner().measure(task or self.task, batch)

    def run(self, seed: int, rounds: int = 3) -> list[Candidate]:
        """What a policy asks for in batches of 7, told the results in between."""
        policy, asked = self.make(self.task.space, seed), []
        for _ in range(rounds):
            batch = policy.ask(7)
            policy.tell(batch, self.measure(batch))
            asked += batch
        return asked

    def test_is_a_policy(self) -> None:
        """It has the methods of the protocol."""
        assert isinstance(self.make(self.task.space, 0), SearchPolicy)

    def test_proposes_as_many_as_asked(self) -> None:
        """``ask(count)`` of a large space gives ``count`` candidates."""
        assert len(self.make(self.task.space, 0).ask(5)) == 5

    def test_everything_is_feasible_and_new(self) -> None:
        """Candidates fit the target, no two are equal, and their values are ints of Python."""
        asked = self.run(0)
        assert len({candidate.key for candidate in asked}) == len(asked) == 21
        assert all(feasible(c.sketch, dict(c.values)).all() for c in asked)
        assert all(type(value) is int for c in asked for value in c.values.values())

    def test_new_even_when_nothing_is_told(self) -> None:
        """What was asked for is not asked for again before its result is known."""
        policy = self.make(self.task.space, 0)
        asked = [c.key for _ in range(3) for c in policy.ask(6)]
        assert len(set(asked)) == len(asked)

    def test_equal_seeds_give_equal_sequences(self) -> None:
        """The same seed and the same results lead to the same candidates in the same order."""
        assert [c.key for c in self.run(3)] == [c.key for c in self.run(3)]

    def test_what_a_log_knows_is_not_proposed(self) -> None:
        """A new policy that is told results does not ask for those candidates."""
        first = self.run(0, rounds=1)
        policy = self.make(self.task.space, 0)
        policy.tell(first, [Timing((1.0,))] * len(first))
        assert not {c.key for c in first} & {c.key for c in policy.ask(7)}

    def test_failures_do_not_stop_it(self) -> None:
        """It goes on where everything so far has failed."""
        policy = self.make(self.task.space, 0)
        for _ in range(3):
            batch = policy.ask(4)
            assert batch
            policy.tell(batch, [Failure("compile", "Error", "no")] * len(batch))

    def test_a_space_that_is_used_up_gives_an_empty_list(self) -> None:
        """A small space ends, and then ``ask`` gives nothing, each time."""
        policy = self.make(self.small_task.space, 0)
        for _ in range(400):
            batch = policy.ask(64)
            if not batch:
                break
            policy.tell(batch, self.measure(batch, self.small_task))
        assert policy.ask(8) == []
