"""Tuning of whole networks: their tasks, one search over all of them, what came of it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from os import PathLike
from typing import TYPE_CHECKING, Any, Final

from autosched.compilation.network import (
    cache_state_of,
    compile_network,
    error_limits,
    extract_checked,
    network_tasks,
)
from autosched.graph.ir import Network
from autosched.measure.options import MeasureOptions
from autosched.measure.result import CACHE_STATES
from autosched.records.accuracy import Accuracy
from autosched.report.comparison import Comparison, OnnxFile, Told, compare, untold
from autosched.runtime.module import Module
from autosched.system.errors import OptionError
from autosched.tuning.job import TuneJob
from autosched.tuning.result import TuneResult
from autosched.tuning.run import run_job
from sketch.html import html_lines
from sketch.target.target import Target

if TYPE_CHECKING:
    from autosched.graph.extract import Extraction
    from autosched.page.file import ReportPage
    from autosched.records.record import Record
    from autosched.report.events import Progress
    from autosched.tasks.spec import TaskSpec

DEFAULT_BUDGET: Final = "10m"
UNTUNABLE: Final = "no operator is tuned: all are constant or run on the host"


@dataclass(frozen=True, slots=True, eq=False)
class NetworkTuning:
    """What tuning a network gave.

    Attributes:
        network, target: what was tuned.
        result: tasks, trials, and why it ended.
        source: the ONNX file that the network was read from, where that is known.
        accuracy: that was tuned for.
    """

    network: Network
    target: Target
    result: TuneResult
    source: OnnxFile | None = None
    accuracy: Accuracy = "default"

    @property
    def records(self) -> tuple[Record, ...]:
        """All records, those of earlier runs in the log included."""
        return self.result.records

    def compile(self) -> Module:
        """The network with the best schedules found."""
        return compile_network(self.network, self.target, self.records, self.accuracy)

    def compare(self, repeats: int = 50, told: Told = untold) -> Comparison:
        """Latency untuned and tuned, and in onnxruntime where that is installed.

        onnxruntime runs ``source``; without it, or where inputs were given values, an export of the
        network, which not every operator has a form in.  ``told``: is told what is done next.
        """
        told("compiling what is untuned")
        untuned = compile_network(self.network, self.target)
        told("compiling what is tuned")
        return compare(self.network, untuned, self.compile(), repeats, self.source, told)

    def report(self, path: str | PathLike[str] | None = None) -> ReportPage:
        """``TuneResult.report``, with the network as a graph."""
        from autosched.report.page.writing import report_tuning

        tasks = [item.task for item in self.result.tasks]
        extraction = extract_checked(self.network, self.target)
        return report_tuning(path, self.network.name, self.records, tasks, extraction)

    def to_json(self) -> dict[str, Any]:
        """Tasks and totals as JSON values, times in milliseconds."""
        own = {"network": self.network.name, "target": self.target.to_json()}
        return own | self.result.to_json()

    def __str__(self) -> str:
        return f"{self.network.name}\n{self.result}"

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return html_lines(self.network.name) + self.result._repr_html_()


@dataclass(frozen=True, slots=True, eq=False)
class SessionTuning:
    """What tuning several networks together gave.

    Attributes:
        networks: one of each network, in the order given; tasks that several of them share are in
            the result of each, with the number of times that they occur in it.
        result: of all tasks together.
    """

    networks: tuple[NetworkTuning, ...]
    result: TuneResult

    @property
    def latencies_s(self) -> tuple[float, ...]:
        """Sum of the tasks' times of each network; infinite where a task has none."""
        return tuple(item.result.total_s for item in self.networks)

    def report(self, path: str | PathLike[str] | None = None) -> ReportPage:
        """``TuneResult.report`` of all tasks; each of ``networks`` has one with its graph."""
        return self.result.report(path)

    def __str__(self) -> str:
        return "\n".join(str(item) for item in self.networks)

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return "".join(item._repr_html_() for item in self.networks)


