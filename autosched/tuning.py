"""Tuning of a whole network: its tasks, one search over all of them, what came of it."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from os import PathLike
from typing import TYPE_CHECKING, Any, Final

from autosched.compilation import cache_state_of, compile_network, extract_checked, network_tasks
from autosched.graph.ir import Network
from autosched.local_tuning import tune_locally
from autosched.measure.options import MeasureOptions
from autosched.options import TuneOptions
from autosched.records.log import RecordLog, RecordSet
from autosched.report.comparison import Comparison, compare
from autosched.runtime.module import Module
from autosched.search.recall import best_of
from sketch.target import Target

if TYPE_CHECKING:
    from autosched.records.record import Record
    from autosched.report.events import Progress
    from autosched.tune_result import TuneResult

DEFAULT_BUDGET: Final = "10m"
SKIPPED: Final = "every task has a record"


@dataclass(frozen=True, slots=True, eq=False)
class NetworkTuning:
    """What tuning a network gave.

    Attributes:
        network, target: what was tuned.
        result: tasks, trials, and why it ended.
    """

    network: Network
    target: Target
    result: TuneResult

    @property
    def records(self) -> tuple[Record, ...]:
        """All records, those of earlier runs in the log included."""
        return self.result.records

    def compile(self) -> Module:
        """The network with the best schedules found."""
        return compile_network(self.network, self.target, self.records)

    def compare(self, repeats: int = 50) -> Comparison:
        """Latency untuned and tuned, and in onnxruntime where that is installed."""
        untuned = compile_network(self.network, self.target)
        return compare(self.network, untuned, self.compile(), repeats)

    def to_json(self) -> dict[str, Any]:
        """Tasks and totals as JSON values, times in milliseconds."""
        result = self.result
        tasks = [
            {
                "name": item.task.name,
                "key": item.task.key,
                "weight": item.task.weight,
                "best_ms": item.seconds * 1e3 if math.isfinite(item.seconds) else None,
                "trials": item.trials,
                "failures": item.failures,
            }
            for item in result.tasks
        ]
        return {
            "network": self.network.name,
            "target": self.target.to_json(),
            "trials": result.trials,
            "seconds": result.seconds,
            "stopped": result.stopped,
            "tasks": tasks,
        }

    def __str__(self) -> str:
        return f"{self.network.name}\n{self.result}"


def tune_network(
    network: Network,
    target: Target,
    log: str | PathLike[str] | None,
    options: TuneOptions | None,
    progress: Progress | None,
    *,
    quiet: bool,
    skip_tuned: bool,
    budget: str | float | None,
    trials: int | None,
    seed: int | None,
) -> NetworkTuning:
    """Tune the tasks of a network together; see ``autosched.tune``."""
    from autosched.report.peak import measured_peak
    from autosched.report.progress import choose_progress

    extraction = extract_checked(network)
    tasks = network_tasks(extraction, target)
    if skip_tuned and log is not None:
        known = RecordLog(log).read()
        tasks = tuple(task for task in tasks if best_of(task, known.records) is None)
        if not tasks:
            return NetworkTuning(network, target, _nothing_to_tune(known))
    measure = MeasureOptions(cache_state=cache_state_of(extraction, target))
    chosen = options or TuneOptions()
    if seed is not None:
        chosen = replace(chosen, seed=seed)
    if budget is None and trials is None and chosen.trials is None and chosen.budget_s is None:
        budget = DEFAULT_BUDGET
    shown = progress or choose_progress(quiet, None if quiet else measured_peak(target))
    result = tune_locally(tasks, log, trials, budget, chosen, shown, measure)
    return NetworkTuning(network, target, result)


def _nothing_to_tune(known: RecordSet) -> TuneResult:
    from autosched.tune_result import TuneResult

    return TuneResult((), known.records, 0, 0.0, SKIPPED, known.warnings)
