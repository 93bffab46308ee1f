"""Greedy reduction of a case that fails."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from campaign.verdict import Json


def minimise(
    case: Json,
    smaller: Callable[[Json], Iterator[Json]],
    fails: Callable[[Json], bool],
    time_left: Callable[[], bool],
) -> Json:
    """The last of a chain of smaller cases that still fail.

    Takes the first smaller case that fails, and starts anew from that, until none does or the
    time is over.
    """
    found = True
    while found and time_left():
        found = False
        for candidate in smaller(case):
            if not time_left():
                break
            if fails(candidate):
                case, found = candidate, True
                break
    return case
