"""What kernels are checked against, computed in a thread while they are compiled."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Final

from autosched.compilation.check import checkable, expected, of_means
from autosched.measure.scratch import Scratch
from autosched.tasks.compulsory_traffic import compulsory_bytes
from codegen.closeable import Closeable

if TYPE_CHECKING:
    from autosched.measure.task_memory import TaskMemory
    from autosched.tasks.spec import TaskSpec

# All arrays that wait for their kernels, together, but for those of one task: memory that the
# tasks before have used is used again.
_AHEAD_BYTES: Final = 1 << 24
# Arrays that are kept for other kernels of their task, packed ones with them.
_KEPT_BYTES: Final = 1 << 25


class ExpectedAhead(Closeable):
    """Inputs and the oracle's results of tasks, in order, for their kernels; a context manager."""

    def __init__(self, tasks: Iterable[TaskSpec]) -> None:
        """``tasks``: in the order of their kernels."""
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="autosched-oracle")
        self._scratch = Scratch()
        self._waiting = deque(task for task in dict.fromkeys(tasks) if checkable(task))
        self._found: dict[TaskSpec, Future[TaskMemory]] = {}
        self._kept: dict[TaskSpec, TaskMemory] = {}
        self._submit()

    def take(self, task: TaskSpec) -> TaskMemory | None:
        """What is expected of a task, None where its kernels are not checked."""
        memory = self._kept.pop(task, None)
        if memory is None and checkable(task):
            memory = self._computed(task)
        if memory is not None:
            self._keep(task, memory)
        return memory

    def of_means(self, task: TaskSpec) -> Iterator[TaskMemory]:
        """``check.of_means``; the last one is what is expected of the task later."""
        for memory in of_means(task, self._scratch.empty):
            last = memory
            yield memory
        self._keep(task, last)

    def _computed(self, task: TaskSpec) -> TaskMemory:
        found = self._found.pop(task, None)
        if task in self._waiting:  # kernels are made in another order
            self._waiting.remove(task)
        self._submit()
        return expected(task, self._scratch.empty) if found is None else found.result()

    def _keep(self, task: TaskSpec, memory: TaskMemory) -> None:
        """Keep it and as many of the latest others as there is room for."""
        self._kept[task] = memory
        while sum(kept.nbytes for kept in self._kept.values()) > _KEPT_BYTES:
            del self._kept[next(iter(self._kept))]

    def _submit(self) -> None:
        """Have the next ones computed, as many as may wait."""
        held = sum(compulsory_bytes(task.dag) for task in self._found)
        while self._waiting:
            held += compulsory_bytes(self._waiting[0].dag)
            if self._found and held > _AHEAD_BYTES:
                return
            task = self._waiting.popleft()
            self._found[task] = self._pool.submit(expected, task, self._scratch.empty)

    def close(self) -> None:
        """Compute nothing any more; a second call does nothing."""
        self._pool.shutdown(cancel_futures=True)
