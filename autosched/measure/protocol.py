"""What the search asks of whoever measures: candidates in, results out."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Protocol, Self, runtime_checkable

from autosched.measure.result import Failure, MeasureResult
from autosched.tasks.candidate import Candidate

if TYPE_CHECKING:
    from sketch.dag.dag import ComputeDAG
    from sketch.target.target import Target


class MeasuredTask(Protocol):
    """The part of a task that a runner looks at."""

    @property
    def key(self) -> str:
        """Structural hash of the task."""
        ...

    @property
    def dag(self) -> ComputeDAG:
        """The first variant: its oracle is the reference for all of them."""
        ...

    @property
    def target(self) -> Target:
        """The machine that code is made for."""
        ...


@dataclass(frozen=True, slots=True)
class Ticket:
    """A batch whose compilation was started by ``Runner.submit``."""

    number: int
    task: MeasuredTask
    candidates: tuple[Candidate, ...]


@runtime_checkable
class BackgroundWorker(Protocol):
    """A runner that does other work, too, while it compiles."""

    def in_background(self, function: str, payload: bytes) -> Future[bytes | None]:
        """What a function makes of bytes in a clean process; None where it fails.

        Nothing is timed before it is done.  ``function``: as ``function_reference`` has it.
        """
        ...


class Runner(Protocol):
    """Compiles and times candidates.

    Results come in the order of the candidates, one each; a candidate that fails is a ``Failure``,
    never an exception.  Nothing is compiled while something is timed.
    """

    @property
    def trials_in_flight(self) -> int:
        """Trials that are to be submitted at any time; 0: one batch after another."""
        ...

    def submit(self, task: MeasuredTask, candidates: Sequence[Candidate]) -> Ticket:
        """Start compiling a batch in the background and return at once."""
        ...

    def collect(self, ticket: Ticket, best_s: float | None = None) -> list[MeasureResult]:
        """Wait until everything submitted is compiled, then time the batch of ``ticket``.

        ``best_s``: the task's best time so far, in seconds; much slower candidates are dropped
        after one or two runs.  None: the best that the runner has seen itself, which may be of a
        candidate that the caller may not use.

        Raises:
            BatchInterrupted: Ctrl-C, with the results of those that are timed.
        """
        ...

    def measure(
        self, task: MeasuredTask, candidates: Sequence[Candidate], best_s: float | None = None
    ) -> list[MeasureResult]:
        """``collect(submit(task, candidates), best_s)``."""
        ...

    def remeasure(
        self, task: MeasuredTask, candidates: Sequence[Candidate], rounds: int = 5
    ) -> list[MeasureResult]:
        """Time candidates against each other: interleaved, one sample (a median) a round.

        Every one of them is checked against the oracle.
        """
        ...

    def verify(self, task: MeasuredTask, candidate: Candidate) -> float | Failure:
        """Relative error against the oracle: ``max|y - ref| / max|ref|``."""
        ...

    def close(self) -> None:
        """End all processes; a second call does nothing."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None: ...
