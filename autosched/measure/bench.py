"""What the timing worker asks of whatever runs kernels: a CPU, or a GPU."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, TypeVar

from autosched.measure.result import CacheState
from autosched.measure.task_memory import TaskMemory
from sketch.dag.dag import ComputeDAG
from sketch.schedule.decision import DecisionId
from sketch.schedule.sketch import Sketch

Loaded = TypeVar("Loaded")


class Bench(Protocol[Loaded]):
    """Runs kernels of one kind of machine; ``Loaded`` is a kernel with the arrays of its task."""

    def copies(self, dag: ComputeDAG) -> int:
        """How many copies of a task's constants runs take in turns."""
        ...

    def load(
        self, kernel: Any, memory: TaskMemory, sketch: Sketch, values: Mapping[DecisionId, int]
    ) -> Loaded:
        """A kernel with its arrays; whatever it raises is a failure.

        Args:
            kernel: of the machine's own type.
            memory: the task's inputs and reference.
            sketch: how the kernel was made, for the packing of constants.
            values: its decisions.
        """
        ...

    def run(self, loaded: Loaded, runs: int, state: CacheState) -> float:
        """Mean seconds of ``runs`` executions one after another, after preparing the caches."""
        ...

    def waiting(self) -> float:
        """Times as long as what counts that the runs since the last call took, because threads had
        to wait for other processes.
        """
        ...

    def error(self, memory: TaskMemory, loaded: Loaded) -> float:
        """The relative error of the last run's results."""
        ...

    def forget(self) -> None:
        """Let go of what is kept for the kernels of a task; none of them is loaded any more."""
        ...

    def unload(self, loaded: Loaded) -> None:
        """Give back what ``load`` took."""
        ...
