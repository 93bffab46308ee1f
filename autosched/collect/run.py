"""Measuring a corpus: task after task, until the time is over."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from autosched.collect.hopeful import HopefulScorer
from autosched.collect.sources import Sourced
from autosched.collect.task_work import TaskWork, WorkBatch
from autosched.measure.options import MeasureOptions
from autosched.measure.result import Failure, MeasureResult, Timing
from autosched.records.corpus import Corpus, ProgramGroup
from autosched.records.corpus_file import alone_with, check_corpus
from autosched.records.errors import RecordError
from autosched.records.identity import compatible, recorded
from autosched.records.record import record_of
from autosched.search.corpus_data import CorpusReplayer
from autosched.search.learner import Learner
from autosched.search.models import make_model
from autosched.search.options import LearnerOptions
from autosched.system.noted_signals import NotedSignals, noted_signals
from autosched.tasks.candidate import Candidate
from autosched.tasks.rough_seconds import rough_seconds
from sketch.replaced_file import file_state

if TYPE_CHECKING:
    from autosched.measure.protocol import Runner
    from autosched.tasks.spec import TaskSpec
    from sketch.target.target import Target

MEASURE: Final = MeasureOptions(
    check="none", samples=7, burst_s=0.06, build_timeout_s=10.0, run_timeout_s=5.0, inputs="aligned"
)
"""Many programs, measured well enough to be ranked."""

# Learning from all programs takes seconds: they are learned again when there are so many more.
_LEARNER: Final = LearnerOptions(growth=0.5)
_RECALLED: Final = 4000  # programs of earlier runs that the model of the search begins with
_SAVE_EVERY_S: Final = 30.0
# Of a task at the machine's best; its candidates take several times as long.
_LONGEST_TASK_S: Final = 25e-3


@dataclass(frozen=True, slots=True)
class CollectOptions:
    """How much is measured.

    Attributes:
        budget_s: wall-clock limit.
        programs: of a task, at most.
        seed: of the candidates.
    """

    budget_s: float
    programs: int = 96
    seed: int = 0


@dataclass(frozen=True, slots=True)
class CollectProgress:
    """How far a run is.

    Attributes:
        programs, tasks: in the corpus, those of earlier runs included.
        measured: programs of this run, failures included.
        failed: of them.
        elapsed_s, left_s: of its time.
        task: the one at work.
    """

    programs: int
    tasks: int
    measured: int
    failed: int
    elapsed_s: float
    left_s: float
    task: str

    @property
    def rate(self) -> float:
        """Programs a second of this run."""
        return self.measured / max(self.elapsed_s, 1e-9)


@dataclass(eq=False)
class Collector:
    """One run.

    Attributes:
        path: of the corpus; one that exists is continued.
        runner: measures; it must have been started before anything loads an OpenMP runtime.
        target: the machine of the runner.
        options: how much.
        show: told of every batch.
        warn: told what was left out, and why.
        clock: in seconds.
    """

    path: Path
    runner: Runner
    target: Target
    options: CollectOptions
    show: Callable[[CollectProgress], None] = lambda _: None
    warn: Callable[[str], None] = lambda _: None
    clock: Callable[[], float] = time.monotonic
    corpus: Corpus = field(init=False)

    def __post_init__(self) -> None:
        self._state = file_state(self.path)
        self.corpus = Corpus.load(self.path) if os.path.exists(self.path) else Corpus()
        self._machine = recorded(self.target)
        self._replayer = CorpusReplayer()
        model = make_model("gbdt", self.options.seed)
        self._learner = Learner(model, options=_LEARNER)
        self._scorer = HopefulScorer(model)
        self._began = self._saved_s = self.clock()
        self._measured = self._failed = 0

    def collect(self, tasks: Iterable[Sourced]) -> Corpus:
        """Measure programs of the tasks, but for those that are known, until the time is over.

        Whatever ends it, what was measured is saved; every half minute it is saved anyway.

        Raises:
            RecordError: the corpus cannot be written; nothing is measured where that is known.
        """
        check_corpus(self.path)
        with noted_signals() as signals:
            try:
                self._recall()
                self._run(self._batches(tasks), signals)
            finally:
                self._save()
        for line in self._replayer.report():
            self.warn(line)
        return self.corpus

    def _run(self, batches: Iterator[WorkBatch], signals: NotedSignals) -> None:
        """While a batch is compiled the next is chosen; while one is timed nothing else goes on."""
        batch = next(batches, None)
        while batch is not None and self._left_s() > 0:
            signals.check()
            ticket = self.runner.submit(batch.work.task, batch.candidates)
            self._learner.learn()
            following = next(batches, None)
            signals.check()
            self._note(batch, self.runner.collect(ticket))
            batch = following

    def _batches(self, tasks: Iterable[Sourced]) -> Iterator[WorkBatch]:
        """The random half of each task, and then the search of the task before: when it is chosen,
        the results of its random half are known.
        """
        before: TaskWork | None = None
        for sourced in tasks:
            work = self._work(sourced)
            if work is not None:
                yield from work.by_chance()
                if before is not None:
                    yield from before.by_search()
                before = work
        if before is not None:
            yield from before.by_search()

    def _work(self, sourced: Sourced) -> TaskWork | None:
        """What is to be done for a task; None where nothing is."""
        task, options = sourced.task, self.options
        if rough_seconds(task.dag, self.target) > _LONGEST_TASK_S:
            return None
        self.corpus.add_task(task, sourced.origins)
        count = self.corpus.count(task.key, self._machine)
        if count >= options.programs:
            return None
        rng = np.random.default_rng((options.seed, int(task.key, 16), count))
        known = [c for group in self._groups(task) for c in self._replayer.candidates(group)]
        try:
            return TaskWork(task, options.programs - count, known, self._scorer, rng)
        except Exception as error:  # one task must not end a run of hours
            self.warn(f"{task.name} left out: {type(error).__name__}: {error}")
        return None

    def _groups(self, task: TaskSpec) -> list[ProgramGroup]:
        """What is known of a task on this machine."""
        if not self.corpus.count(task.key, self._machine):
            return []
        return [
            group
            for group in self.corpus.groups()
            if compatible(group.target, self._machine) and group.task.key == task.key
        ]

    def _left_s(self) -> float:
        return self.options.budget_s - (self.clock() - self._began)

    def _note(self, batch: WorkBatch, results: list[MeasureResult]) -> None:
        """Keep the results, learn from them, and tell how far the run is."""
        task, candidates = batch.work.task, batch.candidates
        records = [
            record_of(task.key, candidate, self.target, result)
            for candidate, result in zip(candidates, results, strict=True)
        ]
        self.corpus.append(records, batch.searched)
        batch.work.tell(candidates, results)
        self._learner.tell(task.key, candidates, results)
        self._measured += len(results)
        self._failed += sum(isinstance(result, Failure) for result in results)
        if self.clock() - self._saved_s > _SAVE_EVERY_S:
            self._save()
            self._saved_s = self.clock()
        self.show(self._progress(task.name))

    def _save(self) -> None:
        """Write the corpus, with what another process has added to the file meanwhile."""
        with alone_with(self.path):
            if file_state(self.path) not in ("", self._state):
                try:
                    self.corpus.merge(Corpus.load(self.path))
                except RecordError as error:
                    self.warn(f"what is written over: {error}")
            self.corpus.save(self.path)
            self._state = file_state(self.path)

    def _progress(self, task: str) -> CollectProgress:
        left_s = self._left_s()
        return CollectProgress(
            len(self.corpus), len(self.corpus.measured_tasks), self._measured, self._failed,
            self.options.budget_s - left_s, left_s, task,
        )  # fmt: skip

    def _recall(self) -> None:
        """Teach the model some of what earlier runs have measured."""
        groups = [
            group for group in self.corpus.groups() if compatible(group.target, self._machine)
        ]
        taught = 0
        for place in np.random.default_rng(self.options.seed).permutation(len(groups)).tolist():
            if taught >= _RECALLED:
                break
            candidates = self._replayer.candidates(groups[place])
            results = _results(candidates, groups[place])
            self._learner.tell(groups[place].task.key, candidates, results)
            taught += len(candidates)
        self._learner.learn()


def _results(candidates: list[Candidate], group: ProgramGroup) -> list[MeasureResult]:
    """What the candidates of a group took; none where they do not replay."""
    seconds = group.seconds.tolist()[: len(candidates)]
    return [Timing((s,)) if s > 0 else Failure("run", "Failed", "") for s in seconds]
