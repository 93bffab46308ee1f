"""The timing child: loads kernels, runs them, checks their results, takes the time."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import cached_property
from statistics import median
from typing import Any, Final

from autosched.measure.bench import Bench
from autosched.measure.builder import failure
from autosched.measure.execution import aligned_copy, array_empty
from autosched.measure.inputs import is_constant, random_inputs
from autosched.measure.messages import ComingCandidate, TimingRequest
from autosched.measure.options import MeasureOptions
from autosched.measure.pacer import PacedRun
from autosched.measure.result import (
    WRONG_RESULT,
    Failure,
    MeasureResult,
    Timing,
    constant_state,
    leaves_warm,
)
from autosched.measure.sampling import burst, inner_runs
from autosched.measure.task_memory import TaskMemory
from autosched.measure.variant_errors import SMALL, of_variant, variant_errors
from sketch.errors import AutoschedError
from sketch.lower.packing import preparations
from sketch.schedule.sketch import Sketch

# Samples per candidate and round of an interleaved re-measurement; their median is kept.
_ROUND_SAMPLES: Final = 5
# A run that takes so long has the caches for itself: nothing is run before it to warm them.
_LONG_S: Final = 50e-3


class TimingWorker:
    """The state of the timing child.

    Args:
        options: how to measure.
        open_bench: what runs kernels here; called once, unless it fails.
    """

    def __init__(self, options: MeasureOptions, open_bench: Callable[[], Bench[Any]]) -> None:
        self._options = options
        self._open_bench = open_bench
        self._sketches: dict[str, Sketch] = {}
        self._tasks: dict[str, TaskMemory] = {}
        self._slots: dict[int, Any] = {}
        self._variant_errors: dict[tuple[str, str], tuple[float, ...]] = {}  # by task and variant
        self._pacer: Any = None  # a loaded kernel of the task
        self._written: dict[str, TimingRequest] = {}  # a right kernel of each task as it is written

    @property
    def methods(self) -> Mapping[str, Callable[..., Any]]:
        """What the tuner may call, by name."""
        methods: tuple[Callable[..., Any], ...] = (
            self.open,
            self.sketch,
            self.task,
            self.pacer,
            self.prepare,
            self.measure,
            self.verify,
            self.load,
            self.sample,
            self.pace,
        )
        return {method.__name__: method for method in methods}

    def open(self) -> None:
        """Get ready to run kernels; what fails here fails again, with its reason, with the first
        kernel.
        """
        with suppress(Exception):  # the boundary
            _ = self._bench

    def sketch(self, key: str, payload: bytes) -> None:
        """Keep a sketch (pickled) for later requests."""
        self._sketches[key] = pickle.loads(payload)

    def task(self, key: str, dag: bytes, reference: bytes | Failure) -> None:
        """Make this task's arrays and let go of the last one's.

        ``reference``: the oracle's result as the builder pickled it, or why there is none.
        """
        for loaded in self._slots.values():
            self._bench.unload(loaded)
        self._slots.clear()
        self._drop_pacer()
        if "_bench" in vars(self):  # else it has not been opened
            self._bench.forget()
        self._tasks.clear()
        task_dag = pickle.loads(dag)
        inputs = random_inputs(task_dag, self._options.seed)
        if self._options.inputs != "aligned":
            given = [tensor.name for tensor in task_dag.inputs if not is_constant(tensor)]
            inputs |= {name: aligned_copy(inputs[name], array_empty) for name in given}
        oracle = reference if isinstance(reference, Failure) else pickle.loads(reference)
        self._tasks[key] = TaskMemory(task_dag, inputs, oracle, fixed=True)

    def pacer(self, request: TimingRequest) -> None:
        """Keep a kernel loaded that says how fast the machine is.

        What it computes must not count as the result of another kernel, and it must not bring
        constants into the caches for it: these are its own, unless they are flushed anyway.
        """
        self._drop_pacer()
        task = self._tasks[request.task]
        flushed = constant_state(self._options.state) == "dram_cold"
        packed = task.packed if flushed else {}
        loaded = self._load(request, replace(task, packed=packed, outputs={}))
        self._pacer = None if isinstance(loaded, Failure) else loaded

    def prepare(self, key: str, coming: Sequence[ComingCandidate]) -> None:
        """Make the constants of candidates that are still being built.

        ``key``: of their task.  What fails here fails again, with its reason, when it is loaded.
        """
        task = self._tasks[key]
        with suppress(Exception):  # the boundary
            task.copies = self._bench.copies(task.dag)
            for candidate in coming:
                wanted = preparations(self._sketches[candidate.sketch], candidate.values)
                if not task.make_constants(wanted):
                    return

    def measure(
        self, request: TimingRequest, best_s: float, pacer_s: float | None = None
    ) -> MeasureResult:
        """Load one kernel, take a burst of samples, check it where the options say so.

        Args:
            request: the kernel.
            best_s: fastest time so far, in seconds.
            pacer_s: seconds that the pacer usually takes; None: there is none.
        """
        with self._loaded(request) as loaded:
            if isinstance(loaded, Failure):
                return loaded
            try:
                result = self._measure(request, loaded, best_s, pacer_s)
            except AutoschedError as error:
                return failure("run", error)
        return self._with_variant_errors(request, result)

    def verify(self, request: TimingRequest) -> float | Failure:
        """Load one kernel, run it once, and compare: the relative error, whatever it is."""
        with self._loaded(request) as loaded:
            return self._run_once(self._memory(request), loaded, self._error)

    def load(self, request: TimingRequest, slot: int) -> float | Failure:
        """Keep a kernel loaded under a number, for ``sample``; its relative error once checked."""
        if slot in self._slots:  # first: there may not be room for both
            self._bench.unload(self._slots.pop(slot))
        loaded = self._load(request)
        checked = self._run_once(self._memory(request), loaded, self._check)
        if not isinstance(checked, Failure):
            self._slots[slot] = loaded
        elif not isinstance(loaded, Failure):
            self._bench.unload(loaded)
        return checked

    def sample(self, slot: int) -> float:
        """Seconds of a kernel that was loaded: the median of a few samples; of one run where that
        takes as long as a burst may.
        """
        return self._middle(self._slots[slot])

    def pace(self, pacer_s: float) -> float:
        """How many times as slow as usual the machine is, by a sample of the pacer; 1 where that
        could not be loaded.

        ``pacer_s``: seconds that it usually takes.
        """
        return 1.0 if self._pacer is None else self._middle(self._pacer) / pacer_s

    def _middle(self, loaded: Any) -> float:
        bench, state = self._bench, self._options.state
        first = bench.run(loaded, 1, state)  # brings code and data back after the other kernels
        if first >= self._options.burst_s:
            return first
        runs = inner_runs(first, self._options)
        in_time = int(self._options.burst_s / (runs * first))
        samples = max(1, min(_ROUND_SAMPLES, in_time))
        return median(bench.run(loaded, runs, state) for _ in range(samples))

    @cached_property
    def _bench(self) -> Bench[Any]:
        return self._open_bench()

    def _runs_of(self, loaded: Any, pacer_s: float | None) -> Callable[[int], float]:
        """What gives mean seconds of so many runs, with a pacer at the usual pace."""
        bench, state, pacer = self._bench, self._options.state, self._pacer
        if pacer is None or pacer_s is None:
            return lambda runs: bench.run(loaded, runs, state)
        again = leaves_warm(state)  # the other kernel does not
        runs_of_pacer = inner_runs(pacer_s, self._options)

        def seconds_of(kernel: Any, runs: int) -> float:
            if again and (first := bench.run(kernel, 1, state)) > _LONG_S:
                return first
            return bench.run(kernel, runs, state)

        return PacedRun(
            lambda runs: seconds_of(loaded, runs),
            lambda: seconds_of(pacer, runs_of_pacer),
            pacer_s,
        )

    def _drop_pacer(self) -> None:
        if self._pacer is not None:
            self._bench.unload(self._pacer)
            self._pacer = None

    def _measure(
        self, request: TimingRequest, loaded: Any, best_s: float, pacer_s: float | None
    ) -> MeasureResult:
        run, wanted = self._runs_of(loaded, pacer_s), self._options.check
        alone = run.alone if isinstance(run, PacedRun) else None
        self._bench.waiting()  # of what ran before
        seconds = burst(run, best_s, self._options, alone)
        waiting = self._bench.waiting()
        error: float | None = None
        best = min(seconds) < best_s or self._is_compared(request)
        if wanted == "all" or (wanted == "best" and best):
            checked = self._check(self._memory(request), loaded)
            if isinstance(checked, Failure):
                return checked
            error = checked
        pace = median(run.paces) if isinstance(run, PacedRun) else None
        return Timing(seconds, self._options.state, error, pace=pace, waiting=waiting)

    def _with_variant_errors(self, request: TimingRequest, result: MeasureResult) -> MeasureResult:
        """The errors of the candidate's variant, measured when it is first found to be right; those
        of the task as it is written when a variant's are so large that it matters.
        """
        sketch = self._sketches[request.sketch]
        if isinstance(result, Failure):
            return result
        key = request.task, sketch.variant
        if result.error is None or key in self._variant_errors:
            return replace(result, variant_errors=self._variant_errors.get(key, ()))
        if sketch.dag.key != request.task:
            self._variant_errors[key] = self._errors_of(request)
            written = self._written.get(request.task)
            if written is not None and self._is_compared(written):
                name = self._sketches[written.sketch].variant
                self._variant_errors[request.task, name] = self._errors_of(written)
        elif self._is_compared(request):
            self._variant_errors[key] = self._errors_of(request)
        else:
            self._written.setdefault(request.task, request)
        return replace(result, variant_errors=self._variant_errors.get(key, ()))

    def _is_compared(self, request: TimingRequest) -> bool:
        """Whether a candidate computes its task as it is written, and a variant has errors so large
        that those of the task are to be known, which they are not yet.
        """
        sketch, task = self._sketches[request.sketch], request.task
        if sketch.dag.key != task or (task, sketch.variant) in self._variant_errors:
            return False
        known = [errors for (of, _), errors in self._variant_errors.items() if of == task]
        return max((error for errors in known for error in errors), default=0.0) > SMALL

    def _errors_of(self, request: TimingRequest) -> tuple[float, ...]:
        dag, kernel = self._tasks[request.task].dag, pickle.loads(request.kernel)
        sketch, seed = self._sketches[request.sketch], self._options.seed
        return variant_errors(self._bench, dag, kernel, sketch, request.values, seed)

    @contextmanager
    def _loaded(self, request: TimingRequest) -> Iterator[Any]:
        """A kernel that is loaded as long as it is needed, or why it cannot be."""
        loaded = self._load(request)
        try:
            yield loaded
        finally:
            if not isinstance(loaded, Failure):
                self._bench.unload(loaded)

    def _load(self, request: TimingRequest, memory: TaskMemory | None = None) -> Any:
        """``memory``: with the arrays; None: the task's."""
        try:
            task = self._tasks[request.task] if memory is None else memory
            task.copies = self._bench.copies(task.dag)
            kernel, sketch = pickle.loads(request.kernel), self._sketches[request.sketch]
            return self._bench.load(kernel, task, sketch, request.values)
        except Exception as error:  # the boundary: whatever goes wrong is a result
            return failure("load", error)

    def _memory(self, request: TimingRequest) -> TaskMemory:
        """What a candidate is compared with."""
        return of_variant(self._tasks[request.task], self._sketches[request.sketch])

    def _run_once(
        self,
        task: TaskMemory,
        loaded: Any,
        judge: Callable[[TaskMemory, Any], float | Failure],
    ) -> float | Failure:
        if isinstance(loaded, Failure):
            return loaded
        try:
            self._bench.run(loaded, 1, "warm")
        except AutoschedError as error:
            return failure("run", error)
        return judge(task, loaded)

    def _error(self, task: TaskMemory, loaded: Any) -> float | Failure:
        if isinstance(task.reference, Failure):
            return task.reference
        try:
            return self._bench.error(task, loaded)
        except Exception as error:  # the boundary
            return failure("verify", error)

    def _check(self, task: TaskMemory, loaded: Any) -> float | Failure:
        error = self._error(task, loaded)
        if isinstance(error, Failure) or error <= self._options.tolerance:
            return error
        message = f"relative error {error:.3g}, {self._options.tolerance:g} is allowed"
        return Failure("verify", WRONG_RESULT, message)
