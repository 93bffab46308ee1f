"""Compiling with an ``Effort``: where it says so, operators without a record are tuned first."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from numpy.typing import NDArray

from autosched.compilation.network import contents_from_log
from autosched.compilation.task import contents_from_log as task_from_log
from autosched.records.accuracy import Accuracy
from autosched.records.store import AnyLog, RecordStore, open_store
from autosched.search.options import EvolutionOptions, SearchOptions
from autosched.system.errors import TuningError
from autosched.system.limits import check_choice
from autosched.system.user_warnings import notify
from autosched.tuning.job import TuneJob
from autosched.tuning.networks import tune_networks
from autosched.tuning.one_task import tune_task
from autosched.tuning.options import EFFORTS, Effort, TuneOptions
from autosched.tuning.result import TuneResult

if TYPE_CHECKING:
    from autosched.graph.ir import Network
    from autosched.runtime.archive import Contents
    from autosched.tasks.spec import TaskSpec
    from sketch.target.target import Target

MEASURED: Final = TuneOptions(
    budget_s=45.0,  # of a minute: the rest is for compiling
    task_trials=8,
    predicted_first=True,
    finish_share=0.0,
    leaders=2,
    retiming_s=0.2,
    search=SearchOptions(
        population=1024, generations=2, epsilon=0.0, evolution=EvolutionOptions(curiosity=0.25)
    ),
)
"""How ``"quick"`` tunes: little, from what would be compiled without it."""


def network_contents_at(
    effort: Effort,
    network: Network,
    target: Target,
    log: AnyLog | None = None,
    check: bool = True,
    accuracy: Accuracy = "default",
) -> Contents:
    """All that a compiled network consists of.

    Args:
        effort: for tasks without a record of the target.
        network: what is compiled.
        target: for which machine; it must be this one where something is measured.
        log: records of tuning, to which what is measured is added; None: there are none.
        check: run kernels that no one compared with the oracle yet, on sampled regions.
        accuracy: which other algorithms may be used.

    Raises:
        OptionError: there is no such effort.
        TargetError: something is to be measured for another machine.
    """
    check_choice("effort", effort, EFFORTS)
    if effort != "quick":
        return contents_from_log(network, target, log, effort == "none", check, accuracy)
    with _job(log, accuracy) as (job, store):
        _measure(lambda: tune_networks([network], target, job).result)
        return contents_from_log(network, target, _written(store), False, check, accuracy)


def task_contents_at(
    effort: Effort,
    task: TaskSpec,
    constants: Mapping[str, NDArray[Any]],
    log: AnyLog | None = None,
    accuracy: Accuracy = "default",
) -> Contents:
    """``network_contents_at`` of one task.

    Args:
        effort: where the task has no record.
        task: what is compiled.
        constants: an array for each of its constants.
        log: records of tuning, to which what is measured is added; None: there are none.
        accuracy: which other algorithms may be used.
    """
    if effort != "quick":
        return task_from_log(task, constants, log, accuracy, effort == "none")
    with _job(log, accuracy) as (job, store):
        _measure(lambda: tune_task(task, constants, job).result)
        return task_from_log(task, constants, _written(store), accuracy)


@contextmanager
def _job(log: AnyLog | None, accuracy: Accuracy) -> Iterator[tuple[TuneJob, RecordStore]]:
    """A tuning run of the tasks that ``log`` has no record of, and where its records are."""
    with tempfile.TemporaryDirectory(prefix="autosched-") as folder:
        store = open_store(Path(folder) / "measured.jsonl" if log is None else log)
        options = replace(MEASURED, accuracy=accuracy)
        yield TuneJob(options=options, log=store, skip_tuned=True), store


def _written(store: RecordStore) -> RecordStore | None:
    """The log of such a run; None where nothing was measured, which was said already."""
    return store if store.exists() else None


def _measure(tune: Callable[[], TuneResult]) -> None:
    """Tune; where nothing runs, the draft model chooses after all."""
    try:
        result = tune()
    except TuningError as error:
        notify([str(error)])
    else:
        if result.interrupted:
            raise KeyboardInterrupt
