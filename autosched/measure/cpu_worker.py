"""The timing child: loads kernels, runs them, checks their results, takes the time."""

from __future__ import annotations

import os
import pickle
from collections.abc import Sequence
from statistics import median
from typing import Final

from autosched.measure.bind import bind, result_error
from autosched.measure.builder import failure
from autosched.measure.channel import Channel
from autosched.measure.child import serve
from autosched.measure.execution import Array, Harness, LoadedKernel, aligned_copy, aligned_empty
from autosched.measure.inputs import random_inputs
from autosched.measure.messages import TimingRequest, TimingSetup
from autosched.measure.pinning import allowed_cpus
from autosched.measure.result import WRONG_RESULT, Failure, MeasureResult, Timing
from autosched.measure.sampling import burst, inner_runs
from autosched.measure.task_memory import TaskMemory, copies_beyond_l2
from codegen.kernel import Kernel
from sketch.schedule.sketch import Sketch

# Samples per candidate and round of an interleaved re-measurement; their median is kept.
_ROUND_SAMPLES: Final = 5


class TimingWorker:
    """The state of the timing child."""

    def __init__(self, setup: TimingSetup, cores: Sequence[int]) -> None:
        """``cores``: of the threads of a kernel, one each."""
        self._cores = cores
        self._options = setup.options
        self._target = setup.target
        self._harness: Harness | None = None
        self._sketches: dict[str, Sketch] = {}
        self._tasks: dict[str, TaskMemory] = {}
        self._workspace = aligned_empty((0,), "uint8")
        self._slots: dict[int, LoadedKernel] = {}

    def sketch(self, key: str, payload: bytes) -> None:
        """Keep a sketch (pickled) for later requests."""
        self._sketches[key] = pickle.loads(payload)

    def task(self, key: str, dag: bytes, reference: bytes | Failure) -> None:
        """Make this task's arrays and let go of the last one's.

        ``reference``: the oracle's result as the builder pickled it, or why there is none.
        """
        self._slots.clear()
        self._tasks.clear()
        task_dag = pickle.loads(dag)
        inputs = random_inputs(task_dag, self._options.seed)
        copies = {name: aligned_copy(array) for name, array in inputs.items()}
        oracle = reference if isinstance(reference, Failure) else pickle.loads(reference)
        constants = copies_beyond_l2(task_dag, self._target, self._options.state)
        self._tasks[key] = TaskMemory(task_dag, copies, oracle, constants)

    def measure(self, request: TimingRequest, best_s: float) -> MeasureResult:
        """Load one kernel, take a burst of samples, check it where the options say so."""
        loaded = self._load(request)
        if isinstance(loaded, Failure):
            return loaded
        state = self._options.state
        harness = self._harness_here()
        seconds = burst(lambda runs: harness.run(loaded, runs, state), best_s, self._options)
        wanted = self._options.check
        error: float | None = None
        if wanted == "all" or (wanted == "best" and min(seconds) < best_s):
            checked = self._check(self._tasks[request.task], loaded)
            if isinstance(checked, Failure):
                return checked
            error = checked
        return Timing(seconds, state, error)

    def verify(self, request: TimingRequest) -> float | Failure:
        """Load one kernel, run it once, and compare: the relative error, whatever it is."""
        loaded = self._load(request)
        if isinstance(loaded, Failure):
            return loaded
        self._harness_here().run(loaded, 1, "warm")
        return self._error(self._tasks[request.task], loaded)

    def load(self, request: TimingRequest, slot: int) -> float | Failure:
        """Keep a kernel loaded under a number, for ``sample``; its relative error once checked."""
        loaded = self._load(request)
        if isinstance(loaded, Failure):
            return loaded
        self._harness_here().run(loaded, 1, "warm")
        checked = self._check(self._tasks[request.task], loaded)
        if not isinstance(checked, Failure):
            self._slots[slot] = loaded
        return checked

    def sample(self, slot: int) -> float:
        """Seconds of a kernel that was loaded: the median of a few samples."""
        loaded, harness, state = self._slots[slot], self._harness_here(), self._options.state
        first = harness.run(loaded, 1, state)  # brings code and data back after the other kernels
        runs = inner_runs(first, self._options)
        return median(harness.run(loaded, runs, state) for _ in range(_ROUND_SAMPLES))

    def _harness_here(self) -> Harness:
        if self._harness is None:
            self._harness = Harness(self._target, self._cores)
        return self._harness

    def _load(self, request: TimingRequest) -> LoadedKernel | Failure:
        try:
            self._harness_here()
            kernel: Kernel = pickle.loads(request.kernel)
            sketch, scratch = self._sketches[request.sketch], self._scratch(kernel.workspace_bytes)
            return bind(kernel, self._tasks[request.task], sketch, request.values, scratch)
        except Exception as error:  # the boundary: whatever goes wrong is a result
            return failure("load", error)

    def _scratch(self, size: int) -> Array:
        if self._workspace.nbytes < size:
            self._workspace = aligned_empty((size,), "uint8")
        return self._workspace

    def _error(self, task: TaskMemory, loaded: LoadedKernel) -> float | Failure:
        if isinstance(task.reference, Failure):
            return task.reference
        try:
            return result_error(task, loaded)
        except Exception as error:  # the boundary
            return failure("verify", error)

    def _check(self, task: TaskMemory, loaded: LoadedKernel) -> float | Failure:
        error = self._error(task, loaded)
        if isinstance(error, Failure) or error <= self._options.tolerance:
            return error
        message = f"relative error {error:.3g}, {self._options.tolerance:g} is allowed"
        return Failure("verify", WRONG_RESULT, message)


def serve_timing(channel: Channel, setup: TimingSetup) -> None:
    """Answer timing requests until the channel closes."""
    cpus = allowed_cpus()
    os.sched_setaffinity(0, {cpus[0]})
    worker = TimingWorker(setup, [cpus[k % len(cpus)] for k in range(setup.target.threads)])
    methods = (
        worker.sketch,
        worker.task,
        worker.measure,
        worker.verify,
        worker.load,
        worker.sample,
    )
    serve(channel, {method.__name__: method for method in methods})
