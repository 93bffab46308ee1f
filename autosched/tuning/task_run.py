"""One task while it is being tuned: its memory, its policies, its best candidate."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from functools import cached_property
from heapq import nsmallest
from itertools import zip_longest
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from autosched.measure.protocol import Runner
from autosched.measure.result import WRONG_RESULT, Failure, MeasureResult, Timing, scaled
from autosched.records.error_budget import errors_of, is_beyond_budget
from autosched.records.paired import winner
from autosched.search.choice import make_policy, uses_model
from autosched.search.favourite import ahead_of_reference
from autosched.search.finish import FinishPolicy
from autosched.search.learner import Learner
from autosched.search.measured import Measured
from autosched.search.policy import SearchPolicy
from autosched.search.restricted import CandidatePool, RestrictedPolicy
from autosched.search.space import Space, space_of
from autosched.system.errors import TuningError
from autosched.tasks.candidate import Candidate
from autosched.tasks.rough_seconds import rough_seconds
from autosched.tuning.options import TuneOptions
from autosched.tuning.task_progress import TaskInfo, Turn
from sketch.dag.dag import ComputeDAG

if TYPE_CHECKING:
    from autosched.tasks.spec import TaskSpec
    from sketch.schedule.sketch import Sketch


class _Told(NamedTuple):
    """A candidate, its result as the search took it, and as it was measured."""

    candidate: Candidate
    result: MeasureResult
    measured: MeasureResult


class TaskRun:
    """What the tuning loop keeps of a task.

    Its space is drawn when it is first needed: while a batch of another task is compiled, mostly.

    Attributes:
        best_s: best seconds of the search, checked against the oracle; infinite before.
        retimed: timing of the winner among the leaders, re-timed in turns; None before.
        last_s: best seconds of the last batch.
        first_failure: the first failure that was told in this run.
        touched: whether something was measured in this run.
        errors: what is known of the errors of the task's variants.

    ``others``: what other tasks suggest for one that nothing is known of.  ``pool``: the only
    candidates that may be proposed; None: the task's whole space.
    """

    def __init__(
        self,
        task: TaskSpec,
        learner: Learner,
        options: TuneOptions,
        rng: np.random.Generator,
        others: Callable[[TaskSpec, Sequence[Sketch]], tuple[Candidate, ...]] = lambda *_: (),
        pool: Sequence[Candidate] | None = None,
    ) -> None:
        self.task = task
        self.best_s = math.inf
        self.last_s = math.inf
        self.retimed: Timing | None = None
        self.first_failure: Failure | None = None
        self.touched = False
        self.errors = errors_of(task, (), options.accuracy)
        self._learner, self._options, self._rng = learner, options, rng
        self._others = others
        self._pool = None if pool is None else CandidatePool(pool)
        self._seeds: Sequence[Candidate] = ()
        self._unit = (math.inf, "")  # of the candidate with that time
        self._told: list[_Told] = []
        self._fastest: list[tuple[float, Candidate]] = []  # as it was measured

    @cached_property
    def measured(self) -> Measured:
        """What is known of the task."""
        return Measured(self._space.sketches)

    @property
    def _space(self) -> Space:
        return space_of(self.task, self._options.search.space)

    @property
    def successes(self) -> int:
        """Candidates that have a time, those of earlier runs included."""
        return self.measured.successes if "measured" in self.__dict__ else 0

    @property
    def unit(self) -> str:
        """The name of the tensor unit that the fastest is computed on; "": plain vectors."""
        if self._unit[0] != self.best_s and self.successes:
            ((_, best),) = self.measured.leaders(1)
            self._unit = self.best_s, best.unit
        return self._unit[1]

    @property
    def shapes(self) -> str:
        """Output shapes, for people."""
        return ", ".join("x".join(map(str, t.shape)) for t in self.task.dag.output_arrays)

    def info(self) -> TaskInfo:
        """For the scheduler."""
        task = self.task
        estimate_s = rough_seconds(task.dag, task.target)
        return TaskInfo(task.weight, task.flops, estimate_s, kind_of(task.dag))

    def seed(self, seeds: Sequence[Candidate]) -> None:
        """Candidates to try first, to be called before anything else."""
        self._seeds = seeds

    def ask(self, turn: Turn) -> list[Candidate]:
        """The batch of a turn; the wide search steps in where the finish has nothing left."""
        self.touched = True
        self._learner.begin_round()
        finish = turn.finish and self._uses_model and self._pool is None
        batch = self._finish.ask(turn.trials) if finish else []
        return (batch or self._search.ask(turn.trials))[: turn.trials]  # a policy is anybody's

    @property
    def anchor(self) -> tuple[float, Candidate]:
        """The least time that was measured, and what took it; there must be one."""
        return self._fastest[0]

    def leaders(self, count: int) -> list[Candidate]:
        """The candidates of ``contenders``."""
        return [candidate for _, candidate in self.contenders(count)]

    def contenders(self, count: int, doubt: float = 0.0) -> list[tuple[float, Candidate]]:
        """The fastest candidates and their seconds, by what was measured and by what they are
        believed to take in turns: beliefs that a disturbed machine gave must win against what is
        known.  ``doubt``: part of the time by which they count as slower.
        """
        believed = [((1.0 + doubt) * s, candidate) for s, candidate in self.measured.leaders(count)]
        pairs = zip_longest(self._fastest, believed)
        found: dict[Hashable, tuple[float, Candidate]] = {}
        for seconds, candidate in (known for pair in pairs for known in pair if known is not None):
            found.setdefault(candidate.key, (seconds, candidate))
        return list(found.values())[:count]

    def tell(
        self,
        candidates: Sequence[Candidate],
        results: Sequence[MeasureResult],
        measured: Sequence[MeasureResult] | None = None,
    ) -> None:
        """Results for the memory, the model and the books.

        Args:
            candidates: of a batch.
            results: one for each, as the search is to take it.
            measured: what was measured; None: the same.
        """
        self._note(candidates, results, measured or results)
        self._search.tell(candidates, results)
        if self._uses_model:  # kernels that are too inaccurate are not slow
            taught = [
                row for row in zip(candidates, results, strict=True) if not is_beyond_budget(row[1])
            ]
            self._learner.tell(self.task.key, [c for c, _ in taught], [r for _, r in taught])

    def correct(self, candidate: Candidate, result: Timing) -> None:
        """Believe the timing of a candidate instead of what was known of it."""
        key = candidate.key
        self._told = [
            _Told(candidate, result, result) if told.candidate.key == key else told
            for told in self._told
        ]
        others = [known for known in self._fastest if known[1].key != key]
        self._fastest = sorted([*others, (result.median, candidate)], key=itemgetter(0))
        self.measured.correct(candidate, result.median)
        self.best_s = min(self.best_s, result.median)

    def scale(self, factor: float) -> None:
        """Multiply all times that are known: the machine was slower when they were measured."""
        self._told = [
            _Told(told.candidate, scaled(told.result, factor), scaled(told.measured, factor))
            for told in self._told
        ]
        self._fastest = [(factor * seconds, candidate) for seconds, candidate in self._fastest]
        self.best_s, self.last_s = factor * self.best_s, factor * self.last_s
        self.measured.scale(factor)
        self._learner.scale(self.task.key, factor)

    def restrict(self, largest: float) -> int:
        """Hold the task to an error, in what is known, too: whatever has more of it has failed, and
        the search begins again with the rest.

        Returns:
            the number of trials that count.
        """
        self.errors.in_network = largest
        for name in ("measured", "_search", "_finish"):
            self.__dict__.pop(name, None)
        self._seeds = ()
        candidates = [told.candidate for told in self._told]
        results = self.held(candidates, [told.result for told in self._told])
        measured = self.held(candidates, [told.measured for told in self._told])
        self._told, self._fastest, self.best_s = [], [], math.inf
        self._note(candidates, results, measured)
        self._search.tell(candidates, results)
        return sum(not is_beyond_budget(result) for result in results)

    def _note(
        self,
        candidates: Sequence[Candidate],
        results: Sequence[MeasureResult],
        measured: Sequence[MeasureResult],
    ) -> None:
        told = [_Told(*row) for row in zip(candidates, results, measured, strict=True)]
        self._told += told
        raw = [
            (t.measured.median, t.candidate)
            for t in told
            if isinstance(t.measured, Timing) and isinstance(t.result, Timing)
        ]
        most = max(1, self._options.leaders, self._options.contenders)
        self._fastest = nsmallest(most, [*self._fastest, *raw], key=itemgetter(0))
        times = [result.median for result in results if isinstance(result, Timing)]
        self.last_s = min(times, default=math.inf)
        self.best_s = min(self.best_s, self.last_s)
        failures = (result for result in results if isinstance(result, Failure))
        self.first_failure = self.first_failure or next(failures, None)

    def held(
        self, candidates: Sequence[Candidate], results: Sequence[MeasureResult]
    ) -> list[MeasureResult]:
        """New results as the search takes them: what is too inaccurate has failed."""
        variants = [candidate.sketch.variant for candidate in candidates]
        self.errors.note(variants, results)
        return [self.errors.hold(v, result) for v, result in zip(variants, results, strict=True)]

    def retime(self, results: Sequence[MeasureResult]) -> None:
        """Results of the leaders, re-timed in turns; fastest of the search first."""
        number = winner(results)
        result = None if number is None else results[number]
        self.retimed = result if isinstance(result, Timing) else None

    def _predicted(self) -> tuple[Candidate, ...]:
        """What would be compiled without tuning, where the options want it first."""
        if not self._options.predicted_first:
            return ()
        task = self.task
        return ahead_of_reference(self._space, task.target, task.variants[0].name)

    def _first(self) -> tuple[Candidate, ...]:
        """What the wide search begins with; what others know only where nothing is known.

        The favourite of the draft goes before that: first batches may be of two.
        """
        if self._seeds or self._told:
            return (*self._seeds, *self._predicted())
        others = self._others(self.task, self._space.sketches)
        favourite = (self._space.draft_candidate(),) if others else ()
        return (*(self._predicted() or favourite), *others)

    @property
    def _uses_model(self) -> bool:
        return uses_model(self._options.search)

    @cached_property
    def _finish(self) -> FinishPolicy:
        scorer = self._learner.scorer(self.task.key)
        return FinishPolicy(self.measured, scorer, self._options.search.finish)

    @cached_property
    def _search(self) -> SearchPolicy:
        policy = make_policy(
            self._space, self._learner.scorer(self.task.key), self._rng,
            self._options.search, self.measured, self._first(),
        )  # fmt: skip
        return policy if self._pool is None else RestrictedPolicy(policy, self._pool)


def verify_new_best(
    run: TaskRun,
    runner: Runner,
    candidates: Sequence[Candidate],
    results: Sequence[MeasureResult],
    tolerance: float,
) -> list[MeasureResult]:
    """Results of a batch in which the fastest, if it is a new best, is known to be right.

    A wrong one becomes a failure, and the next fastest is looked at; so it is where the errors of
    its variant turn out to be too large.

    Args:
        run: state of the task.
        runner: runs candidates against the oracle.
        candidates: of the batch.
        results: one for each candidate.
        tolerance: largest error, relative to the oracle's error bounds.
    """
    checked = list(results)
    timed = [(r.median, n) for n, r in enumerate(checked) if isinstance(r, Timing)]
    for seconds, n in sorted(timed):
        if seconds >= run.best_s:
            break
        checked[n] = _verified(run, runner, candidates[n], checked[n], tolerance)
        (held,) = run.held([candidates[n]], [checked[n]])
        if isinstance(held, Timing):
            break
    return checked


def _verified(
    run: TaskRun, runner: Runner, candidate: Candidate, result: MeasureResult, tolerance: float
) -> MeasureResult:
    assert isinstance(result, Timing)
    error = result.error
    if error is None:
        found = runner.verify(run.task, candidate)
        if isinstance(found, Failure):
            return found
        error = found
    if not error <= tolerance:  # also when it is NaN
        message = f"relative error {error:.3g} against the oracle, {tolerance:g} is allowed"
        return Failure("verify", WRONG_RESULT, message)
    return replace(result, error=error)


def check_success(runs: Sequence[TaskRun], trials: int) -> None:
    """Nothing measured is an error, not a result.

    Args:
        runs: all tasks.
        trials: of all of them, in this run.

    Raises:
        TuningError: there were trials, and all of them failed.
    """
    failed = [run for run in runs if run.first_failure is not None]
    if not trials or not failed or any(run.successes for run in runs):
        return
    run = failed[0]
    raise TuningError(
        f"none of {trials} candidates ran; the first cause: {run.first_failure}",
        f"task {run.task.name} ({run.task.key})",
        "mend that first; every failure and its message is in the log",
    )


def kind_of(dag: ComputeDAG) -> tuple[tuple[int, int], ...]:
    """Programs of equal shape, whatever their extents: axes and reduce axes of every stage."""
    return tuple((len(op.axes), len(op.reduce_axes)) for op in dag.stages)
