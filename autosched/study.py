"""Studies of policies and models on what was measured before: no compiler, no hardware."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from autosched.measure.replay import CandidateKey, ReplayRunner
from autosched.measure.result import CacheState, MeasureResult, Timing
from autosched.records.core_key import core_key
from autosched.records.corpus import Corpus
from autosched.records.record import Record
from autosched.report.callbacks import Callback
from autosched.search.learner import training_data
from autosched.search.models import AnyModel
from autosched.search.recall import TaskHistory, recall
from autosched.system.errors import OptionError
from autosched.system.user_warnings import notify
from autosched.tasks.candidate import Candidate
from autosched.tasks.spec import TaskSpec
from autosched.tuning.job import TuneJob
from autosched.tuning.objectives import Objective, weighted_sum
from autosched.tuning.options import TuneOptions, options_or_default
from autosched.tuning.result import TuneResult
from autosched.tuning.run import run_job
from costmodel.dataset import Dataset
from costmodel.extract.extra import ExtraColumns
from sketch.errors import AutoschedError, quoted

if TYPE_CHECKING:
    from costmodel.evaluation import Evaluation, Split
    from costmodel.extra_feature import ExtraFeature
    from costmodel.model import CostModel


@dataclass(frozen=True, slots=True, eq=False)
class RecordedTable:
    """What records say of tasks, for runs that propose recorded candidates only.

    Attributes:
        pools: by task key, the candidates, in the order of the records.
        results: by task key and ``Candidate.key``.
    """

    pools: Mapping[str, Sequence[Candidate]]
    results: Mapping[str, Mapping[CandidateKey, MeasureResult]]

    @staticmethod
    def of(
        tasks: Sequence[TaskSpec],
        records: Sequence[Record],
        cache_state: CacheState | None = None,
    ) -> RecordedTable:
        """Warns of records that do not replay.

        Args:
            tasks: whose records count.
            records: of a log or of a corpus.
            cache_state: only timings taken in that state; None: all.

        Raises:
            OptionError: ``records`` is something else, such as a path or a corpus.
        """
        _check_records(records)
        memories = {task.key: _recalled(task, records, cache_state) for task in tasks}
        return RecordedTable(
            {key: memory.candidates for key, memory in memories.items()},
            {
                key: {c.key: result for c, result in zip(m.candidates, m.results, strict=True)}
                for key, m in memories.items()
            },
        )

    def __len__(self) -> int:
        """Programs."""
        return sum(len(pool) for pool in self.pools.values())

    def runner(self) -> ReplayRunner:
        """Answers from the table."""
        return ReplayRunner(self.results)

    def best_s(self, task_key: str) -> float:
        """Least seconds of a task; infinite without a success."""
        found = self.results.get(task_key, {}).values()
        times = (result.median for result in found if isinstance(result, Timing))
        return min(times, default=math.inf)


def replay_study(
    tasks: Sequence[TaskSpec],
    records: Sequence[Record],
    options: TuneOptions | None = None,
    *,
    cache_state: CacheState | None = None,
    cost_model: AnyModel | None = None,
    objective: Objective = weighted_sum,
    callbacks: Sequence[Callback] = (),
    extra_features: Sequence[ExtraFeature] | None = None,
) -> TuneResult:
    """A tuning run in which only recorded candidates are proposed, and answered from the records.

    A policy's proposals become the nearest recorded candidates that it has not had yet (see
    ``search.restricted``), so any policy and any cost model can be compared on one table; a record
    of random candidates is a fair one.  Equal arguments give equal sequences of trials.

        >>> from autosched.measure.simulated import SimulatedRunner
        >>> task = asd.workloads.get("GMM").task(1, 16, 16, 16)
        >>> result = task.tune(trials=8, log="table.jsonl", runner=SimulatedRunner(), quiet=True)
        >>> records = asd.RecordLog("table.jsonl").read().records
        >>> asd.study.replay_study([task], records, asd.TuneOptions(trials=4)).trials
        4

    Args:
        tasks: distinct ones; those without a record get no trials.
        records: of a log, of these tasks and their target.
        options: budget, policy and the rest.
        cache_state: only timings taken in that state; None: all.
        cost_model: as for ``autosched.tune``, as are the next two.
        objective: what to minimise.
        callbacks: called after every batch.
        extra_features: that the cost model gets; None: those of the options.

    Raises:
        OptionError: ``records`` is something else, or no limit is set.
    """
    table = RecordedTable.of(tasks, records, cache_state)
    return run_job(
        TuneJob(
            tasks,
            options=options_or_default(options).overridden(extra_features=extra_features),
            runner=table.runner(),
            cost_model=cost_model,
            objective=objective,
            callbacks=callbacks,
            pools=table.pools,
            cache_state=cache_state,
        )
    )


def load_corpus(path: str | PathLike[str], *more: str | PathLike[str]) -> Corpus:
    """Programs that ``autosched costmodel collect`` measured; ``to_pandas()`` of it is a table.

    Args:
        path: a corpus.
        more: others, of the same machine or of others: all become one.

    Raises:
        RecordError: no such file, or it is no corpus, damaged, or of a newer release.
    """
    corpus = Corpus.load(Path(path))
    for other in more:
        corpus.merge(Corpus.load(Path(other)))
    return corpus


def corpus_tasks(corpus: Corpus, count: int, programs: int = 64) -> tuple[TaskSpec, ...]:
    """Some tasks of a corpus, on the machine that most of its programs were measured on.

    Every n-th in the order of their keys, which says nothing of what they compute.  Warns of a task
    whose program is damaged, and leaves it out.

    Args:
        corpus: measured programs.
        count: most tasks.
        programs: of a task on that machine, at least.
    """
    if not corpus.programs:
        return ()
    busiest = np.bincount([program.target for program in corpus.programs]).argmax()
    target = corpus.targets[int(busiest)]
    tasks = [t for t in corpus.measured_tasks if corpus.count(t.key, target) >= programs]
    found = []
    for task in sorted(tasks, key=lambda task: task.key)[:: max(1, len(tasks) // max(1, count))]:
        try:
            found.append(task.spec(target))
        except AutoschedError as error:
            notify([f"a task of the corpus is left out: {error}"])
    return tuple(found[:count])


def recorded_dataset(
    tasks: Sequence[TaskSpec],
    records: Sequence[Record],
    cache_state: CacheState | None = None,
    extra_features: Sequence[ExtraFeature] = (),
) -> Dataset:
    """Features and times of all recorded programs of the tasks, failures included.

    Args:
        tasks: whose records count.
        records: of a log.
        cache_state: only timings taken in that state; None: all.
        extra_features: columns beside those of the table; one that fails is 0 in all programs, and
            a warning names it.

    Raises:
        CostModelError: two extra features of one name.
        OptionError: ``records`` is something else, such as a path or a corpus.
    """
    _check_records(records)
    dataset = Dataset()

    def do_without(name: str, text: str) -> None:
        dataset.clear_feature(name)
        notify([text])

    columns = ExtraColumns(extra_features, do_without)
    for task in tasks:
        memory = _recalled(task, records, cache_state)
        for taught in training_data(memory.candidates, memory.results, columns):
            dataset.append(task.key, taught.features, taught.seconds, taught.members)
    return dataset


def _check_records(given: object) -> None:
    if not isinstance(given, Sequence) or not all(isinstance(item, Record) for item in given):
        raise OptionError(
            f"records is {quoted(given)}",
            hint="give RecordLog(path).read().records, or list(corpus.records(key))",
        )


def _recalled(
    task: TaskSpec, records: Sequence[Record], cache_state: CacheState | None
) -> TaskHistory:
    """What the records say of a task; warns of those that do not replay."""
    memory = recall(task, records, cache_state)
    notify(memory.warnings)
    return memory


def evaluate_model(
    tasks: Sequence[TaskSpec],
    records: Sequence[Record],
    make: Callable[[], CostModel],
    split: Split = "within-task",
    seed: int = 0,
    extra_features: Sequence[ExtraFeature] = (),
) -> Evaluation:
    """Ranking metrics of a model on recorded programs that it has not learned from.

    Args:
        tasks: whose records count.
        records: of a log.
        make: an untrained model, called several times.
        split: held-out programs of known tasks, or whole tasks ("by-task").
        seed: of what is held out.
        extra_features: that the model gets beside those of the table.

    Raises:
        CostModelError: too few programs or tasks.
    """
    from costmodel.evaluation import evaluate

    dataset = recorded_dataset(tasks, records, extra_features=extra_features)
    return evaluate(dataset, make, split, seed, kin_of(tasks))


def kin_of(tasks: Iterable[TaskSpec]) -> dict[str, str]:
    """Equal for tasks that differ only in what follows their last reduction, by their keys."""
    return {task.key: core_key(task.dag) for task in tasks}
