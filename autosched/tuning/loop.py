"""The tuning loop: scheduler -> policy -> runner -> records -> model, until the budget is spent."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from autosched.measure.errors import BatchInterrupted
from autosched.measure.protocol import Ticket
from autosched.measure.result import Failure, MeasureResult
from autosched.records.error_budget import held_to
from autosched.records.record import Phase, Record, record_of
from autosched.records.title import title_of
from autosched.report.events import ProgressSnapshot
from autosched.report.table import duration
from autosched.search.learner import Learner
from autosched.search.models import model_of
from autosched.search.recall import best_of
from autosched.system.noted_signals import NotedSignals
from autosched.system.stability import Watch, tree_cpu_s
from autosched.system.stopwatch import Stopwatch
from autosched.system.versions import software_versions
from autosched.tasks.candidate import Candidate
from autosched.tuning.disturbance import Disturbances
from autosched.tuning.job import TuneJob
from autosched.tuning.network_limit import NetworkLimit
from autosched.tuning.result import TaskResult, TuneResult, stability_of
from autosched.tuning.resumed import changes, resumed
from autosched.tuning.retiming import comparisons
from autosched.tuning.scheduler import TaskScheduler
from autosched.tuning.snapshot import snapshot
from autosched.tuning.spaces_ahead import SpacesAhead
from autosched.tuning.task_progress import Turn
from autosched.tuning.task_run import TaskRun, check_success, verify_new_best
from autosched.tuning.transfer import Transfer

if TYPE_CHECKING:
    from autosched.tasks.spec import TaskSpec


@dataclass(frozen=True, slots=True)
class _Batch:
    """A batch that was chosen; ``ticket``: what it was submitted with."""

    turn: Turn
    candidates: tuple[Candidate, ...]
    ticket: Ticket | None = None


class TuningLoop:
    """One run of a job that has a runner, see ``run.run_job``; ``signals`` may end it."""

    def __init__(self, job: TuneJob, signals: NotedSignals) -> None:
        assert job.runner is not None, "run_job starts one"
        self._signals = signals
        options, tasks = job.options, job.tasks
        self._clock, self._now, self._began = job.clock, job.now, job.clock()
        self._runner, self._log, self._options = job.runner, job.log, options
        self._progress, self._cache_state = job.progress, job.cache_state
        self._callbacks, search = job.callbacks, options.search
        model = model_of(job.cost_model, tasks[0].target, options.seed, search.gbdt)
        self._learner = Learner(model, search.model_trials, search.learner, search.extra_features)
        rng = job.rng or np.random.default_rng(options.seed)
        pools, self._thinking = job.pools, Stopwatch()
        self._transfer = Transfer(job.examples, 0 if pools else search.transferred)
        self._runs = [
            TaskRun(
                task, self._learner, options, own, self._transfer.seeds,
                None if pools is None else pools[task.key],
            )
            for task, own in zip(tasks, rng.spawn(len(tasks)), strict=True)
        ]  # fmt: skip
        timed = [task for task in tasks if not task.target.card.emulated]
        self._scheduler = TaskScheduler(
            [run.info() for run in self._runs], options if timed else options.emulated,
            job.objective, self._elapsed, options.reserve_s(len(timed)), job.usage,
            self._runner.trials_in_flight,
        )  # fmt: skip
        self._network = NetworkLimit(job, self._runs, self._scheduler)
        self._spaces = SpacesAhead(self._runner, tasks, search.space)
        self._records: list[Record] = []
        self._measured: list[tuple[Record, Candidate]] = []  # in this run
        self._warnings: list[str] = []
        self._versions = software_versions()
        self._trials = self._faults_told = 0
        self._watch = Watch(tree_cpu_s)  # it is a child of a child that times
        self._disturbances = Disturbances(options)
        self._finished: set[int] = set()

    def tune(self) -> TuneResult:
        """Resume, search, re-time the leaders."""
        stopped = ""
        self._resume()
        self._progress.start(self._view(None))
        try:
            self._signals.check()
            stopped = self._search()
            self._tell_finished(stopped)
            # A fleet times elsewhere: what this machine does besides says nothing.
            with nullcontext() if self._runner.trials_in_flight else self._watch:
                self._retime()
            self._tell_disturbed()
            self._signals.check()
        except KeyboardInterrupt:
            stopped = "interrupted"
        finally:
            self._progress.finish(self._view(None, stopped))
        if stopped != "interrupted":
            check_success(self._runs, self._trials)
        return self._result(stopped)

    def _elapsed(self) -> float:
        return self._clock() - self._began

    def _resume(self) -> None:
        """What the log knows is told to the policies and the model, and counts as trials."""
        if self._log is None:
            return
        found = self._log.read({run.task.key for run in self._runs})
        self._warnings += found.warnings
        self._records = list(found.records)
        self._transfer.note(found.records)
        known = resumed(
            [run.task for run in self._runs], found.records, self._cache_state, self._runner,
            self._options, self._elapsed,
        )  # fmt: skip
        for index, (run, now) in enumerate(zip(self._runs, known, strict=True)):
            self._warnings += now.memory.warnings
            run.seed(now.memory.seeds)
            if candidates := now.memory.candidates:
                run.tell(candidates, run.held(candidates, now.results))
                run.best_s = now.best_s
                failed = sum(isinstance(result, Failure) for result in now.results)
                self._scheduler.restore(index, len(candidates), failed, now.best_s, now.history)
            if now.leaders:
                self._write(run.task, now.leaders, run.errors.added(now.leaders, now.again))
        self._warnings += filter(None, [changes(known)])
        self._learner.learn()
        for warning in self._warnings:
            self._progress.message(f"warning: {warning}")

    def _search(self) -> str:
        if self._runner.trials_in_flight:
            self._search_on_many()
        else:
            self._search_on_one()
        scheduler, took = self._scheduler, duration(self._elapsed())
        if scheduler.enough:
            self._progress.message(f"stopped after {took}: {scheduler.stopped}")
        return scheduler.stopped

    def _search_on_one(self) -> None:
        """One batch after another, until the budget is spent."""
        self._spaces.begin(self._scheduler.cold_tasks()[1:])
        batch = self._propose()
        while batch is not None:
            self._signals.check()
            ahead = self._measure(batch)
            self._look_back()
            in_time = self._scheduler.time_left_s() > 0
            batch = ahead if ahead is not None and in_time else self._propose()

    def _search_on_many(self) -> None:
        """Many batches on their way at any time; they are taken in the order of their beginning.

        So what is proposed follows from the results before it, whichever machine was faster.
        """
        flying: deque[_Batch] = deque()
        began = self._clock()
        while self._submitted(flying, began):
            self._signals.check()
            self._finish(flying.popleft(), began)
            began = self._clock()
            self._look_back()

    def _submitted(self, flying: deque[_Batch], began: float) -> bool:
        """Submit as much as the runner wants, and learn; whether something is on its way.

        ``began``: when the time of the oldest batch began to count.
        """
        while sum(len(b.candidates) for b in flying) < (wanted := self._runner.trials_in_flight):
            batch = self._propose([b.turn for b in flying], self._clock() - began)
            if batch is None:  # nor will anything be: nobody needs to learn
                return bool(flying)
            task = self._runs[batch.turn.task].task
            flying.append(replace(batch, ticket=self._runner.submit(task, batch.candidates)))
        with self._thinking:
            self._learner.learn(wanted)
        return True

    def _propose(self, busy: Sequence[Turn] = (), spent_s: float = 0.0) -> _Batch | None:
        """The next batch; ``busy``: turns whose results are not in yet, see ``next_turn``."""
        with self._thinking:
            return self._choose(busy, spent_s)

    def _choose(self, busy: Sequence[Turn], spent_s: float) -> _Batch | None:
        while True:
            turn = self._scheduler.next_turn(busy, spent_s)
            if turn is None:
                return None
            if not busy and not self._learner.may_wait:
                self._learner.learn()
            self._spaces.finish(turn.task)
            if candidates := self._runs[turn.task].ask(turn):  # perhaps fewer than it may have
                return _Batch(replace(turn, trials=len(candidates)), tuple(candidates))
            self._scheduler.stop_task(turn.task, "every candidate was measured")

    def _measure(self, batch: _Batch) -> _Batch | None:
        """Measure a batch; while it is compiled, learn and choose a batch of another task."""
        began, task = self._clock(), self._runs[batch.turn.task].task
        self._spaces.begin(self._scheduler.cold_tasks())
        submitted = replace(batch, ticket=self._runner.submit(task, batch.candidates))
        with self._thinking:
            self._learner.prepare()
            self._learner.learn()
        ahead = self._propose([batch.turn], self._clock() - began)
        self._signals.check()
        self._finish(submitted, began)
        return ahead

    def _finish(self, batch: _Batch, began: float) -> None:
        """Wait for a batch and take its results; ``began``: when its time began to count."""
        assert batch.ticket is not None, "it was submitted"
        run, candidates = self._runs[batch.turn.task], batch.candidates
        tolerance, results = self._options.tolerance, list[MeasureResult]()
        best_s = run.best_s * self._disturbances.level  # on the machine as it is now
        trials = self._scheduler.tasks[batch.turn.task].trials
        try:
            results = self._runner.collect(batch.ticket, best_s)
            checked = verify_new_best(run, self._runner, candidates, results, tolerance)
        except KeyboardInterrupt as interrupt:
            timed = interrupt.results if isinstance(interrupt, BatchInterrupted) else results
            self._keep(batch, list(timed), began)
            raise
        self._write(run.task, candidates, checked, "trial", trials)
        raw, before = run.held(candidates, checked), run.best_s
        try:
            checked = self._undisturbed(batch.turn.task, candidates, raw)
        except KeyboardInterrupt:
            self._enter(batch, raw, raw, began)
            raise
        self._enter(batch, checked, raw, began)
        self._progress.update(self._view(batch.turn.task))
        self._tell_faults()
        self._tell_batch(run, candidates, checked, before)

    def _keep(self, batch: _Batch, results: list[MeasureResult], began: float) -> None:
        """What was timed of a batch before it was interrupted."""
        run, candidates = self._runs[batch.turn.task], batch.candidates[: len(results)]
        trials = self._scheduler.tasks[batch.turn.task].trials
        self._write(run.task, candidates, results, "trial", trials)
        self._enter(batch, held := run.held(candidates, results), held, began)

    def _enter(
        self,
        batch: _Batch,
        results: list[MeasureResult],
        measured: list[MeasureResult],
        began: float,
    ) -> None:
        """Tell the search and the scheduler what a batch gave; see ``TaskRun.tell``."""
        run, task = self._runs[batch.turn.task], batch.turn.task
        with self._thinking:
            run.tell(batch.candidates[: len(results)], results, measured)
        self._trials += len(results)
        failed = sum(isinstance(result, Failure) for result in results)
        self._scheduler.record(task, len(results), failed, run.best_s, self._clock() - began)

    def _undisturbed(
        self, index: int, candidates: Sequence[Candidate], results: list[MeasureResult]
    ) -> list[MeasureResult]:
        """A batch as it would have been on a quiet machine."""
        run, known = self._runs[index], self._disturbances
        if run.task.target.card.emulated or self._runner.trials_in_flight:
            return results  # estimates, or of a runner that looks after its machines itself
        quicker = known.quicker(run, self._runner, results)
        if quicker > 1.0:
            run.scale(1.0 / quicker)
            self._scheduler.scale(index, 1.0 / quicker)
        found = known.undisturbed(run, self._runner, candidates, results)
        timed, again = known.take()
        if timed:
            self._write(run.task, timed, run.errors.added(timed, again), "trial")
        return found

    def _tell_faults(self) -> None:
        """What is new among the faults of the cost model."""
        faults = self._learner.faults
        for fault in faults[self._faults_told :]:
            self._progress.message(f"warning: {fault}")
        self._faults_told = len(faults)

    def _tell_batch(
        self,
        run: TaskRun,
        candidates: Sequence[Candidate],
        results: Sequence[MeasureResult],
        before: float,
    ) -> None:
        """``before``: the task's best seconds before the batch."""
        for callback in self._callbacks:
            callback.on_batch(run.task, candidates, results)
            if run.best_s < before:
                ((_, best),) = run.measured.leaders(1)
                callback.on_new_best(run.task, best, run.best_s)
        self._tell_finished("")

    def _tell_finished(self, ended: str) -> None:
        """Tasks that were given up; with ``ended``, why the run ended, all of the others, too."""
        for index, progress in enumerate(self._scheduler.tasks):
            reason = progress.stopped or ended
            if reason and index not in self._finished:
                self._finished.add(index)
                for callback in self._callbacks:
                    callback.on_task_finished(self._runs[index].task, reason)

    def _retime(self) -> None:
        """Time the leaders of every task that was measured in this run against each other.

        Times of an emulated device are estimated: they would be the same again.
        """
        timed = [run for run in self._runs if not run.task.target.card.emulated]
        runs = [run for run in timed if run.touched and run.successes]
        for run, leaders, found in comparisons(
            runs, self._runner, self._options, self._elapsed, self._options.budget_s or math.inf
        ):
            results = run.errors.added(leaders, found)
            self._write(run.task, leaders, results)
            run.retime(results)
            self._progress.update(self._view(self._runs.index(run)))
            self._signals.check()

    def _write(
        self,
        task: TaskSpec,
        candidates: Sequence[Candidate],
        results: Sequence[MeasureResult],
        phase: Phase = "final",
        before: int | None = None,
    ) -> None:
        """``before``: trials that the task had before; None: all were measured before."""
        make = partial(
            record_of, task.key, target=task.target, phase=phase, seed=self._options.seed,
            versions=self._versions, time=self._now(), title=title_of(task),
        )  # fmt: skip
        records = [
            make(candidate, result=result, trial=None if before is None else before + n)
            for n, (candidate, result) in enumerate(zip(candidates, results, strict=True), 1)
        ]
        self._records += records
        self._transfer.note(records)
        self._measured += zip(records, candidates, strict=True)
        if self._log is not None:
            self._log.append(records)

    def _tell_disturbed(self) -> None:
        if told := str(self._disturbances):
            self._warnings.append(told)
            self._progress.message(told)

    def _look_back(self) -> None:
        """At what came of all batches so far."""
        self._network.hold(self._records, self._progress)
        tried = [task.stopped or task.batches for task in self._scheduler.tasks]
        if all(tried) and any(task.stopped for task in self._scheduler.tasks):
            check_success(self._runs, self._trials)

    def _result(self, stopped: str) -> TuneResult:
        items = tuple(self._task_result(n) for n in range(len(self._runs)))
        bare = [f"{item}" for item in items if item.best is None and item.trials]
        return TuneResult(
            items, tuple(self._records), self._trials, self._elapsed(), stopped,
            (*self._warnings, *self._learner.warnings, *bare), self._thinking.seconds,
            self._watch.conditions,
        )  # fmt: skip

    def _task_result(self, index: int) -> TaskResult:
        run, progress = self._runs[index], self._scheduler.tasks[index]
        records = held_to(self._records, run.task, self._options.accuracy, run.errors.in_network)
        found = best_of(run.task, records, self._cache_state, self._measured)
        return TaskResult(
            run.task,
            None if found is None else found.candidate,
            math.inf if found is None else found.seconds,
            progress.trials, progress.failed, run.first_failure, progress.stopped,
            None if found is None else stability_of(found.record, self._watch.conditions),
        )  # fmt: skip

    def _view(self, current: int | None, stopped: str = "") -> ProgressSnapshot:
        return snapshot(
            self._runs, self._scheduler, self._options, self._elapsed(), self._trials,
            self._watch.conditions, current, stopped,
        )  # fmt: skip
