"""The runner for this machine: builds in parallel, times one candidate at a time."""

from __future__ import annotations

import math
import pickle
from collections.abc import Sequence
from concurrent.futures import Future, wait
from dataclasses import replace
from typing import TYPE_CHECKING, Final, Self

from autosched.measure.batch_runner import BatchRunner, not_waiting
from autosched.measure.build_pool import BuildPool, Built, SketchCache, TimedBuild
from autosched.measure.burst_noise import BatchBursts, BurstNoise
from autosched.measure.errors import BatchInterrupted, MeasureError
from autosched.measure.function_reference import reference_of
from autosched.measure.options import MeasureOptions
from autosched.measure.pacer import at_level
from autosched.measure.protocol import MeasuredTask, Ticket
from autosched.measure.result import Failure, MeasureResult, Timing, constant_state
from autosched.measure.task_memory import constant_bytes
from autosched.measure.timer import TaskState, Timer
from autosched.measure.zygote import Zygote
from autosched.system.noted_signals import noted_signals
from autosched.tasks.candidate import Candidate
from codegen.backend import backend_of, check_runs
from codegen.cpu_share import usable_cpus
from sketch.target.target import Target

if TYPE_CHECKING:
    from autosched.measure.builder import Build

DEFAULT_BUILD: Final = "autosched.measure.builder:build_candidate"
# Bytes of a task's constants that its pacer may have once more.
_MOST_CONSTANTS: Final = 64 << 20


