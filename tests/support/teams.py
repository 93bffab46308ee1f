"""Threads for kernels that tests call directly."""

from __future__ import annotations

from functools import cache

from codegen.team import Team


@cache
def _team(threads: int) -> Team:
    return Team(threads)


def team_address(threads: int) -> int:
    """The team that kernels of ``threads`` threads run on; 0 for one thread."""
    return _team(threads).address if threads > 1 else 0
