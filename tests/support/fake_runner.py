"""A runner that measures nothing: the time of a candidate is a function of its decisions."""

from __future__ import annotations

import itertools
import math
import zlib
from collections.abc import Callable, Sequence

from autosched.measure.batch_runner import BatchRunner
from autosched.measure.protocol import MeasuredTask, Ticket
from autosched.measure.result import Failure, MeasureResult, Timing
from autosched.tasks.candidate import Candidate
from costmodel.extract import draft_seconds
from sketch.population.population import from_rows

Rule = Callable[[Candidate], MeasureResult | None]


def landscape(candidate: Candidate) -> float:
    """Seconds: the draft's, distorted by a valley per decision that the draft knows nothing of."""
    logs = math.log(float(draft_seconds(from_rows(candidate.sketch, [candidate.values]))[0]))
    for name, value in candidate.named.items():
        best = zlib.crc32(name.encode()) % 5
        logs += 0.08 * (math.log2(value + 1) - best) ** 2
    sketch_bias = zlib.crc32(candidate.sketch.key.encode()) % 100 / 100
    return math.exp(logs + 0.3 * sketch_bias)


class FakeRunner(BatchRunner):
    """Deterministic; keeps what it was asked, in order.

    Args:
        rule: a result that replaces the landscape's, or None.
        error: relative error of a candidate.
        on_batch: called before each batch with its number.
    """

    def __init__(
        self,
        rule: Rule = lambda candidate: None,
        error: Callable[[Candidate], float] = lambda candidate: 0.0,
        on_batch: Callable[[int], None] = lambda number: None,
    ) -> None:
        self.measured: list[tuple[str, Candidate]] = []
        self.batches: list[tuple[str, int]] = []
        self.remeasured: list[tuple[str, int]] = []
        self.verified = 0
        self._rule, self._error, self._on_batch = rule, error, on_batch

    def submit(self, task: MeasuredTask, candidates: Sequence[Candidate]) -> Ticket:
        return Ticket(len(self.batches), task, tuple(candidates))

    def collect(self, ticket: Ticket, best_s: float | None = None) -> list[MeasureResult]:
        self._on_batch(len(self.batches))
        self.batches.append((ticket.task.key, len(ticket.candidates)))
        self.measured += [(ticket.task.key, candidate) for candidate in ticket.candidates]
        return [self.time(candidate) for candidate in ticket.candidates]

    def time(self, candidate: Candidate) -> MeasureResult:
        return self._rule(candidate) or Timing((landscape(candidate),))

    def remeasure(
        self, task: MeasuredTask, candidates: Sequence[Candidate], rounds: int = 5
    ) -> list[MeasureResult]:
        self.remeasured.append((task.key, len(candidates)))
        return [self.time(candidate) for candidate in candidates]

    def verify(self, task: MeasuredTask, candidate: Candidate) -> float | Failure:
        self.verified += 1
        return self._error(candidate)

    def close(self) -> None:
        """Nothing to end."""

    def sequence(self) -> list[tuple[str, str, tuple[int, ...]]]:
        """(task, sketch, decisions in order of name) of everything measured."""
        return [
            (key, c.sketch.key, tuple(int(c.values[name]) for name in sorted(c.values, key=str)))
            for key, c in self.measured
        ]


def digest(runner: FakeRunner) -> int:
    """One number for a whole sequence."""
    return zlib.crc32(repr(runner.sequence()).encode())


def ticking(step_s: float) -> Callable[[], float]:
    """A clock that advances by a fixed time with every look at it."""
    ticks = itertools.count()
    return lambda: next(ticks) * step_s
