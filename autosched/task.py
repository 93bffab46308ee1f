"""``Task``: what users do with one computation: search, tune, compile, run and explain it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any, Self

from numpy.typing import NDArray

from autosched.system.errors import TaskError
from autosched.tasks.spec import TaskSpec

if TYPE_CHECKING:
    from autosched.measure.options import MeasureOptions
    from autosched.measure.protocol import Runner
    from autosched.records.accuracy import Accuracy
    from autosched.report.callbacks import Callback
    from autosched.report.events import Progress
    from autosched.report.reasons import Reasons
    from autosched.runtime.module import Module
    from autosched.search.models import AnyModel
    from autosched.search.space import Space
    from autosched.tasks.candidate import Candidate
    from autosched.tuning.options import TuneOptions
    from autosched.tuning.result import TuneResult
    from codegen.denormals import Denormals
    from codegen.kernel import CompiledKernel
    from costmodel.extra_feature import ExtraFeature
    from sketch.schedule.sketch import Sketch

PathText = str | PathLike[str]


class Task(TaskSpec):
    """A computation to tune for a target: ``Task(dag, target)``, or of this machine ``Task(C)``.

    The data are those of ``tasks.spec.TaskSpec``; this class adds what can be done with them.
    """

    @classmethod
    def of(cls, spec: TaskSpec) -> Self:
        """The task of a specification, such as one that a callback is given.

            >>> spec = asd.workloads.get("GMM").task(1, 16, 16, 16)
            >>> print(asd.Task.of(spec).describe())
            GMM(1, 16, 16, 16) [1x16x16] 0.008192 MFLOP (direct)

        Raises:
            TaskError: ``spec`` is something else.
        """
        if not isinstance(spec, TaskSpec):
            raise TaskError(f"{spec!r} is no task", hint="write Task(dag, target)")
        return cls(spec.variants, spec.target, spec.name, spec.weight, spec.rules)

    @property
    def space(self) -> Space:
        """The sketches worth searching, with what the draft model says of them."""
        from autosched.search.space import space_of

        return space_of(self)

    @property
    def sketches(self) -> tuple[Sketch, ...]:
        """Sketches of all variants that are worth searching, most promising first."""
        return self.space.sketches

    def draft_candidate(self, quick: bool = False) -> Candidate:
        """What the draft model likes best of the reference, or ``quick`` of a few of its rows.

        What nobody checks is computed as it is written; ``module`` checks, and may choose another
        variant.
        """
        from autosched.search.space import draft_candidate

        return draft_candidate(self, quick)

    def candidate(self, log: PathText | None = None, accuracy: Accuracy = "default") -> Candidate:
        """The best measured candidate in a log, or ``draft_candidate`` without one.

        ``accuracy``: which variants may be used, see ``autosched.compile``.
        """
        from autosched.search.recall import build_best

        return build_best(self, log, lambda candidate: candidate, accuracy)

    def tune(
        self,
        trials: int | None = None,
        log: PathText | None = None,
        budget: str | float | None = None,
        options: TuneOptions | None = None,
        progress: Progress | None = None,
        cost_model: AnyModel | None = None,
        callbacks: Sequence[Callback] = (),
        runner: Runner | str | None = None,
        measure: MeasureOptions | None = None,
        seed: int | None = None,
        extra_features: Sequence[ExtraFeature] | None = None,
        accuracy: Accuracy | None = None,
        quiet: bool = False,
    ) -> TuneResult:
        """Search and measure on this machine; every trial goes to ``log``, which may exist.

            >>> task = asd.workloads.get("GMM").task(1, 16, 16, 16)
            >>> result = task.tune(trials=3, log="task.jsonl", quiet=True)
            >>> result.trials, result.tasks[0].seconds > 0
            (3, True)

        Args:
            trials: measured candidates, those of earlier runs in the log included.  Without any
                limit: 256.
            log: file that every trial is appended to; if it exists, tuning resumes from it.
            budget: wall-clock time: ``"10m"``, ``"1h30m"``, or seconds.
            options: all the rest of the search; trials, budget, seed, extra_features and accuracy
                override its fields.
            progress: shows progress; None: a table on the terminal or in the notebook.
            cost_model: ranks candidates and learns from them, or a name, see ``autosched.tune``;
                None: gradient-boosted trees.
            callbacks: called after every batch, see ``autosched.report.callbacks``.
            runner: measures instead of this machine: ``"ray"`` or ``"ray://HOST:PORT"``, the
                machines of a cluster, or see ``autosched.measure.protocol``.
            measure: how to measure on this machine; None: the defaults.
            seed: of everything random.
            extra_features: that the cost model gets beside those of its table.
            accuracy: which variants are searched, see ``TuneOptions``.
            quiet: show no progress.

        Raises:
            AutoschedError: a malformed option, an unwritable log, or nothing runs.
        """
        from autosched.fleet.chosen import fleet_of
        from autosched.records.store import open_store
        from autosched.tuning.job import TuneJob
        from autosched.tuning.networks import progress_or_table
        from autosched.tuning.options import DEFAULT_TRIALS, options_or_default
        from autosched.tuning.run import run_job

        chosen = options_or_default(options)
        chosen = chosen.overridden(trials, budget, seed, extra_features, accuracy)
        with fleet_of(runner) as fleet:
            return run_job(
                TuneJob(
                    (self,),
                    options=chosen.unless_limited(trials=DEFAULT_TRIALS),
                    measure=measure,
                    runner=None if isinstance(runner, str) else runner,
                    start_runner=None if fleet is None else fleet.runner,
                    log=None if log is None else open_store(log),
                    progress=progress_or_table(progress, quiet, None if runner else self.target),
                    callbacks=callbacks,
                    cost_model=cost_model,
                )
            )

    def compile(
        self, log: PathText | None = None, accuracy: Accuracy = "default"
    ) -> CompiledKernel:
        """Machine code of ``candidate(log, accuracy)``."""
        from autosched.search.recall import build_best
        from autosched.tasks.kernel import kernel_of

        def build(best: Candidate) -> CompiledKernel:
            return kernel_of(best, self.target)

        return build_best(self, log, build, accuracy)

    def module(
        self,
        constants: Mapping[str, NDArray[Any]] | None = None,
        log: PathText | None = None,
        check: bool = True,
        denormals: Denormals = "flush",
        accuracy: Accuracy = "default",
    ) -> Module:
        """``candidate(log, accuracy)`` as a module that runs on arrays; packs the given constants.

        Without a record it may be of another variant, where the draft model is sure and ``check``
        finds its errors within the budget, see ``autosched.compile``.

        Args:
            constants: an array for each placeholder that is marked constant.
            log: records of tuning.
            check: compare a candidate that was never measured with the oracle, once.
            denormals: ``"flush"`` or ``"keep"``, see ``autosched.compile``.
            accuracy: which variants may be used, see there, too.

        Raises:
            TaskError: a constant is missing, unknown, or of another shape or dtype.
            WrongResultError: the kernel computes something else than the task says.
        """
        from autosched.compilation.task import task_module

        return task_module(self, constants, log, check, denormals, accuracy)

    def explain(self, log: PathText | None = None, accuracy: Accuracy = "default") -> str:
        """Text: the schedule as loops, its time against what the machine could do, and the rest.

        ``accuracy``: which variants may be used, see ``autosched.compile``.
        """
        from autosched.report.explain import explain

        return explain(self, log, accuracy=accuracy)

    def reasons(self, log: PathText | None = None, accuracy: Accuracy = "default") -> Reasons:
        """Why its best schedule is as fast as it is; ``asd.plots.reasons`` draws it.

        What binds it (compute, L2, memory or latency), which features drive its predicted time, and
        how it differs from the second fastest.  ``accuracy``: as in ``explain``.
        """
        from autosched.report.explain import reasons

        return reasons(self, log, accuracy)

    def _repr_html_(self) -> str:
        """The task in a line, and the program."""
        from sketch.html import html_text

        return html_text(f"{self.describe()} for {self.target.arch}", str(self.dag))
