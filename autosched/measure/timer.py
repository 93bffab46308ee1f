"""The tuner's side of the timing child."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

from autosched.measure.build_pool import Built, SketchCache
from autosched.measure.child import Child, again_when_killed
from autosched.measure.errors import ChildDiedError, ChildTimeoutError, killed_from_outside
from autosched.measure.fastest import FastestKernels
from autosched.measure.messages import ComingCandidate, TimingRequest, TimingSetup
from autosched.measure.options import MeasureOptions
from autosched.measure.pacer import TaskPace, at_usual_pace
from autosched.measure.result import WRONG_RESULT, Failure, MeasureResult, Timing
from autosched.measure.zygote import Zygote
from autosched.tasks.candidate import Candidate
from codegen.backend import backend_of
from codegen.gpu.errors import DeviceLostError
from sketch.schedule.decision import DecisionId
from sketch.schedule.sketch import Sketch
from sketch.target.target import Target

# Interleaved re-measurements begin so often again because their process was killed from outside.
_SECOND_CHANCES: Final = 3
# A longer pacer, as a share of what a burst may take, would only take time: long kernels have met
# many moments of the machine themselves.
_LONGEST_PACER: Final = 0.1
# A new process that loads a driver, makes a context on a GPU, or large inputs, may take so long.
_READY_S: Final = 60.0


@dataclass(slots=True)
class TaskState:
    """What the runner keeps per task.

    Attributes:
        key: of the task.
        dag: pickled DAG of the first variant.
        best_s: fastest timing so far.
        reference: the oracle's result, on its way; None until a check needs it.
        asked: how often it was asked for: more than once only where it was lost.
        fastest: machine code of its fastest candidates.
        paced: whether it has a pacer.
        pace: of the machine while it is measured.
    """

    key: str
    dag: bytes
    best_s: float = math.inf
    reference: Future[Built] | None = None
    asked: int = 0
    fastest: FastestKernels = field(default_factory=FastestKernels)
    paced: bool = True
    pace: TaskPace = field(default_factory=TaskPace)

    @property
    def lost_reference(self) -> bool:
        """Whether the oracle was killed from outside: it is no fault of the task."""
        if self.reference is None or not self.reference.done():
            return False
        found = self.reference.result()
        return isinstance(found, Failure) and killed_from_outside(found.kind)

    def oracle(self) -> Built:
        """The oracle's result, or why there is none."""
        if self.reference is None:
            return Failure("verify", "NoReference", "the oracle was not asked")
        return self.reference.result()


def _lost(error: ChildDiedError | ChildTimeoutError) -> Failure:
    if isinstance(error, ChildTimeoutError):
        return Failure("timeout", "run", f"not timed in {error.seconds:g} s")
    if error.from_outside:
        return Failure("run", error.kind, f"its process was killed more than once: {error.output}")
    return Failure("run", error.kind, f"the kernel took its process down: {error.output}")


def _ints(values: Mapping[DecisionId, Any]) -> dict[DecisionId, int]:
    return {name: int(value) for name, value in values.items()}


def _was_killed(result: MeasureResult) -> bool:
    return isinstance(result, Failure) and killed_from_outside(result.kind)


def _took_device(result: object) -> bool:
    """Whether a kernel left the device in an error that only a new process clears."""
    return isinstance(result, Failure) and result.kind == DeviceLostError.__name__


