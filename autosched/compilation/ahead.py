"""What kernels are checked against, computed in a thread while they are compiled."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

from autosched.compilation.check import expected, runs_here
from autosched.tasks.compulsory_traffic import compulsory_bytes

if TYPE_CHECKING:
    from autosched.measure.task_memory import TaskMemory
    from autosched.tasks.spec import TaskSpec

# All arrays that wait for their kernels, together; what is left is computed when its turn comes.
_MOST_BYTES: Final = 1 << 28


class ExpectedAhead:
    """Inputs and the oracle's results of tasks, each computed once, in order; a context manager."""

    def __init__(self, tasks: Iterable[TaskSpec]) -> None:
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="autosched-oracle")
        self._found: dict[TaskSpec, Future[TaskMemory]] = {}
        left = float(_MOST_BYTES)
        for task in tasks:
            left -= compulsory_bytes(task.dag)
            if left >= 0 and task not in self._found and runs_here(task.target):
                self._found[task] = self._pool.submit(expected, task)

    def take(self, task: TaskSpec) -> TaskMemory | None:
        """What is expected of a task, None where nothing was computed; forgotten here."""
        found = self._found.pop(task, None)
        return None if found is None else found.result()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._pool.shutdown(cancel_futures=True)
