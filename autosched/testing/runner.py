"""What every runner must do, whatever it measures on."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cached_property
from typing import ClassVar

import numpy as np

from autosched.measure.errors import MeasureError
from autosched.measure.protocol import Runner
from autosched.measure.result import Failure, MeasureResult, Timing
from autosched.search.random_search import RandomPolicy
from autosched.task import Task
from autosched.tasks.candidate import Candidate
from autosched.testing.expected_error import raises
from autosched.testing.programs import large_task


class RunnerConformance(ABC):
    """What a runner promises: one result a candidate, in order, each batch collected once.

    A subclass defines ``make``, and ``task`` where the runner cannot measure the one given here.

    Attributes:
        repeatable: whether a candidate takes the same time whenever it is measured; False for a
            real machine, where only failures must repeat.
        tolerance: largest relative error of a candidate that is measured without a failure.
    """

    repeatable: ClassVar[bool] = True
    tolerance: ClassVar[float] = 1e-4

    @abstractmethod
    def make(self) -> Runner:
        """A new runner that can measure ``batch``; the caller closes it."""

    @cached_property
    def task(self) -> Task:
        """What is measured."""
        return large_task()

    @cached_property
    def batch(self) -> list[Candidate]:
        """Twelve candidates of ``task``."""
        return RandomPolicy(self.task.space, np.random.default_rng(0)).ask(12)

    def assert_alike(self, a: Sequence[MeasureResult], b: Sequence[MeasureResult]) -> None:
        """Equal results; of runners that are not repeatable, failures in the same places."""
        if self.repeatable:
            assert a == b
        else:
            failures = [[isinstance(result, Failure) for result in results] for results in (a, b)]
            assert failures[0] == failures[1]

    def test_one_result_a_candidate_in_order(self) -> None:
        """Measured at once or alone, in either direction, a candidate gets its own result."""
        with self.make() as runner:
            results = runner.measure(self.task, self.batch)
            assert len(results) == len(self.batch)
            assert all(isinstance(result, Timing | Failure) for result in results)
            alone = [runner.measure(self.task, [c])[0] for c in reversed(self.batch)]
            self.assert_alike(alone, results[::-1])

    def test_answers_do_not_depend_on_the_runner(self) -> None:
        """Another runner of the same kind answers alike, and so does measuring against others."""
        with self.make() as one, self.make() as other:
            results = one.measure(self.task, self.batch)
            self.assert_alike(results, other.measure(self.task, self.batch))
            self.assert_alike(results, one.remeasure(self.task, self.batch, rounds=3))

    def test_batches_may_be_collected_in_any_order_but_once(self) -> None:
        """``submit`` twice, ``collect`` the later one first; a second ``collect`` is an error."""
        with self.make() as runner:
            first = runner.submit(self.task, self.batch[:4])
            second = runner.submit(self.task, self.batch[4:])
            late, early = runner.collect(second), runner.collect(first)
            self.assert_alike(early + late, runner.measure(self.task, self.batch))
            with raises(MeasureError):
                runner.collect(first)

    def test_checks_are_errors_or_failures(self) -> None:
        """``verify`` gives a small error for what was timed, and a failure for what failed."""
        with self.make() as runner:
            results = runner.measure(self.task, self.batch)
            for candidate, result in zip(self.batch, results, strict=True):
                error = runner.verify(self.task, candidate)
                if isinstance(result, Failure):
                    assert isinstance(error, Failure)
                else:
                    assert not isinstance(error, Failure) and 0 <= error < self.tolerance

    def test_closing_twice_does_nothing(self) -> None:
        """``close`` may follow the end of a ``with`` block."""
        with self.make() as runner:
            runner.close()
