"""How many threads to leave out while other processes want the same CPUs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

_WATCH_S: Final = 0.1  # many slices of the system, so that what comes and goes is averaged out
_WATCH_AGAIN_S: Final = 0.01  # few calls pay for finding out that the crowd is still there
_FIRST_PAUSE_S: Final = 0.1
_LONGEST_PAUSE_S: Final = 1.6
_LOSS: Final = 0.8


@dataclass(slots=True)
class Crowding:
    """What the hold-ups of workers say about the next calls.

    A worker that the system takes off its CPU in the middle of a kernel holds up the call for a
    slice of time.  One of ``n`` threads less makes calls ``n / (n - 1)`` times as long, the loss of
    ``1 / n`` of the time, but without hold-ups they take equally long: a thread is left out where
    hold-ups cost about as much.  It stays out twice as long each time, as long as the crowd does.
    """

    left_out: int = 0
    _until: float = 0.0
    _pause: float = _FIRST_PAUSE_S
    _since: float = 0.0
    _lost: float = 0.0

    def threads(self, most: int, now: float) -> int:
        """How many of ``most`` threads a call at ``now`` (seconds) takes; at least 1."""
        if self.left_out and now >= self._until:
            self.left_out = 0
        return max(1, most - self.left_out)

    def held_up(self, now: float, lost_s: float, threads: int) -> None:
        """A call had to wait for its workers.

        Args:
            now: when it ended, in seconds.
            lost_s: for how long they wanted to run and could not, since this was last called.
            threads: of the call.
        """
        again = now - self._until < self._pause
        passed = now - self._since
        self._lost += lost_s
        if passed < (_WATCH_AGAIN_S if again else _WATCH_S):
            return
        crowded = threads * self._lost > _LOSS * passed
        self._since, self._lost = now, 0.0
        if crowded:
            self._pause = min(2 * self._pause, _LONGEST_PAUSE_S) if again else _FIRST_PAUSE_S
            self.left_out += 1
            self._since = self._until = now + self._pause