def tune_networks(networks: Sequence[Network], target: Target, job: TuneJob) -> SessionTuning:
    """Tune the tasks of all networks together; see ``autosched.tune``.

    ``job``: all but the tasks; without any limit, ``DEFAULT_BUDGET``.

    Raises:
        OptionError: no network, or what ``run_job`` does not take.
    """
    if not networks:
        raise OptionError("there is no network to tune", hint="give at least one")
    extractions = [extract_checked(network, target) for network in networks]
    tasks = shared_tasks(extractions, target)
    if not tasks:
        return _session(networks, target, TuneResult((), (), 0, 0.0, UNTUNABLE, ()), (), job)
    usage = usage_of(extractions, target, tasks)
    # Weights that more than one network needs stay cold for the coldest of them.
    states = [cache_state_of(extraction, target) for extraction in extractions]
    state = max(states, key=CACHE_STATES.index)
    measure = job.measure or MeasureOptions()
    job = replace(
        job,
        tasks=tasks,
        usage=usage,
        options=job.options.unless_limited(budget=DEFAULT_BUDGET),
        error_limits=partial(_error_limits, networks, target, job.options.accuracy),
        measure=replace(
            measure,
            cache_state=measure.cache_state or state,
            inputs=measure.inputs or "aligned",
        ),
    )
    rows = [{t.key: n for t, n in zip(tasks, row, strict=True)} for row in usage]
    return _session(networks, target, run_job(job), rows, job)


def _error_limits(
    networks: Sequence[Network], target: Target, accuracy: Accuracy, records: Sequence[Record]
) -> dict[str, float]:
    """``error_limits``, the least of all networks."""
    found: dict[str, float] = {}
    for network in networks:
        for key, limit in error_limits(network, target, records, accuracy).items():
            found[key] = min(limit, found.get(key, math.inf))
    return found


def shared_tasks(extractions: Sequence[Extraction], target: Target) -> tuple[TaskSpec, ...]:
    """The distinct tasks of all networks; equal ones become one, of the sum of their weights."""
    found: dict[str, TaskSpec] = {}
    for extraction in extractions:
        for task in network_tasks(extraction, target):
            known = found.get(task.key)
            found[task.key] = (
                task if known is None else known.with_weight(known.weight + task.weight)
            )
    return tuple(found.values())


def usage_of(
    extractions: Sequence[Extraction], target: Target, tasks: Sequence[TaskSpec]
) -> tuple[tuple[float, ...], ...]:
    """[networks][tasks]: how often each task occurs in each network."""
    rows = []
    for extraction in extractions:
        weights: dict[str, float] = {}
        for task in network_tasks(extraction, target):
            weights[task.key] = weights.get(task.key, 0.0) + task.weight
        rows.append(tuple(weights.get(task.key, 0.0) for task in tasks))
    return tuple(rows)


def _session(
    networks: Sequence[Network],
    target: Target,
    result: TuneResult,
    usage: Sequence[Mapping[str, float]],
    job: TuneJob,
) -> SessionTuning:
    """``usage``: of each network, how often each task occurs in it, by key."""
    accuracy = job.options.accuracy
    rows = usage or [{}] * len(networks)
    return SessionTuning(
        tuple(
            NetworkTuning(network, target, _part(result, row), accuracy=accuracy)
            for network, row in zip(networks, rows, strict=True)
        ),
        result,
    )


def _part(result: TuneResult, weights: Mapping[str, float]) -> TuneResult:
    """The result of one network; ``weights``: how often each task occurs in it, by key."""
    items = tuple(
        replace(item, task=item.task.with_weight(weights[item.task.key]))
        for item in result.tasks
        if weights[item.task.key]
    )
    return replace(result, tasks=items)


def progress_or_table(progress: Progress | None, quiet: bool, target: Target | None) -> Progress:
    """What shows progress: ``progress``, or else what fits the terminal or the notebook.

    It raises nothing.  ``target``: that is measured here, for the share of its peak; None: another
    machine measures.
    """
    from autosched.report.progress import Unfailing, choose_progress
    from autosched.runtime.backend import runtime_of
    from codegen.backend import backend_of

    if progress is not None:
        return Unfailing(progress)
    if quiet or target is None or backend_of(target).missing(target) is not None:
        return choose_progress(quiet)
    return choose_progress(quiet, runtime_of(target).peaks(target))
