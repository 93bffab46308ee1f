"""The timing child of a CPU: machine code that is called in this process."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Final

from autosched.measure.bind import bind, result_error
from autosched.measure.channel import Channel
from autosched.measure.child import serve
from autosched.measure.execution import Array, Harness, LoadedKernel, aligned_empty
from autosched.measure.messages import TimingSetup
from autosched.measure.pinning import allowed_cpus
from autosched.measure.result import CacheState, of_network
from autosched.measure.task_memory import TaskMemory, copies_beyond_l2
from autosched.measure.timing_worker import TimingWorker
from codegen.cpu_share import cpu_quota
from codegen.kernel import Kernel
from sketch.dag.dag import ComputeDAG
from sketch.schedule.decision import DecisionId
from sketch.schedule.sketch import Sketch

# A sample during which a thread had to wait for another process is taken again, so often at most.
_TRIES: Final = 4
# One that took so many seconds is not: the next would have to wait, too, and for a smaller share.
_LONG_S: Final = 10e-3


class CpuBench:
    """Runs kernels on this CPU; see ``Bench``.

    ``cores``: of the threads of a kernel, one each.
    """

    def __init__(self, setup: TimingSetup, cores: Sequence[int]) -> None:
        self._setup = setup
        self._alone = len(set(cores)) == setup.target.threads <= cpu_quota()
        self._harness = Harness(setup.target, cores, setup.options.denormals)
        self._workspace = aligned_empty((0,), "uint8")
        self._taken_s = self._counted_s = 0.0

    def copies(self, dag: ComputeDAG) -> int:
        """Enough to overflow the caches, where the options want that."""
        return copies_beyond_l2(dag, self._setup.target, self._setup.options.state)

    def load(
        self, kernel: Kernel, memory: TaskMemory, sketch: Sketch, values: Mapping[DecisionId, int]
    ) -> LoadedKernel:
        """The kernel with its arrays, and a workspace that all kernels share; see ``Bench``."""
        scratch = self._scratch(kernel.workspace_bytes)
        among_others = of_network(self._setup.options.state)
        return bind(kernel, memory, sketch, values, scratch, in_network=among_others)

    def run(self, loaded: LoadedKernel, runs: int, state: CacheState) -> float:
        """Mean seconds; see ``Harness.run``.

        Where threads have a core each, it is tried until none of them had to wait, a few times; the
        fastest try counts.
        """
        tries: list[float] = []
        for _ in range(_TRIES if self._alone else 1):
            tries.append(self._harness.run(loaded, runs, state))
            if not self._harness.waited or min(tries) * runs > _LONG_S:
                break
        self._taken_s += runs * sum(tries)
        self._counted_s += runs * len(tries) * min(tries)
        return min(tries)

    def forget(self) -> None:
        """Nothing: kernels read the arrays of the task."""

    def waiting(self) -> float:
        """All tries over as many of those that count; see ``Bench``.

        Where each try of a sample was held up alike, that is not seen.
        """
        found = self._taken_s / self._counted_s if self._counted_s else 1.0
        self._taken_s = self._counted_s = 0.0
        return found

    def error(self, memory: TaskMemory, loaded: LoadedKernel) -> float:
        """The relative error of the results; see ``result_error``."""
        return result_error(memory, loaded)

    def unload(self, loaded: LoadedKernel) -> None:
        """Nothing: the arrays are the task's."""

    def _scratch(self, size: int) -> Array:
        if self._workspace.nbytes < size:
            self._workspace = aligned_empty((size,), "uint8")
        return self._workspace


def serve_timing(channel: Channel, setup: TimingSetup) -> None:
    """Answer timing requests until the channel closes."""
    cpus = allowed_cpus()
    os.sched_setaffinity(0, {cpus[0]})
    cores = [cpus[k % len(cpus)] for k in range(setup.target.threads)]
    serve(channel, TimingWorker(setup.options, lambda: CpuBench(setup, cores)).methods)
