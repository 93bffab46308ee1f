"""``TuneJob``: one tuning run as a value, from the API to the loop."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from inspect import getattr_static
from typing import TYPE_CHECKING, Final

from autosched.report.events import Progress, Quiet
from autosched.search.models import AnyModel, check_model
from autosched.system.errors import OptionError
from autosched.tuning.objectives import Objective, Usage, weighted_sum
from autosched.tuning.options import TuneOptions
from sketch.errors import quoted

if TYPE_CHECKING:
    import numpy as np

    from autosched.measure.options import MeasureOptions
    from autosched.measure.protocol import Runner
    from autosched.measure.result import CacheState
    from autosched.records.record import Record
    from autosched.records.store import RecordStore
    from autosched.report.callbacks import Callback
    from autosched.tasks.candidate import Candidate
    from autosched.tasks.spec import TaskSpec
    from sketch.target.target import Target

# What callbacks are told.
_HEARD: Final = ("on_batch", "on_new_best", "on_task_finished")
# What a run asks of a runner.
_ASKED: Final = ("trials_in_flight", "submit", "collect", "measure")

Clock = Callable[[], float]
RunnerStart = Callable[["Target", "MeasureOptions"], "Runner"]
ErrorLimits = Callable[[Sequence["Record"]], Mapping[str, float]]
"""From the records of all tasks: the largest error of those that have to have less, by key."""


@dataclass(frozen=True, slots=True, eq=False)
class TuneJob:
    """What a tuning run works on, how, and what it reports to.

    Attributes:
        tasks: distinct ones of one target; ``tune_networks`` and ``tune_task`` fill them in.
        options: limits (one is needed) and how to search.
        measure: how to measure on this machine; None: the defaults.  The tolerance is that of
            ``options``.
        runner: measures instead of this machine; None: this machine does.  It must have been
            started before anything loads an OpenMP runtime, see ``measure.zygote``.
        start_runner: starts a runner for the target, which the run closes; None: this machine's.
        log: every trial is appended to it, and what it has already counts; None: nothing is kept.
        examples: records of other tasks and machines, from whose best schedules tasks begin that
            nothing is known of (``search.nearest``).
        skip_tuned: only tune tasks without a record in the log.
        progress: shows how far the run is.
        callbacks: called after every batch.
        cost_model: learns over all tasks, or its name; None: gradient-boosted trees.
        objective: of the best times, see ``objectives``.
        usage: [networks][tasks], occurrences; None: one network, by the tasks' weights.
        error_limits: from the records of all tasks, the largest error of those that have to have
            less than they do, by key; asked once, see ``network_limit``.  None: there is none.
        pools: by task key, the only candidates that may be proposed; None: all there are.
        cache_state: of ``runner``; records taken in another state do not count.  None: all count.
        rng: everything random; None: from ``options.seed``.
        clock: of the time limit, in seconds.
        now: of the records, seconds since 1970.

    Raises:
        OptionError: ``cost_model``, ``callbacks``, ``runner`` or ``objective`` are something else.
    """

    tasks: Sequence[TaskSpec] = ()
    _: KW_ONLY
    options: TuneOptions = field(default_factory=TuneOptions)
    measure: MeasureOptions | None = None
    runner: Runner | None = None
    start_runner: RunnerStart | None = None
    log: RecordStore | None = None
    examples: Sequence[Record] = ()
    skip_tuned: bool = False
    progress: Progress = field(default_factory=Quiet)
    callbacks: Sequence[Callback] = ()
    cost_model: AnyModel | None = None
    objective: Objective = weighted_sum
    usage: Usage | None = None
    error_limits: ErrorLimits | None = None
    pools: Mapping[str, Sequence[Candidate]] | None = None
    cache_state: CacheState | None = None
    rng: np.random.Generator | None = None
    clock: Clock = time.monotonic
    now: Clock = time.time

    def __post_init__(self) -> None:
        check_model(self.cost_model)
        _check_callbacks(self.callbacks)
        _check_runner(self.runner)
        if not callable(self.objective) or isinstance(self.objective, type):
            raise OptionError(
                f"objective is {quoted(self.objective)}",
                hint="give a function of tuning.objectives.Latencies that returns a number",
            )


def _check_callbacks(given: object) -> None:
    """Raise OptionError unless it is a list of objects that hear what callbacks are told."""
    if not isinstance(given, Sequence):
        raise OptionError(f"callbacks is {quoted(given)}", hint="give a list of callbacks")
    for callback in given:
        told = (getattr(callback, name, None) for name in _HEARD)
        if isinstance(callback, type) or not all(map(callable, told)):
            raise OptionError(f"{quoted(callback)} is no callback", hint="derive it from Callback")


def _check_runner(given: object) -> None:
    """Raise OptionError unless it is a runner, or None."""
    if given is None:
        return
    missing = [name for name in _ASKED if getattr_static(given, name, None) is None]
    if isinstance(given, type) or missing:
        raise OptionError(
            f"runner is {quoted(given)}", hint="give ray, ray://HOST:PORT, or an object with the "
            "methods of measure.protocol.Runner, such as SimulatedRunner()",
        )  # fmt: skip
