"""Teams of threads for calls: each call has one to itself, or none.

A call takes an idle team, or a new one as long as all teams of this size together have no more
threads than the process has CPUs.  Otherwise all of these are busy with other calls, and the
calling thread computes alone: nobody waits, and threads do not take turns.  While other processes
crowd the CPUs, calls take fewer threads.

Nothing here is locked, and nothing breaks when an exception comes at any instant (a signal handler
that raises): a team that is lost on its way is garbage, and its threads end.
"""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final
from weakref import WeakSet

from autosched.runtime.crowding import Crowding
from codegen.cpu_share import usable_cpus

if TYPE_CHECKING:
    from codegen.team import Team


class TeamPool:
    """Teams of one size, on certain cores or on any."""

    def __init__(self, threads: int, cores: tuple[int, ...] = ()) -> None:
        """``cores``: one for each thread of the one team that there is then; empty: any."""
        self._threads, self._cores = threads, cores
        self._most = 1 if cores else max(1, usable_cpus() // threads)
        self._clock, self._crowding = time.monotonic, Crowding()
        self._idle: deque[Team] = deque()
        self._alive: WeakSet[Team] = WeakSet()

    def prepare(self) -> None:
        """Do once what the first call would have to wait for."""
        if self._threads > 1:
            from codegen.team import team_functions

            team_functions()

    @contextmanager
    def team(self) -> Iterator[Team | None]:
        """A team for the ``with`` block; None: compute alone."""
        pool = self._now()
        team = pool._take()
        try:
            if team is None:
                yield None
            else:
                yield from self._watched(team)
        finally:
            if team is not None:
                pool._idle.append(team)

    def _now(self) -> TeamPool:
        """The pool of as many threads as there is room for now."""
        threads = self._crowding.threads(self._threads, self._clock())
        return self if threads == self._threads else shared_teams(threads)

    def _watched(self, team: Team) -> Iterator[Team]:
        """Hand out the team, and note whether its workers were kept from running."""
        sleeps = team.sleeps()
        yield team
        if not self._cores and team.sleeps() != sleeps:
            self._crowding.held_up(self._clock(), team.held_back_s(), self._threads)

    def _take(self) -> Team | None:
        if self._threads == 1:
            return None
        try:
            return self._idle.pop()
        except IndexError:
            return self._new() if len(self._alive) < self._most else None

    def _new(self) -> Team:
        from codegen.team import Team

        team = Team(self._threads, self._cores)
        self._alive.add(team)
        return team


_pools: Final[dict[tuple[int, tuple[int, ...]], TeamPool]] = {}

# A forked child has none of the threads: it makes teams of its own.
os.register_at_fork(after_in_child=_pools.clear)


def shared_teams(threads: int, cores: tuple[int, ...] = ()) -> TeamPool:
    """The teams of this size, on these cores, that all modules of the process use."""
    pool = _pools.get((threads, cores))
    return pool or _pools.setdefault((threads, cores), TeamPool(threads, cores))
