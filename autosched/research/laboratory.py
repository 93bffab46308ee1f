"""``compare``: many runs on the same measurements, each of which gives the same log again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast
from urllib.parse import quote

import numpy as np

from autosched.measure.protocol import Runner
from autosched.measure.result import Timing
from autosched.measure.simulated import SimulatedRunner
from autosched.records.corpus import Corpus
from autosched.records.log import RecordLog
from autosched.records.record import Record
from autosched.records.trials import first_measurements
from autosched.research.policies import POLICY_NAMES, Change, named_policy
from autosched.research.result import StudyResult, StudyRun, StudySetting
from autosched.search.choice import uses_model
from autosched.search.models import MODELS, ModelName, check_model, make_model
from autosched.study import RecordedTable
from autosched.system.errors import OptionError
from autosched.system.limits import check_choice
from autosched.system.numbers import counted
from autosched.system.user_warnings import notify
from autosched.tasks.rough_seconds import rough_seconds
from autosched.tasks.spec import TaskSpec
from autosched.tuning.job import TuneJob
from autosched.tuning.objectives import Objective, latencies, value_of, weighted_sum
from autosched.tuning.options import STRATEGIES, TuneOptions, options_or_default
from autosched.tuning.run import run_job
from sketch.errors import quoted

if TYPE_CHECKING:
    from autosched.tuning.result import TuneResult
    from costmodel.model import CostModel

MakeModel = Callable[[int], "CostModel"]
"""From a seed to a fresh model."""
_ModelOf = Callable[[TuneOptions], "CostModel"]
_Value = TypeVar("_Value")
_Given = TypeVar("_Given")

_TASK_TRIALS: Final = 64  # of each task, where nobody sets a limit


def compare(
    policies: Sequence[str] | Mapping[str, Change] = ("evolutionary", "ansor", "genetic", "random"),
    models: Sequence[str] | Mapping[str, MakeModel] = ("gbdt",),
    schedulers: Sequence[str] | Mapping[str, Change] = ("gradient",),
    tasks: Sequence[TaskSpec] = (),
    seeds: Sequence[int] = (0, 1, 2),
    *,
    measurements: Corpus | Sequence[Record] | Runner | None = None,
    options: TuneOptions | None = None,
    objective: Objective = weighted_sum,
    logs: str | PathLike[str] | None = None,
    on_run: Callable[[StudyRun], None] | None = None,
) -> StudyResult:
    """Tune the tasks once for each combination of policy, model, scheduler and seed.

    All runs get the same measurements.  Records and corpora are replayed as
    ``study.replay_study`` does; no neighbours of the best are tried then, which are in no table.
    Equal arguments give equal trials, and logs of equal bytes, in other processes, too.

        >>> task = asd.workloads.get("GMM").task(1, 16, 16, 16)
        >>> short = asd.TuneOptions(trials=8)
        >>> found = asd.research.compare(["genetic", "random"], tasks=[task], options=short)
        >>> [curve.label for curve in found.curves()], len(found.rows())
        (['genetic', 'random'], 48)

    Args:
        policies: names of ``POLICY_NAMES``, such as ``"without bandit"``; or your own by name:
            functions from options to options.
        models: names of ``search.models.MODELS``; or by name functions from a seed to a model.
            Policies that rank by no model run once, under the name of the first.
        schedulers: ``"gradient"``, ``"round-robin"``; or by name functions from options to options.
        tasks: distinct ones of one target.
        seeds: of the runs, each once.
        measurements: what is measured: a corpus or records, of these tasks and their target; or a
            runner; None: ``SimulatedRunner()``.
        options: of every run before its setting changes them; without any limit 64 trials a task.
        objective: what is minimised, and what the curves show.
        logs: folder for the log of every run; None: none are kept.
        on_run: called after every run.

    Raises:
        OptionError: an unknown name, nothing to compare, a time budget (which no run repeats), a
            task without a measurement, a log that exists, a function that gives something else
            than it should, or no trial in any run.
        RecordError: a log cannot be written.
        AutoschedError: nothing runs.
    """
    _check_given(tasks, seeds)
    laboratory = _Laboratory(
        tuple(tasks), *_source(tasks, measurements), _limited(options, len(tasks)), objective,
        None if logs is None else Path(logs),
    )  # fmt: skip
    changes = _by_name("policy", policies, POLICY_NAMES, named_policy)
    makers = _by_name("model", _of_options(models), MODELS, _named_model)
    orders = _by_name("scheduler", schedulers, STRATEGIES, _scheduled)
    _check_positive(objective, tasks)
    runs = []
    for policy, model, order, seed in product(changes, makers, orders, seeds):
        setting = StudySetting(policy, model, order)
        changed = _changed(policy, changes[policy], laboratory.options)
        changed = _changed(order, orders[order], changed)
        if model != next(iter(makers)) and not uses_model(changed.search):
            continue
        run = laboratory.run(setting, replace(changed, seed=seed), makers[model])
        runs.append(run)
        if on_run is not None:
            on_run(run)
    notify(_told(runs))
    return StudyResult(
        laboratory.tasks, tuple(runs), objective, laboratory.known_s(runs), laboratory.source
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Laboratory:
    """What all runs share.

    Attributes:
        tasks: that are tuned.
        table: of records that are replayed; None: the runner answers everything.
        runner: measures.
        source: what measures, for people.
        options: before a setting changes them.
        objective: what is minimised.
        logs: folder; None: no logs.
    """

    tasks: tuple[TaskSpec, ...]
    table: RecordedTable | None
    runner: Runner
    source: str
    options: TuneOptions
    objective: Objective
    logs: Path | None

    def run(self, setting: StudySetting, options: TuneOptions, make: _ModelOf) -> StudyRun:
        """One run, its log included."""
        result = run_job(
            TuneJob(
                self.tasks,
                options=options,
                runner=self.runner,
                log=self._log(setting, options.seed),
                cost_model=make(options),
                objective=self.objective,
                pools=None if self.table is None else self.table.pools,
                now=lambda: 0.0,  # equal runs have equal logs
            )
        )
        return _run_of(setting, options.seed, result, self.tasks)

    def known_s(self, runs: Iterable[StudyRun]) -> tuple[float, ...]:
        """The best time of each task that anything knows.

        Raises:
            OptionError: nothing was measured.
        """
        if not any(len(run.seconds) for run in runs):
            raise OptionError("no run has a trial", self.source, "no program of the tasks was left")
        count = len(self.tasks)
        found = [run.best_of_tasks(count)[-1] for run in runs if len(run.seconds)]
        if self.table is not None:
            found.append(np.array([self.table.best_s(task.key) for task in self.tasks]))
        return tuple(np.min(found, axis=0).tolist())

    def _log(self, setting: StudySetting, seed: int) -> RecordLog | None:
        if self.logs is None:
            return None
        parts = (setting.policy, setting.model, setting.scheduler, str(seed))
        quoted = (quote(part, safe="").replace(".", "%2E") for part in parts)  # one name, one file
        path = self.logs / f"{'.'.join(quoted)}.jsonl"
        if path.exists():
            raise OptionError(
                "the log of a run exists, which would go on from it", str(path),
                "give an empty folder",
            )  # fmt: skip
        return RecordLog(path)


def _of_options(
    models: Sequence[str] | Mapping[str, MakeModel],
) -> Sequence[str] | Mapping[str, _ModelOf]:
    if not isinstance(models, Mapping):
        return models
    return {name: partial(_from_seed, name, make) for name, make in models.items()}


def _from_seed(name: str, make: MakeModel, options: TuneOptions) -> CostModel:
    """A fresh model; None, which elsewhere means the usual one, would be judged by this name."""
    made = _called(name, make, options.seed)
    check_model(made)
    if made is None:
        raise OptionError(f"model {name!r} is None", hint="return a cost model from the function")
    return made


def _named_model(name: str) -> _ModelOf:
    return partial(_made, cast("ModelName", name))


def _made(name: ModelName, options: TuneOptions) -> CostModel:
    return make_model(name, options.seed, options.search.gbdt)


def _run_of(
    setting: StudySetting, seed: int, result: TuneResult, tasks: Sequence[TaskSpec]
) -> StudyRun:
    places = {task.key: n for n, task in enumerate(tasks)}
    trials = first_measurements(result.records)
    times = [r.result.median if isinstance(r.result, Timing) else np.inf for r in trials]
    order = np.array([places[record.task] for record in trials], dtype=np.int64)
    return StudyRun(setting, seed, order, np.array(times), result.warnings)


def _source(
    tasks: Sequence[TaskSpec], measurements: Corpus | Sequence[Record] | Runner | None
) -> tuple[RecordedTable | None, Runner, str]:
    """What is replayed, what measures, and what people call it."""
    if measurements is None:
        measurements = SimulatedRunner()
    if isinstance(measurements, str | PathLike):
        raise OptionError(
            f"measurements is {quoted(measurements)}",
            hint="give what was read: study.load_corpus(path), or RecordLog(path).read().records",
        )
    if not isinstance(measurements, Corpus | Sequence):
        return None, measurements, type(measurements).__name__
    kind = "a corpus" if isinstance(measurements, Corpus) else "records"
    if isinstance(measurements, Corpus):
        measurements = [r for task in tasks for r in measurements.records(task.key)]
    table = RecordedTable.of(tasks, measurements)
    bare = [task for task in tasks if not np.isfinite(table.best_s(task.key))]
    if bare:
        raise OptionError(
            f"{kind} without a time of {', '.join(task.name for task in bare)}",
            f"target {bare[0].target.arch}, {bare[0].target.threads} threads",
            "leave these tasks out, or give the target that they were measured on",
        )
    return table, table.runner(), f"{len(table)} programs replayed from {kind}"


def _limited(options: TuneOptions | None, tasks: int) -> TuneOptions:
    """Options that end after a number of trials; nothing is timed again at the end."""
    chosen = options_or_default(options)
    if chosen.budget_s is not None:
        raise OptionError("a time budget is repeated by no run", hint="set trials")
    limit = chosen.trials or _TASK_TRIALS * max(1, tasks)
    return replace(chosen, trials=limit, leaders=0)


def _changed(name: str, change: Change, options: TuneOptions) -> TuneOptions:
    """What a setting makes of options; raises OptionError where it is something else."""
    found = _called(name, change, options)
    if not isinstance(found, TuneOptions):
        raise OptionError(
            f"{name!r} made {found!r} of the options",
            hint="return TuneOptions",
        )
    return found


def _called(name: str, function: Callable[[_Given], _Value], given: _Given) -> _Value:
    """What a user's function gives; raises OptionError where it is none."""
    if not callable(function):
        raise OptionError(f"{name!r} is {quoted(function)}", hint="give a function")
    return function(given)


