"""How many threads to leave out while other processes want the same CPUs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

_WATCH_S: Final = 0.1  # many slices of the system, so that what comes and goes is averaged out
_WATCH_AGAIN_S: Final = 0.01  # few calls pay for finding out that the crowd is still there
_FIRST_PAUSE_S: Final = 0.1
_LONGEST_PAUSE_S: Final = 1.6
_LOSS: Final = 0.8
_SLICE_S: Final = 0.001  # shorter hold-ups are the system's own work, not another process's
_SLICES_S: Final = 0.05  # who is there all the time comes back within a few slices
_TAIL: Final = 3.0


@dataclass(slots=True)
class Crowding:
    """What the hold-ups of workers say about the next calls.

    A worker that the system takes off its CPU in the middle of a kernel holds up the call for a
    slice of time.  One of ``n`` threads less makes calls ``n / (n - 1)`` times as long, the loss of
    ``1 / n`` of the time, but without hold-ups they take equally long: a thread is left out where
    hold-ups cost about as much.  It stays out twice as long each time, as long as the crowd does.

    Calls far shorter than a slice are different: few are held up, but these take many times as long
    as the others.  There one hold-up is enough, so that the slowest calls stay near the median.
    """

    left_out: int = 0
    _until: float = 0.0
    _pause: float = _FIRST_PAUSE_S
    _since: float = 0.0
    _lost: float = 0.0
    _usual_s: float = math.inf

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
        passed = now - self._since
        self._lost += lost_s
        again = now - self._until < self._pause
        if passed < (_WATCH_AGAIN_S if again else _WATCH_S):
            return
        crowded = threads * self._lost > _LOSS * passed
        self._since, self._lost = now, 0.0
        if crowded:
            self._leave_out(now, again)

    def late(self, call_s: float) -> bool:
        """Whether a call took so much longer than the one before that somebody may have held it up:
        then ``held_up_once`` wants to know.
        """
        if call_s > max(_SLICE_S, _TAIL * self._usual_s):
            return True
        self._usual_s = call_s
        return False

    def held_up_once(self, now: float, lost_s: float, call_s: float) -> None:
        """A call was late.

        Args:
            now: when it ended, in seconds.
            lost_s: for how long the thread of it that lost most wanted to run and could not.
            call_s: seconds of the call.
        """
        if lost_s > max(_SLICE_S, (1 - 1 / _TAIL) * call_s):
            self._leave_out(now, again=now - self._until < _SLICES_S)
        else:  # it has more to compute
            self._usual_s = call_s

    def _leave_out(self, now: float, again: bool) -> None:
        self._pause = min(2 * self._pause, _LONGEST_PAUSE_S) if again else _FIRST_PAUSE_S
        self.left_out = 1
        self._since = self._until = now + self._pause
        self._lost = 0.0
