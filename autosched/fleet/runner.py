"""The runner of a fleet: batches in pieces, each to a machine that is free."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Sequence
from typing import Final, Protocol

from autosched.fleet.dispatcher import Dispatcher, DispatchOptions
from autosched.fleet.errors import FleetError
from autosched.fleet.work import Answer, Kind, Work, work_of
from autosched.measure.batch_runner import BatchRunner, not_waiting
from autosched.measure.errors import MeasureError
from autosched.measure.protocol import MeasuredTask, Ticket
from autosched.measure.result import Failure, MeasureResult, Timing
from autosched.tasks.candidate import Candidate

# Trials of a piece: so few that machines share a batch, so many that they do not wait for the next.
PIECE_TRIALS: Final = 8
# Pieces a machine that are chosen at any time: one is measured, the others last while the tuner
# learns and chooses.
PIECES_AHEAD: Final = 4
# How often a machine that is free looks for a piece that another has had for too long.
_LOOK_S: Final = 0.5


class Crew(Protocol):
    """The machines, by name, and how work gets to them."""

    @property
    def machines(self) -> Sequence[str]:
        """All of them."""
        ...

    def announce(self, work: Work) -> None:
        """A piece is going to be measured: it may be built meanwhile."""
        ...

    def work(self, machine: str, work: Work, best_s: float) -> Answer:
        """What one machine finds; waits for it.

        Args:
            machine: which.
            work: candidates.
            best_s: the task's best time so far, in seconds.

        Raises:
            AutoschedError: the machine is lost, or cannot measure any more.
        """
        ...

    def close(self) -> None:
        """Let go of all machines."""
        ...


class FleetRunner(BatchRunner):
    """Measures on many machines; a context manager.

    Results come in the order of the candidates, whichever machines have measured them, and the
    order in which machines answer changes nothing of what a tuner asks for next.

    Args:
        crew: the machines; closed with the runner.
        options: when a machine is not believed.
        piece_trials: candidates that go to a machine at once.
    """

    def __init__(
        self, crew: Crew, options: DispatchOptions | None = None, piece_trials: int = PIECE_TRIALS
    ) -> None:
        self._crew, self._piece_trials = crew, piece_trials
        self.dispatcher = Dispatcher(crew.machines, options)
        self._changed = threading.Condition()
        self._works: dict[int, Work] = {}
        self._answers: dict[int, Answer] = {}
        self._waiting: dict[int, tuple[int, ...]] = {}  # pieces by ticket
        self._best: dict[str, float] = {}
        self._tickets = self._pieces = 0
        self._closed = False
        self._cause = ""
        self._threads = [
            threading.Thread(target=self._serve, args=(name,), name=f"fleet {name}", daemon=True)
            for name in crew.machines
        ]
        for thread in self._threads:
            thread.start()

    @property
    def trials_in_flight(self) -> int:
        """So many that no machine waits for the tuner."""
        return self._piece_trials * PIECES_AHEAD * len(self.dispatcher.active)

    def submit(self, task: MeasuredTask, candidates: Sequence[Candidate]) -> Ticket:
        """Give a batch to the machines and return at once."""
        self._check_open()
        size = self._piece_trials
        parts = [candidates[n : n + size] for n in range(0, len(candidates), size)]
        works = [work_of("measure", task, part) for part in parts]
        self._tickets += 1
        ticket = Ticket(self._tickets, task, tuple(candidates))
        self._waiting[ticket.number] = self._add(works, urgent=False)
        return ticket

    def collect(self, ticket: Ticket, best_s: float | None = None) -> list[MeasureResult]:
        """Wait until all pieces of a batch are measured."""
        self._check_open()
        if ticket.number not in self._waiting:
            raise not_waiting(ticket)
        if best_s is not None:
            with self._changed:
                self._best[ticket.task.key] = best_s
        results: list[MeasureResult] = []
        for answer in self._wait(self._waiting.pop(ticket.number)):
            results += [result for result in answer.results if isinstance(result, Timing | Failure)]
        return results

    def remeasure(
        self, task: MeasuredTask, candidates: Sequence[Candidate], rounds: int = 5
    ) -> list[MeasureResult]:
        """Time candidates against each other, all on one machine; see ``Runner``."""
        (answer,) = self._ask("remeasure", task, candidates, rounds)
        return [result for result in answer.results if isinstance(result, Timing | Failure)]

    def verify(self, task: MeasuredTask, candidate: Candidate) -> float | Failure:
        """Relative error against the oracle: ``max|y - ref| / max|ref|``."""
        (answer,) = self._ask("verify", task, [candidate])
        found = answer.results[0]
        assert not isinstance(found, Timing)
        return found

    def close(self) -> None:
        """End the workers of all machines; a second call does nothing."""
        with self._changed:
            closed, self._closed = self._closed, True
            self._changed.notify_all()
        if not closed:
            self._crew.close()  # calls that wait for an answer end
        for thread in self._threads:
            thread.join()

    def _ask(
        self, kind: Kind, task: MeasuredTask, candidates: Sequence[Candidate], rounds: int = 0
    ) -> list[Answer]:
        """One piece that goes before the others."""
        self._check_open()
        if not candidates:
            return [Answer(())]
        return self._wait(self._add([work_of(kind, task, candidates, rounds)], urgent=True))

    def _add(self, works: Sequence[Work], urgent: bool) -> tuple[int, ...]:
        with self._changed:
            numbers = tuple(range(self._pieces, self._pieces + len(works)))
            self._pieces += len(works)
            for number, work in zip(numbers, works, strict=True):
                self._works[number] = work
                self._crew.announce(work)
                self.dispatcher.add(number, work, urgent)
            self._changed.notify_all()
        return numbers

    def _wait(self, numbers: Sequence[int]) -> list[Answer]:
        with self._changed:
            while any(number not in self._answers for number in numbers):
                if not self.dispatcher.active:
                    raise FleetError(
                        f"no machine of the fleet is left: {self._cause}",
                        hint="everything measured is in the log; start machines and go on from it",
                    )
                self._check_open()
                self._changed.wait(_LOOK_S)
            return [self._answers.pop(number) for number in numbers]

    def _serve(self, machine: str) -> None:
        """The life of a machine, in a thread of its own: pieces, until it is lost or closed."""
        while (found := self._next(machine)) is not None:
            number, work = found
            try:
                answer = self._crew.work(machine, work, self._best.get(work.task, math.inf))
            except Exception as error:  # whatever it was, nobody serves this machine any more
                self._lose(machine, error)
                return
            self._finish(machine, number, work, answer)

    def _next(self, machine: str) -> tuple[int, Work] | None:
        with self._changed:
            while not self._closed:
                number = self.dispatcher.take(machine, time.monotonic())
                if number is not None:
                    return number, self._works[number]
                self._changed.wait(_LOOK_S)
        return None

    def _finish(self, machine: str, number: int, work: Work, answer: Answer) -> None:
        with self._changed:
            counts = self.dispatcher.finish(machine, number, answer, time.monotonic())
            if counts is not None:
                times = [r.median for r in counts.results if isinstance(r, Timing)]
                if work.kind == "measure":
                    known = self._best.get(work.task, math.inf)
                    self._best[work.task] = min(known, *times, math.inf)
                self._answer(number, counts)
            self._changed.notify_all()

    def _lose(self, machine: str, error: Exception) -> None:
        with self._changed:
            self._cause = f"{machine}: {error}"
            for number, answer in self.dispatcher.lose(machine):
                self._answer(number, answer)
            self._changed.notify_all()

    def _answer(self, number: int, answer: Answer) -> None:
        self._answers[number] = answer
        del self._works[number]

    def _check_open(self) -> None:
        if self._closed:
            raise MeasureError("the runner is closed", hint="make a new one")
