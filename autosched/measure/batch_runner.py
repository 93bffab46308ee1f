"""What runners have in common: batches one after another, inside a ``with`` block."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

from autosched.measure.errors import MeasureError
from autosched.measure.protocol import MeasuredTask, Ticket
from autosched.measure.result import MeasureResult
from autosched.tasks.candidate import Candidate
from codegen.closeable import Closeable


class BatchRunner(Closeable):
    """The part of ``protocol.Runner`` that follows from ``submit``, ``collect`` and ``close``.

    A context manager.
    """

    @property
    def trials_in_flight(self) -> int:
        """None: one batch after another."""
        return 0

    @abstractmethod
    def submit(self, task: MeasuredTask, candidates: Sequence[Candidate]) -> Ticket:
        """Take on a batch; see ``Runner``."""

    @abstractmethod
    def collect(self, ticket: Ticket, best_s: float | None = None) -> list[MeasureResult]:
        """Results of a batch; raises MeasureError when they were collected before."""

    def measure(
        self, task: MeasuredTask, candidates: Sequence[Candidate], best_s: float | None = None
    ) -> list[MeasureResult]:
        """``collect(submit(task, candidates), best_s)``."""
        return self.collect(self.submit(task, candidates), best_s)


def not_waiting(ticket: Ticket) -> MeasureError:
    """The error of a batch that was collected before, or never submitted to this runner."""
    return MeasureError(f"batch {ticket.number} is not waiting", hint="collect each ticket once")
