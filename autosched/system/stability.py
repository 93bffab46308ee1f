"""How far a timing can be believed: the spread of its runs, and what else the CPUs did meanwhile.

Every timing that is printed carries a ``Stability``.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Final, Self

MOST_DEVIATION: Final = 0.10
"""Standard deviation over median from which a timing is said to be unstable."""
MOST_STOLEN: Final = 0.05
"""Share of the CPUs' time that a hypervisor gave to others, from which it is."""
MOST_OTHERS: Final = 0.10
"""Share of the CPUs' time that other processes took, from which it is."""

_ESTIMATED: Final = "emulated: times are estimates"
_PROC: Final = Path("/proc")
_STAT: Final = _PROC / "stat"
# Columns of /proc/PID/stat behind the command: state, parent, ...; user and system time, of the
# process itself and of the children it has waited for.
_PARENT, _TIMES = 1, (11, 12, 13, 14)
# Columns of /proc/stat: user, nice, system, idle, iowait, irq, softirq, steal, guest, ...; the
# guests' time is part of the user's.
_BUSY: Final = (0, 1, 2, 5, 6)
_STOLEN: Final = 7
_COUNTED: Final = 8
_QUARTILES_APART: Final = 1.349  # those of a normal distribution, in standard deviations
_LEAST_TICKS: Final = 10  # of 10 ms each: shares of shorter times are mostly rounding


@dataclass(frozen=True, slots=True)
class Conditions:
    """What the machine did besides, while something was timed; None where the system says nothing.

    Attributes:
        load: load average of the last minute at the end (this process counts).
        stolen: share of the time of our CPUs that the hypervisor gave to others.
        others: share of that time in which other processes ran.
        emulated: whether nothing was timed: an emulated device estimates.
    """

    load: float | None = None
    stolen: float | None = None
    others: float | None = None
    emulated: bool = False

    def to_json(self) -> dict[str, float | bool | None]:
        """By name, shares from 0 to 1; ``emulated`` only where it is so."""
        found = {item.name: getattr(self, item.name) for item in fields(self)}
        return found if self.emulated else {n: v for n, v in found.items() if n != "emulated"}

    @property
    def disturbed(self) -> bool:
        """Whether others took so much that times are no longer those of an idle machine."""
        return (self.stolen or 0.0) > MOST_STOLEN or (self.others or 0.0) > MOST_OTHERS

    def __str__(self) -> str:
        """``load 2.1, 12 % stolen, 30 % used by others``; what is not known is left out."""
        if self.emulated:
            return _ESTIMATED
        parts = [] if self.load is None else [f"load {self.load:.1f}"]
        parts += [] if self.stolen is None else [f"{self.stolen:.0%} stolen"]
        parts += [] if self.others is None else [f"{self.others:.0%} used by others"]
        return ", ".join(parts).replace("%", " %")


@dataclass(frozen=True, slots=True)
class Stability:
    """How far a timing can be believed.

    Attributes:
        runs: timed runs (or samples).
        deviation: standard deviation of the runs over their median; None for fewer than two.
        conditions: what the machine did meanwhile.
    """

    runs: int = 0
    deviation: float | None = None
    conditions: Conditions = Conditions()

    @classmethod
    def of(cls, seconds: Iterable[float], conditions: Conditions | None = None) -> Self:
        """That of runs, in seconds (or any unit)."""
        times = list(seconds)
        return cls(len(times), relative_deviation(times), conditions or Conditions())

    @property
    def unstable(self) -> bool:
        """Whether the timing should be taken again on a quieter machine."""
        return (self.deviation or 0.0) > MOST_DEVIATION or self.conditions.disturbed

    def to_json(self) -> dict[str, float | int | bool | None]:
        """All of it by name, and ``unstable``; shares from 0 to 1."""
        measured = {"runs": self.runs, "deviation": self.deviation}
        return {**measured, **self.conditions.to_json(), "unstable": self.unstable}

    def __str__(self) -> str:
        """``unstable: std 14 % of median, load 2.1, 12 % stolen``; or ``emulated: ...``."""
        if self.conditions.emulated:
            return str(self.conditions)
        spread = (
            "std unknown" if self.deviation is None else f"std {share(self.deviation)} of median"
        )
        runs = f"{self.runs} run{'s' * (self.runs != 1)}"
        parts = [part for part in (spread, str(self.conditions), runs) if part]
        return f"{'unstable' if self.unstable else 'stable'}: {', '.join(parts)}"


