"""What a command works on: a network, or one tensor program of a workload."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self

from autosched.system.errors import WorkloadError
from sketch.errors import AutoschedError

if TYPE_CHECKING:
    import inspect

    from numpy.typing import NDArray

    from autosched.graph.ir import Network
    from autosched.graph.precision import PrecisionOptions
    from autosched.records.accuracy import Accuracy
    from autosched.report.comparison import Comparison, Told
    from autosched.runtime.archive import Contents
    from autosched.task import Task
    from autosched.tasks.spec import TaskSpec
    from autosched.tuning.job import TuneJob
    from autosched.tuning.options import Effort
    from autosched.tuning.result import TuneResult
    from autosched.workloads.definition import Workload
    from sketch.target.target import Target


class Tuning(Protocol):
    """What tuning gave: of a network, or of a task."""

    @property
    def result(self) -> TuneResult:
        """Tasks, trials, and why it ended."""
        ...

    def compare(self, repeats: int = 50, told: Told = ...) -> Comparison:
        """Latency before and after; ``told``: is told what is done next."""
        ...

    def to_json(self) -> dict[str, Any]:
        """The result as JSON values."""
        ...


class Subject(Protocol):
    """What a command works on.

    Attributes:
        kind: "network" or "workload".
    """

    kind: ClassVar[str]

    @property
    def name(self) -> str:
        """Of the files that belong to it, without suffix."""
        ...

    @property
    def label(self) -> str:
        """Which one it is, for people."""
        ...

    def tasks(self, target: Target) -> tuple[TaskSpec, ...]:
        """The distinct tasks."""
        ...

    def tune(self, target: Target, job: TuneJob) -> Tuning:
        """Tune all tasks."""
        ...

    def contents(
        self, target: Target, log: str | None, accuracy: Accuracy, effort: Effort
    ) -> Contents:
        """The compiled program; warns of tasks that a log has no record of.

        Args:
            target: for which machine.
            log: path of the log; None: there is none.
            accuracy: which other algorithms may be used.
            effort: for tasks without a record.
        """
        ...


@dataclass(frozen=True, slots=True)
class NetworkSubject:
    """A network.

    Attributes:
        model: what the user calls it.
        network: what that is.
        values: what its inputs were given, by name, where the model is a file.
        shapes: of its inputs, by name, those that were given with the file.
    """

    kind: ClassVar[str] = "network"
    model: str
    network: Network
    values: Mapping[str, Any] = field(default_factory=dict)
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return Path(self.model).name.removesuffix(".onnx")

    @property
    def label(self) -> str:
        return self.model

    def tasks(self, target: Target) -> tuple[TaskSpec, ...]:
        """The distinct tasks of the network."""
        from autosched.compilation.network import extract_checked, network_tasks

        return network_tasks(extract_checked(self.network, target), target)

    def in_precision(self, options: PrecisionOptions, target: Target) -> NetworkSubject:
        """With layers in a precision, on a target that has it; warns of what that does."""
        from autosched.compilation.precision import in_precision

        return replace(self, network=in_precision([self.network], options, target)[0])

    def tune(self, target: Target, job: TuneJob) -> Tuning:
        """Tune the network."""
        from autosched.report.comparison import OnnxFile
        from autosched.tuning.networks import tune_networks

        tuning = tune_networks([self.network], target, job).networks[0]
        path = Path(self.model)
        source = OnnxFile(path, self.values, self.shapes) if path.is_file() else None
        return replace(tuning, source=source)

    def contents(
        self, target: Target, log: str | None, accuracy: Accuracy, effort: Effort
    ) -> Contents:
        """The compiled network.

        Args:
            target: for which machine.
            log: path of the log; None: there is none.
            accuracy: which other algorithms may be used.
            effort: for tasks without a record.
        """
        from autosched.tuning.effort import network_contents_at

        return network_contents_at(effort, self.network, target, log, accuracy=accuracy)


@dataclass(frozen=True, slots=True)
class WorkloadSubject:
    """A workload with its arguments.

    Attributes:
        constants: by name; None: random ones.
    """

    kind: ClassVar[str] = "workload"
    workload: Workload[...]
    arguments: inspect.BoundArguments
    constants: Mapping[str, NDArray[Any]] | None = None

    @property
    def name(self) -> str:
        return self.workload.name.lower()

    @property
    def label(self) -> str:
        return self.workload.label(*self.arguments.args, **self.arguments.kwargs)

    def with_constants(self, constants: Mapping[str, NDArray[Any]]) -> Self:
        """The same with these constants."""
        return replace(self, constants=constants)

    def task(self, target: Target) -> Task:
        """The program as a task.

        Raises:
            WorkloadError: the workload's function fails on these arguments.
        """
        args, kwargs = self.arguments.args, self.arguments.kwargs
        try:
            return self.workload.task(*args, target=target, **kwargs)
        except AutoschedError:
            raise
        except Exception as error:  # the function is the user's
            raise WorkloadError(
                f"its function fails: {type(error).__name__}: {error}", f"workload {self.label}"
            ) from error

    def tasks(self, target: Target) -> tuple[TaskSpec, ...]:
        """The one task."""
        return (self.task(target),)

    def tune(self, target: Target, job: TuneJob) -> Tuning:
        """Tune the task."""
        from autosched.tuning.one_task import tune_task

        task = self.task(target)
        return tune_task(task, self._constants(task), job)

    def contents(
        self, target: Target, log: str | None, accuracy: Accuracy, effort: Effort
    ) -> Contents:
        """The compiled task, with the constants in it.

        Args:
            target: for which machine.
            log: path of the log; None: there is none.
            accuracy: which other algorithms may be used.
            effort: for tasks without a record.
        """
        from autosched.tuning.effort import task_contents_at

        task = self.task(target)
        return task_contents_at(effort, task, self._constants(task), log, accuracy)

    def _constants(self, task: Task) -> Mapping[str, NDArray[Any]]:
        from autosched.compilation.task import random_constants

        return random_constants(task) if self.constants is None else self.constants
