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
from threading import get_ident
from typing import TYPE_CHECKING, Final
from weakref import WeakSet

from autosched.runtime.cores import available_cores, current_core
from autosched.runtime.crowding import Crowding
from codegen.cpu_share import usable_cpus

if TYPE_CHECKING:
    from codegen.team import Team


class TeamPool:
    """Teams of one size, on certain cores or on any."""

    def __init__(self, threads: int, cores: tuple[int, ...] = ()) -> None:
        """``cores``: one for each thread of the one team that there is then; empty: any."""
        self._threads, self.cores, self.first_core = threads, cores, set(cores[:1])
        self._most = 1 if cores else max(1, usable_cpus() // threads)
        self.clock, self._crowding = time.monotonic, Crowding()
        self._idle: deque[Team] = deque()
        self._alive: WeakSet[Team] = WeakSet()
        self.homes: dict[int, set[int]] = {}  # of callers that are bound now

    def prepare(self) -> None:
        """Do once what the first call would have to wait for."""
        if self._threads > 1:
            from codegen.team import team_functions

            team_functions()

    def team(self) -> Lease:
        """A team for a ``with`` block; None: compute alone."""
        crowding, threads = self._crowding, self._threads
        if crowding.left_out:
            threads = crowding.threads(threads, self.clock())
        return Lease(self if threads == self._threads else shared_teams(threads))

    def take(self) -> Team | None:
        """An idle team or a new one; None where all threads are with other calls."""
        if self._threads == 1:
            return None
        try:
            return self._idle.pop()
        except IndexError:
            return self._new() if len(self._alive) < self._most else None

    def give_back(self, team: Team) -> None:
        """A team that ``take`` gave."""
        self._idle.append(team)

    def note(self, team: Team, sleeps: int, start: float) -> None:
        """Watch the threads of a call, from when it began and the team had slept ``sleeps`` times:
        were they kept from running?
        """
        if self.cores:
            return
        now, crowding, lost_s = self.clock(), self._crowding, 0.0
        if team.sleeps() != sleeps:
            lost_s = team.held_back_s()
            crowding.held_up(now, lost_s, self._threads)
        if crowding.late(now - start):
            crowding.held_up_once(now, max(lost_s, team.caller_held_back_s()), now - start)

    def _new(self) -> Team:
        from codegen.team import Team

        team = Team(self._threads, self.cores)
        self._alive.add(team)
        return team


class Lease:
    """A team for one call, and its cores.

    A class: to enter and leave takes a third of what a generator takes, and short networks run in
    a tenth of a millisecond.
    """

    __slots__ = ("_before", "_pool", "_sleeps", "_start", "_team")

    def __init__(self, pool: TeamPool) -> None:
        self._pool, self._sleeps, self._start = pool, 0, 0.0
        self._team: Team | None = None
        self._before: set[int] | None = None

    def __enter__(self) -> Team | None:
        pool = self._pool
        try:  # an exception may come at any instant
            # The caller is the first of the threads that compute.  One that runs on its core stays
            # there, for the others are busy: to bind it and to let it go takes as long as a short
            # network.
            if pool.cores and (pool.homes or current_core() not in pool.first_core):
                # One that never left has bound this thread: an exception came before the first
                # line of ``__exit__``.
                before = pool.homes.get(get_ident()) or available_cores()
                if before != pool.first_core:
                    self._before = pool.homes[get_ident()] = before
                    os.sched_setaffinity(0, pool.first_core)
            self._team = team = pool.take()
            if team is not None:
                self._sleeps, self._start = team.sleeps(), pool.clock()
        except BaseException as error:
            self.__exit__(type(error))
            raise
        return team

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            team, self._team = self._team, None  # given back once, or lost
            if team is not None:
                if kind is None:
                    self._pool.note(team, self._sleeps, self._start)
                self._pool.give_back(team)
        finally:
            if self._before is not None:
                os.sched_setaffinity(0, self._before)
                self._pool.homes.pop(get_ident(), None)


_pools: Final[dict[tuple[int, tuple[int, ...]], TeamPool]] = {}

# A forked child has none of the threads: it makes teams of its own.
os.register_at_fork(after_in_child=_pools.clear)


def shared_teams(threads: int, cores: tuple[int, ...] = ()) -> TeamPool:
    """The teams of this size, on these cores, that all modules of the process use."""
    pool = _pools.get((threads, cores))
    return pool or _pools.setdefault((threads, cores), TeamPool(threads, cores))
