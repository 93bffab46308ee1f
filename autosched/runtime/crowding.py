"""How many threads to leave out while other processes want the same CPUs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

_CLOSE_S: Final = 0.05  # two hold-ups within that time are no accident
_FIRST_PAUSE_S: Final = 0.1  # many slices of the system, so that few calls pay for finding out
_LONGEST_PAUSE_S: Final = 1.6


@dataclass(slots=True)
class Crowding:
    """What hold-ups of workers say about the next calls.

    A worker that the system takes off its CPU in the middle of a kernel holds up the call for a
    slice of time.  After two hold-ups in a row one thread is left out for a while, which doubles as
    long as the crowd stays.
    """

    left_out: int = 0
    _until: float = 0.0
    _pause: float = _FIRST_PAUSE_S
    _last: float = -1.0

    def threads(self, most: int, now: float) -> int:
        """How many of ``most`` threads a call at ``now`` (seconds) takes; at least 1."""
        if self.left_out and now >= self._until:
            self.left_out = 0
        return max(1, most - self.left_out)

    def held_up(self, now: float) -> None:
        """A call that ended at ``now`` waited for a worker that wanted to run and could not."""
        if 0 <= now - self._last < _CLOSE_S:
            again = now - self._until < self._pause
            self._pause = min(2 * self._pause, _LONGEST_PAUSE_S) if again else _FIRST_PAUSE_S
            self.left_out += 1
            self._until = now + self._pause
        self._last = now
