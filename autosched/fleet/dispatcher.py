"""Who measures what: pieces of work, and the machines that take them.

Machines that are free take the next piece themselves, so that fast ones do more.  What a lost
machine worked on goes to another; so does what was timed while the sentinel was slow.  A machine
that finds nothing waiting takes over what has been with another for too long: the first answer
counts.  Nothing here knows of processes, clocks or Ray.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from autosched.fleet.sentinel import SentinelTimes, slowness
from autosched.fleet.work import Answer, Work, failed
from autosched.measure.result import Failure


@dataclass(frozen=True, slots=True)
class DispatchOptions:
    """When an answer is not believed, and when a machine is not waited for.

    Attributes:
        noisy: an answer is dropped whose sentinel took so many times what is usual on its machine.
        slow: a machine gets no more work whose sentinel takes so many times that of the others.
        drops: so often an answer of one piece is dropped; then it counts.
        losses: a piece that so many machines were lost with is given up: it is to blame.
        overdue: a piece is taken over that takes so many times what it should by the others.
        nearby: as many pieces of another task may be let by to stay with a task: its arrays are
            there.
    """

    noisy: float = 1.25
    slow: float = 1.5
    drops: int = 2
    losses: int = 3
    overdue: float = 4.0
    nearby: int = 4


@dataclass(slots=True)
class _Piece:
    work: Work
    urgent: bool
    since: dict[str, float] = field(default_factory=dict)  # by machine, where it is measured
    unwanted: set[str] = field(default_factory=set)  # machines whose answer was dropped
    drops: int = 0
    losses: int = 0


class Dispatcher:
    """Pieces by number; machines by name.

    Args:
        machines: names of those that measure.
        options: when they are not believed.
    """

    def __init__(self, machines: Iterable[str], options: DispatchOptions | None = None) -> None:
        self._options = options or DispatchOptions()
        self.times = {name: SentinelTimes() for name in machines}
        self.dropped = 0
        self.slow: list[str] = []
        self._active = list(self.times)
        self._pieces: dict[int, _Piece] = {}
        self._waiting: list[int] = []
        self._last_task: dict[str, str] = {}
        self._trial_s: float | None = None

    @property
    def active(self) -> tuple[str, ...]:
        """Machines that still get work."""
        return tuple(self._active)

    def add(self, number: int, work: Work, urgent: bool = False) -> None:
        """One more piece; urgent ones go first."""
        self._pieces[number] = _Piece(work, urgent)
        self._waiting.append(number)

    def take(self, machine: str, now: float) -> int | None:
        """The piece that a free machine is to measure next, ``now`` in seconds; None: there is
        none.
        """
        if machine not in self._active:
            return None
        number = self._next(machine)
        if number is not None:
            self._waiting.remove(number)
        else:
            number = self._overdue(machine, now)
        if number is not None:
            self._pieces[number].since[machine] = now
            self._last_task[machine] = self._pieces[number].work.task
        return number

    def finish(self, machine: str, number: int, answer: Answer, now: float) -> Answer | None:
        """What a machine found for a piece; None: it does not count, or another was faster.

        Args:
            machine: that answers.
            number: of the piece.
            answer: its results.
            now: in seconds, of the clock of ``take``.
        """
        piece = self._pieces.get(number)
        believed = self._believed(machine, answer)
        if piece is None:
            return None
        began = piece.since.pop(machine)
        if not believed and piece.drops < self._options.drops:
            self.dropped += 1
            piece.drops += 1
            piece.unwanted.add(machine)
            self._again(number)
            return None
        self._note_duration((now - began) / piece.work.trials)
        self._forget(number)
        return answer

    def lose(self, machine: str) -> list[tuple[int, Answer]]:
        """A machine is gone: its piece waits again.  Pieces that are given up, with their answer.

        A second call for a machine does nothing.
        """
        for machines in (self._active, self.slow):
            if machine in machines:
                machines.remove(machine)
        if not self._active:  # better slowly than not at all
            self._active, self.slow = self.slow, []
        given_up: list[tuple[int, Answer]] = []
        for number, piece in list(self._pieces.items()):
            if piece.since.pop(machine, None) is None:
                continue
            piece.losses += 1
            if piece.losses < self._options.losses:
                self._again(number)
                continue
            self._forget(number)
            cause = f"{piece.losses} machines were lost while they worked on this batch"
            given_up.append((number, failed(piece.work, Failure("run", "MachineLost", cause))))
        return given_up

    def _believed(self, machine: str, answer: Answer) -> bool:
        """Whether the machine was as fast as it usually is, and as the others are."""
        seconds, times = answer.sentinel_s, self.times[machine]
        if seconds is None:
            return True
        quiet = times.slowdown(seconds) <= self._options.noisy
        times.note(seconds)
        others = [self.times[name] for name in self._active if name != machine]
        if slowness(times, others) <= self._options.slow:
            return quiet
        if machine in self._active and len(self._active) > 1:
            self._active.remove(machine)
            self.slow.append(machine)
        return False

    def _next(self, machine: str) -> int | None:
        fit = [number for number in self._waiting if self._may(machine, self._pieces[number])]
        urgent = [number for number in fit if self._pieces[number].urgent]
        if urgent:
            return urgent[0]
        task = self._last_task.get(machine)
        near = fit[: self._options.nearby]
        same = [number for number in near if self._pieces[number].work.task == task]
        return next(iter(same or near), None)

    def _may(self, machine: str, piece: _Piece) -> bool:
        """Not again where it was dropped, unless there is no other machine."""
        return machine not in piece.unwanted or piece.unwanted.issuperset(self._active)

    def _overdue(self, machine: str, now: float) -> int | None:
        """A piece that one other machine has had for too long."""
        if self._trial_s is None:
            return None
        for number, piece in self._pieces.items():
            limit_s = self._options.overdue * self._trial_s * piece.work.trials
            if len(piece.since) == 1 and not {machine} & (piece.since.keys() | piece.unwanted):
                (since,) = piece.since.values()
                if now - since > limit_s:
                    return number
        return None

    def _note_duration(self, trial_s: float) -> None:
        """A mean that follows the last answers."""
        known = trial_s if self._trial_s is None else self._trial_s
        self._trial_s = 0.8 * known + 0.2 * trial_s

    def _again(self, number: int) -> None:
        """Before all that wait, unless another machine has it, too."""
        if not self._pieces[number].since and number not in self._waiting:
            self._waiting.insert(0, number)

    def _forget(self, number: int) -> None:
        del self._pieces[number]
        if number in self._waiting:
            self._waiting.remove(number)