class LocalRunner(BatchRunner):
    """Measures on this machine's CPU or GPU; a context manager.

    Candidates are compiled by child processes, one per CPU, and timed in another child, so neither
    a crash nor a hang of a kernel or of the compiler reaches the tuner.  ``submit``, ``collect``
    and the rest are for one thread; compiling goes on in the background between them.

    Args:
        target: the machine that candidates are made for; it must be this one.
        options: how to measure.
        build: builds instead of ``builder.build_candidate``; a module-level function that a clean
            process can import, ``build(sketch, values) -> codegen.kernel.CompiledKernel``.

    Raises:
        TargetError: nothing can be timed for such a target.
    """

    def __init__(
        self,
        target: Target,
        options: MeasureOptions | None = None,
        build: Build | None = None,
    ) -> None:
        check_runs(target, "time candidates")
        self.options = options or MeasureOptions()
        self._zygote = Zygote()
        reference = DEFAULT_BUILD if build is None else reference_of(build)
        count = self.options.builders or usable_cpus()
        self._pool = BuildPool(self._zygote, reference, count, self.options)
        self._sketches = SketchCache()
        self._timer = Timer(self._zygote, target, self.options, self._sketches)
        self._noise = BurstNoise()
        self._bursts = 1 if target.card.emulated else self.options.bursts
        self._paced = self.options.paced and backend_of(target).uneven
        self._tasks: dict[str, TaskState] = {}
        self._building: dict[int, list[Future[TimedBuild]]] = {}
        self._work: list[Future[bytes | None]] = []
        self._tickets = 0
        self._closed = False

    def __enter__(self) -> Self:
        """Start the clean process: it loads its modules while the first batch is chosen."""
        self._zygote.begin()
        return super().__enter__()

    def submit(self, task: MeasuredTask, candidates: Sequence[Candidate]) -> Ticket:
        """Start compiling a batch in the background and return at once."""
        state = self._begun(task)
        return self._ticket(task, candidates, [self._built(state, c) for c in candidates])

    def submit_built(
        self, task: MeasuredTask, candidates: Sequence[Candidate], built: Sequence[TimedBuild]
    ) -> Ticket:
        """``submit`` of candidates that were compiled elsewhere; ``built``: one for each."""
        self._begun(task)
        return self._ticket(task, candidates, [_done(item) for item in built])

    def in_background(self, function: str, payload: bytes) -> Future[bytes | None]:
        """What a function makes of bytes in a building child; see ``BackgroundWorker``."""
        self._check_open()
        self._work = [future for future in self._work if not future.done()]
        self._work.append(self._pool.work(function, payload))
        return self._work[-1]

    def _begun(self, task: MeasuredTask) -> TaskState:
        self._check_open()
        state = self._state(task)
        if self.options.check != "none":
            self._ask_reference(state)
        return state

    def _ticket(
        self,
        task: MeasuredTask,
        candidates: Sequence[Candidate],
        building: list[Future[TimedBuild]],
    ) -> Ticket:
        self._tickets += 1
        self._building[self._tickets] = building
        return Ticket(self._tickets, task, tuple(candidates))

    def collect(self, ticket: Ticket, best_s: float | None = None) -> list[MeasureResult]:
        """Wait until everything submitted is compiled, then time the batch of ``ticket``.

        While compilers are busy, the timing child makes the constants of the batch.

        Raises:
            BatchInterrupted: Ctrl-C, with the results of those that are timed.
        """
        state = self._state(ticket.task)
        if not all(future.done() for future in self._waiting(ticket)):
            self._timer.prepare(state, ticket.candidates)
        built = self._take(ticket)
        state.best_s = state.best_s if best_s is None else best_s
        known_s, levelled = state.best_s, state.pace.known
        results: list[MeasureResult] = []
        try:
            with noted_signals() as signals:
                for candidate, timed in zip(ticket.candidates, built, strict=True):
                    signals.check()
                    result = self._measured(state, candidate, timed.built)
                    if isinstance(result, Timing):
                        result = replace(result, build_s=timed.seconds)
                    results.append(result)
                level = state.pace.new_level()
                results = [at_level(result, level) for result in results]
                known_s *= level if levelled else 1.0
                state.best_s = min(known_s, *map(_median, results), math.inf)
                bursts = BatchBursts(
                    self._noise, results, known_s, self._bursts, self.options.drop_second
                )
                results = bursts.results
                while numbers := bursts.undecided():
                    for n in numbers:
                        signals.check()
                        again = self._measured(state, ticket.candidates[n], built[n].built)
                        bursts.add(n, again)
        except KeyboardInterrupt as error:
            level = state.pace.new_level()
            raise BatchInterrupted([at_level(result, level) for result in results]) from error
        for candidate, timed, result in zip(ticket.candidates, built, results, strict=True):
            if isinstance(result, Timing) and isinstance(timed.built, bytes):
                state.fastest.note(candidate, timed.built, result.median)
        return results

    def _measured(self, state: TaskState, candidate: Candidate, kernel: Built) -> MeasureResult:
        if isinstance(kernel, Failure):
            return kernel
        result = self._timer.measure(state, candidate, kernel, state.best_s)
        if isinstance(result, Timing):
            state.best_s = min(state.best_s, result.median)
            if state.paced:
                state.pace.follow(candidate, kernel, result)
        return result

    def remeasure(
        self, task: MeasuredTask, candidates: Sequence[Candidate], rounds: int = 5
    ) -> list[MeasureResult]:
        """Time candidates against each other: interleaved, one sample (a median) a round.

        Every one of them is checked against the oracle.
        """
        state = self._state(task)
        self._ask_reference(state)
        built = [timed.built for timed in self._take(self.submit(task, candidates))]
        return self._timer.interleave(state, candidates, built, rounds)

    def verify(self, task: MeasuredTask, candidate: Candidate) -> float | Failure:
        """Relative error against the oracle: ``max|y - ref| / max|ref|``."""
        state = self._state(task)
        self._ask_reference(state)
        (timed,) = self._take(self.submit(task, [candidate]))
        kernel = timed.built
        if isinstance(kernel, Failure):
            return kernel
        return self._timer.verify(state, candidate, kernel)

    def close(self) -> None:
        """End all processes; a second call does nothing."""
        self._closed = True
        self._pool.cancel()
        self._timer.close()
        self._zygote.close()  # ends its children: what is still being built fails
        self._pool.join()

    def _check_open(self) -> None:
        if self._closed:
            raise MeasureError("the runner is closed", hint="make a new one")

    def _state(self, task: MeasuredTask) -> TaskState:
        if task.key not in self._tasks:
            # The pacer has constants of its own, unless they are in no cache anyway.
            light = constant_bytes(task.dag) <= _MOST_CONSTANTS
            paced = self._paced and (light or constant_state(self.options.state) == "dram_cold")
            self._tasks[task.key] = TaskState(task.key, pickle.dumps(task.dag), paced=paced)
        return self._tasks[task.key]

    def _built(self, state: TaskState, candidate: Candidate) -> Future[TimedBuild]:
        """The kernel on its way; those of the fastest candidates are there already."""
        known = state.fastest.kernel(candidate)
        if known is None:
            return self._pool.build(candidate, self._sketches.payload(candidate.sketch))
        return _done(TimedBuild(known))

    def _ask_reference(self, state: TaskState) -> None:
        if state.reference is None or state.lost_reference:
            state.asked += 1
            state.reference = self._pool.reference(state.dag, self.options.seed)

    def _take(self, ticket: Ticket) -> list[TimedBuild]:
        """The kernels of a batch, once nothing at all is being compiled or otherwise made."""
        building = self._waiting(ticket)
        references = [s.reference for s in self._tasks.values() if s.reference is not None]
        wait(references)
        wait(self._work)
        wait([future for batch in self._building.values() for future in batch])
        del self._building[ticket.number]
        return [future.result() for future in building]

    def _waiting(self, ticket: Ticket) -> list[Future[TimedBuild]]:
        """The kernels of a batch, on their way."""
        self._check_open()
        if ticket.number not in self._building:
            raise not_waiting(ticket)
        return self._building[ticket.number]


def _median(result: MeasureResult) -> float:
    """Seconds; infinite of a failure."""
    return result.median if isinstance(result, Timing) else math.inf


def _done(built: TimedBuild) -> Future[TimedBuild]:
    future: Future[TimedBuild] = Future()
    future.set_result(built)
    return future