class Timer:
    """Runs built candidates in the timing child; a crash or a hang becomes a ``Failure``."""

    def __init__(
        self, zygote: Zygote, target: Target, options: MeasureOptions, sketches: SketchCache
    ) -> None:
        self._child = Child(zygote, backend_of(target).worker, TimingSetup(target, options))
        self._options = options
        self._sketches = sketches

    def prepare(self, task: TaskState, candidates: Sequence[Candidate]) -> None:
        """Let the child make what candidates need while they are still being built.

        Args:
            task: of the candidates.
            candidates: none of which need ever be measured.
        """
        coming = [ComingCandidate(c.sketch.key, _ints(c.values)) for c in candidates]
        # What goes wrong, goes wrong again when it is measured, where somebody is told.
        with suppress(ChildDiedError, ChildTimeoutError):
            self._define(task, *(c.sketch for c in candidates))
            limit = self._options.run_timeout_s
            self._child.ask("prepare", task.key, coming, timeout_s=limit)

    def measure(
        self, task: TaskState, candidate: Candidate, kernel: bytes, best_s: float
    ) -> MeasureResult:
        """Time a kernel in a burst of samples.

        Args:
            task: its inputs and options.
            candidate: whose kernel it is.
            kernel: machine code.
            best_s: best time so far, in seconds; a slower kernel gets fewer samples.
        """
        if self._child.calls >= self._options.recycle_after:
            self._child.kill()
        result = self._measure(task, candidate, kernel, best_s)
        if isinstance(result, Failure) and result.kind == WRONG_RESULT:
            # Perhaps another kernel wrote where it must not, maybe the pacer: judge again on fresh
            # memory.
            self._child.kill()
            result = self._measure(task, candidate, kernel, best_s, paced=False)
        return result

    def _measure(
        self,
        task: TaskState,
        candidate: Candidate,
        kernel: bytes,
        best_s: float,
        paced: bool = True,
    ) -> MeasureResult:
        def request() -> Any:
            pacer_s = self._pacer_s(task) if paced else None
            return self._call(task, candidate, kernel, "measure", best_s, pacer_s)

        try:
            result: MeasureResult = again_when_killed(request)
            return result
        except (ChildDiedError, ChildTimeoutError) as error:
            lost, died = _lost(error), isinstance(error, ChildDiedError) and not error.from_outside
        if not (died and paced and task.pace.pacer):
            return lost
        alone = self._measure(task, candidate, kernel, best_s, paced=False)
        if isinstance(alone, Timing):
            task.pace.pacer = None  # it was the pacer that took the process down
        return alone

    def verify(self, task: TaskState, candidate: Candidate, kernel: bytes) -> float | Failure:
        """Relative error of one run against the oracle."""
        try:
            result: float | Failure = again_when_killed(
                lambda: self._call(task, candidate, kernel, "verify")
            )
            return result
        except (ChildDiedError, ChildTimeoutError) as error:
            return _lost(error)

    def interleave(
        self,
        task: TaskState,
        candidates: Sequence[Candidate],
        kernels: Sequence[Built],
        rounds: int,
    ) -> list[MeasureResult]:
        """``rounds`` samples of every candidate, taken in turns, at the usual pace of the machine.

        A candidate that takes the process down fails; the others start again in a new one, as do
        all of them when it is killed from outside, a few times.

        Args:
            task: its inputs and options.
            candidates: that are compared.
            kernels: machine code, one for each candidate.
            rounds: samples of each.
        """
        chances = _SECOND_CHANCES
        results: dict[int, MeasureResult] = {
            n: kernel for n, kernel in enumerate(kernels) if isinstance(kernel, Failure)
        }
        while len(results) < len(kernels):
            built = {
                n: (candidates[n], kernel)
                for n, kernel in enumerate(kernels)
                if n not in results and isinstance(kernel, bytes)
            }
            found = self._rounds(task, built, rounds)
            again = {n for n, r in found.items() if _was_killed(r)} if chances else set()
            chances -= bool(again)
            results.update({n: result for n, result in found.items() if n not in again})
        return [results[n] for n in range(len(kernels))]

    def _rounds(
        self, task: TaskState, built: Mapping[int, tuple[Candidate, bytes]], rounds: int
    ) -> dict[int, MeasureResult]:
        """Results of all of ``built``, or of those only that failed before the process was lost."""
        failures: dict[int, MeasureResult] = {}
        errors: dict[int, float] = {}
        samples: dict[int, list[float]] = {}
        number: int | None = None  # of the candidate that runs
        pacer_s = self._pacer_if_it_loads(task)
        try:
            for number, (candidate, kernel) in built.items():
                loaded = self._call(task, candidate, kernel, "load", number)
                if isinstance(loaded, Failure):
                    failures[number] = loaded
                    if _took_device(loaded):
                        return failures
                else:
                    errors[number], samples[number] = loaded, []
            for _ in range(rounds):
                number = None
                pace = 1.0 if pacer_s is None else self._request("pace", pacer_s)
                for number, taken in samples.items():
                    taken.append(at_usual_pace(self._request("sample", number), pace))
        except (ChildDiedError, ChildTimeoutError) as error:
            if number is not None:
                return {**failures, number: _lost(error)}
            task.pace.pacer = None  # it was the pacer that took the process down
            return failures
        state = self._options.state
        return failures | {n: Timing(tuple(s), state, errors[n]) for n, s in samples.items()}

    def _call(
        self, task: TaskState, candidate: Candidate, kernel: bytes, method: str, *arguments: Any
    ) -> Any:
        """Call ``method(request, *arguments)`` once the child has the task and the sketch."""
        request = TimingRequest(task.key, candidate.sketch.key, _ints(candidate.values), kernel)
        self._define(task, candidate.sketch)
        return self._request(method, request, *arguments)

    def _pacer_s(self, task: TaskState) -> float | None:
        """Seconds that the task's pacer usually takes, once the child has it; None without one."""
        pacer = task.pace.pacer
        if pacer is None or pacer.seconds > _LONGEST_PACER * self._options.burst_s:
            return None
        sketch, values = pacer.candidate.sketch, _ints(pacer.candidate.values)
        self._define(task, sketch)
        request = TimingRequest(task.key, sketch.key, values, pacer.kernel)
        key, limit = f"{task.key} {task.pace.number}", self._options.run_timeout_s
        self._child.define("pacer", key, request, timeout_s=limit, forgets=("pacer",))
        return pacer.seconds

    def _pacer_if_it_loads(self, task: TaskState) -> float | None:
        """``_pacer_s``; where the process is lost by it, there is no pacer any more."""
        try:
            return self._pacer_s(task)
        except (ChildDiedError, ChildTimeoutError):
            task.pace.pacer = None
            return None

    def _define(self, task: TaskState, *sketches: Sketch) -> None:
        """Send a task and sketches, unless the child has them."""
        limit, oracle = max(self._options.run_timeout_s, _READY_S), task.oracle()
        self._child.define("open", "bench", timeout_s=limit)
        version = f"{task.key} asked={task.asked}"
        self._child.define(
            "task", version, task.key, task.dag, oracle,
            timeout_s=limit, forgets=("task", "pacer"),
        )  # fmt: skip
        for sketch in sketches:
            payload = self._sketches.payload(sketch)
            self._child.define("sketch", sketch.key, sketch.key, payload, timeout_s=limit)

    def _request(self, method: str, *arguments: Any) -> Any:
        limit = self._options.run_timeout_s
        result = self._child.call(method, *arguments, timeout_s=limit)
        if _took_device(result):
            self._child.kill()  # nothing works in that process any more
        return result

    def close(self) -> None:
        """End the timing child."""
        self._child.kill()
