"""A fleet without a cluster: machines are threads that ask a simulated runner."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from autosched.fleet.errors import MachineLostError
from autosched.fleet.work import Answer, Work
from autosched.measure.simulated import SimulatedRunner

SENTINEL_S = 1e-3


class SimulatedCrew:
    """Deterministic times; keeps who measured what.

    Args:
        machines: names.
        before: called with the machine before it measures; may raise ``MachineLostError``.
        sentinel: seconds of the sentinel on a machine.
    """

    def __init__(
        self,
        machines: Sequence[str],
        before: Callable[[str], None] = lambda machine: None,
        sentinel: Callable[[str], float] = lambda machine: SENTINEL_S,
    ) -> None:
        self.machines = tuple(machines)
        self.measured: list[tuple[str, int]] = []
        self.announced = 0
        self.closed = threading.Event()
        self._before, self._sentinel = before, sentinel
        self._runner, self._lock = SimulatedRunner(seed=3), threading.Lock()

    def announce(self, work: Work) -> None:
        self.announced += work.trials

    def work(self, machine: str, work: Work, best_s: float) -> Answer:
        self._before(machine)
        if self.closed.is_set():
            raise MachineLostError("closed")
        task, candidates = work.unpacked()
        with self._lock:
            self.measured.append((machine, work.trials))
            if work.kind == "verify":
                return Answer((0.0,), self._sentinel(machine))
            return Answer(tuple(self._runner.answer(task, candidates)), self._sentinel(machine))

    def close(self) -> None:
        self.closed.set()
