"""The fastest choices whose errors are small enough together.

Errors of different kernels are independent, so their squares add up, in each output of a network.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil, hypot
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from autosched.runtime.amplification import Gains

if TYPE_CHECKING:
    from autosched.compilation.scheduled import Scheduled

# A hundred tasks lose less than a hundredth of what is allowed by rounding up.
_PARTS: Final = 1 << 14


@dataclass(frozen=True, slots=True)
class Choice:
    """A way to compute a task.

    Attributes:
        item: its schedule.
        seconds: of all places in a network together.
        error: what it adds to an output of the network, relative to the largest element of that, in
            all of its places together.
    """

    item: Scheduled
    seconds: float
    error: float


def within(tasks: Sequence[Sequence[Choice]], limit: float) -> list[Choice]:
    """One choice for each task, the first of all where their errors are at most ``limit`` together.

    Else those that take the least time with that, by dynamic programming over the sum of squares in
    parts of ``limit`` squared, rounded up; those with the least errors where nothing is within it.
    """
    firsts = [choices[0] for choices in tasks]
    if _squares(firsts) <= limit**2:
        return firsts
    least = [min(choices, key=lambda choice: choice.error) for choices in tasks]
    if limit <= 0.0:
        return least
    seconds = np.zeros(_PARTS + 1)  # of the tasks so far, by the parts that are left for the others
    taken: list[NDArray[np.int64]] = []
    for choices in tasks:
        ways = np.full((len(choices), _PARTS + 1), np.inf)
        for way, choice in zip(ways, choices, strict=True):
            parts = _parts(choice, limit)
            if parts <= _PARTS:
                way[: _PARTS + 1 - parts] = seconds[parts:] + choice.seconds
        taken.append(ways.argmin(axis=0))
        seconds = ways.min(axis=0)
    if np.isinf(seconds[0]):
        return least
    chosen: list[Choice] = []
    left = int(np.argmin(seconds))
    for choices, numbers in zip(reversed(tasks), reversed(taken), strict=True):
        chosen.append(choices[int(numbers[left])])
        left += _parts(chosen[-1], limit)
    return chosen[::-1]


def within_all(
    tasks: Sequence[Sequence[Choice]], gains: Sequence[Gains], limit: float
) -> list[int]:
    """Numbers of choices with which every output is within ``limit``.

    They are ``within`` of one output after another, the one with the largest errors first, each
    with nothing less accurate than before.

    Args:
        tasks: ways to compute them, the first of all preferred; their errors are their own.
        gains: of each task, how far its error moves each output.
        limit: relative error.
    """
    left = [list(range(len(choices))) for choices in tasks]
    outputs = range(len(gains[0]) if gains else 0)
    pairs = list(zip(tasks, gains, strict=True))
    first = [hypot(*(choices[0].error * gain[o] for choices, gain in pairs)) for o in outputs]
    for output in sorted(outputs, key=lambda o: -first[o]):
        ways = [
            [replace(choices[n], error=choices[n].error * gain[output]) for n in allowed]
            for (choices, gain), allowed in zip(pairs, left, strict=True)
        ]
        chosen = within(ways, limit)
        for task, (way, choice) in enumerate(zip(ways, chosen, strict=True)):
            place = next(n for n, each in enumerate(way) if each is choice)
            taken = left[task][place]
            most = tasks[task][taken].error
            others = [n for n in left[task] if n != taken and tasks[task][n].error <= most]
            left[task] = [taken, *others]
    return [allowed[0] for allowed in left]


def _squares(choices: Sequence[Choice]) -> float:
    return sum(choice.error**2 for choice in choices)


def _parts(choice: Choice, limit: float) -> int:
    """Of the square of the limit that the square of an error takes."""
    share = min((choice.error / limit) ** 2, 2.0)
    return ceil(share * _PARTS)
