"""What all runners share that compile nothing and time nothing."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

from autosched.measure.batch_runner import BatchRunner, not_waiting
from autosched.measure.protocol import MeasuredTask, Ticket
from autosched.measure.result import Failure, MeasureResult
from autosched.tasks.candidate import Candidate


class OfflineRunner(BatchRunner):
    """The runner protocol on two functions: ``answer`` and ``verify``.

    No process is started and nothing is compiled.  Every candidate gets its full answer; none is
    dropped for being slow.
    """

    def __init__(self) -> None:
        self._tickets = 0
        self._waiting: set[int] = set()

    @abstractmethod
    def answer(self, task: MeasuredTask, candidates: Sequence[Candidate]) -> list[MeasureResult]:
        """One result a candidate, the same whenever and in whatever company it is asked for."""

    @abstractmethod
    def verify(self, task: MeasuredTask, candidate: Candidate) -> float | Failure:
        """Relative error against the oracle; see ``Runner``."""

    def submit(self, task: MeasuredTask, candidates: Sequence[Candidate]) -> Ticket:
        """Keep a batch; see ``Runner``."""
        self._tickets += 1
        self._waiting.add(self._tickets)
        return Ticket(self._tickets, task, tuple(candidates))

    def collect(self, ticket: Ticket, best_s: float | None = None) -> list[MeasureResult]:
        """Answers of a batch; raises MeasureError when they were collected before."""
        if ticket.number not in self._waiting:
            raise not_waiting(ticket)
        self._waiting.remove(ticket.number)
        return self.answer(ticket.task, ticket.candidates)

    def remeasure(
        self, task: MeasuredTask, candidates: Sequence[Candidate], rounds: int = 5
    ) -> list[MeasureResult]:
        """The same answers again."""
        return self.answer(task, candidates)

    def close(self) -> None:
        """Forget the batches that wait; a second call does nothing."""
        self._waiting.clear()