UNKNOWN: Final = Conditions()
EMULATED: Final = Conditions(emulated=True)
"""Of times that an emulated device gives."""
UNMEASURED: Final = Stability()


class Watch:
    """Looks at the CPUs before and after the block of a ``with`` statement.

    ``own_cpu_s`` gives the CPU seconds that the timed processes have used so far; by default those
    of this process.
    """

    def __init__(self, own_cpu_s: Callable[[], float] = time.process_time) -> None:
        self._own_cpu_s = own_cpu_s
        self._before: tuple[tuple[int, ...], float] = ((), 0.0)
        self.conditions = Conditions()

    def __enter__(self) -> Self:
        self._before = self._now()
        return self

    def __exit__(self, *_: object) -> None:
        ticks, own_s = self._before
        now_ticks, now_s = self._now()
        passed = [b - a for a, b in zip(ticks, now_ticks, strict=False)]
        self.conditions = conditions_of(passed, now_s - own_s, _load())

    def _now(self) -> tuple[tuple[int, ...], float]:
        return cpu_ticks(), self._own_cpu_s()


def conditions_of(ticks: Sequence[int], own_cpu_s: float, load: float | None = None) -> Conditions:
    """Conditions from the columns of ``/proc/stat`` that passed and the CPU seconds of ours."""
    total = sum(ticks[:_COUNTED])
    if len(ticks) < _COUNTED or total < _LEAST_TICKS:
        return Conditions(load)
    stolen = ticks[_STOLEN] / total
    own = own_cpu_s * os.sysconf("SC_CLK_TCK")
    busy = sum(ticks[column] for column in _BUSY)
    return Conditions(load, stolen, min(1.0, max(0.0, (busy - own) / total)))


def cpu_ticks(path: Path = _STAT) -> tuple[int, ...]:
    """Columns of ``/proc/stat``, summed over the CPUs of this process; () where unknown."""
    names = {f"cpu{number}" for number in os.sched_getaffinity(0)}
    try:
        lines = path.read_text(encoding="ascii").splitlines()
        rows = [line.split() for line in lines if line.startswith("cpu")]
        counts = [[int(text) for text in row[1:]] for row in rows if row[0] in names]
    except (OSError, ValueError):
        return ()
    return tuple(map(sum, zip(*counts, strict=False)))


def tree_cpu_s(processes: Path = _PROC, pid: int | None = None) -> float:
    """CPU seconds of a process (by default this one) and of all that descend from it.

    Of those that ended, too, once their parents have waited for them; 0 where nobody tells.
    """
    parents: dict[int, int] = {}
    ticks: dict[int, int] = {}
    for path in processes.glob("[0-9]*/stat"):
        try:
            columns = path.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
            number = int(path.parent.name)
            parents[number] = int(columns[_PARENT])
            ticks[number] = sum(int(columns[place]) for place in _TIMES)
        except (OSError, ValueError, IndexError):
            continue  # it has just ended
    tree, fresh = set(), {os.getpid() if pid is None else pid}
    while fresh:
        tree |= fresh
        fresh = {child for child, parent in parents.items() if parent in fresh} - tree
    return sum(ticks.get(number, 0) for number in tree) / os.sysconf("SC_CLK_TCK")


def relative_deviation(times: Sequence[float]) -> float | None:
    """Standard deviation over median; None for fewer than two times."""
    middle = statistics.median(times) if times else 0.0
    return statistics.stdev(times) / middle if len(times) > 1 and middle > 0 else None


def usual_deviation(times: Sequence[float]) -> float | None:
    """Standard deviation over median, by the quartiles of the times: few outliers do not count.

    That of a normal distribution with such quartiles.  None for fewer than two times.
    """
    middle = statistics.median(times) if times else 0.0
    if len(times) < 2 or middle <= 0:
        return None
    low, _, high = statistics.quantiles(times, n=4, method="inclusive")
    return (high - low) / _QUARTILES_APART / middle


def share(value: float | None) -> str:
    """``14 %``, or nothing where it is not known."""
    if value is None:
        return ""
    return f"{100 * value:.0f} %" if value >= 0.0995 else f"{100 * value:.1f} %"


def _load() -> float | None:
    try:
        return os.getloadavg()[0]
    except OSError:
        return None