def _scheduled(name: str) -> Change:
    return partial(_with_strategy, name)


def _with_strategy(name: Any, options: TuneOptions) -> TuneOptions:
    return replace(options, strategy=name)


def _by_name(
    what: str,
    given: Sequence[str] | Mapping[str, _Value],
    known: Sequence[str],
    named: Callable[[str], _Value],
) -> Mapping[str, _Value]:
    """By name what was given, or what the names mean; raises OptionError for an unknown one."""
    if isinstance(given, Mapping) and given:
        return given
    names = [given] if isinstance(given, str) else given
    for name in names:
        check_choice(what, name, known)
    if not names:
        raise OptionError(f"no {what} to compare", hint=f"some of {', '.join(known)}")
    return {name: named(name) for name in names}


def _check_given(tasks: object, seeds: object) -> None:
    """Raise OptionError unless there are tasks, and seeds of which no two are equal."""
    if not isinstance(tasks, Sequence) or not all(isinstance(task, TaskSpec) for task in tasks):
        raise OptionError(
            f"tasks is {quoted(tasks)}",
            hint="give a list of tasks, such as extract_tasks(network) or [workload.task(...)]",
        )
    if not isinstance(seeds, Sequence) or isinstance(seeds, str):
        raise OptionError(f"seeds is {quoted(seeds)}", hint="give a list of integers")
    if not tasks or not seeds or len(set(seeds)) < len(seeds):
        raise OptionError(
            f"{counted(len(tasks), 'task')} and {counted(len(seeds), 'seed')}",
            hint="give some of both, each seed once",
        )


def _check_positive(objective: Objective, tasks: Sequence[TaskSpec]) -> None:
    """Speeds are ratios of what is minimised; raises OptionError where that is not positive."""
    seconds = [rough_seconds(task.dag, task.target) for task in tasks]
    value = value_of(objective, latencies([[task.weight for task in tasks]], seconds))
    if value <= 0:
        raise OptionError(
            f"the objective of the estimated times is {value:g}, of which there is no speed",
            hint="give one of positive values, as latencies are",
        )


def _told(runs: Sequence[StudyRun]) -> list[str]:
    """The first warning of each setting, and of how many of its seeds."""
    lines = []
    for setting in dict.fromkeys(run.setting for run in runs):
        mine = [run for run in runs if run.setting == setting]
        warned = [run for run in mine if run.warnings]
        if warned:
            lines.append(f"{setting}: {len(warned)} of {len(mine)} runs: {warned[0].warnings[0]}")
    return lines
