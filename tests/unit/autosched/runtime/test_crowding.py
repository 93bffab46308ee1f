"""Threads are left out while others crowd the CPUs, and come back."""

from __future__ import annotations

from typing import Any

import pytest

from autosched.runtime import team_pool
from autosched.runtime.crowding import Crowding
from autosched.runtime.team_pool import TeamPool
from codegen.team import Team


def _watch(crowding: Crowding, start: float, end: float, share: float, threads: int) -> float:
    """When calls of 4 ms, which lose ``share`` of the time, end or take a thread less."""
    now = start
    while now < end and crowding.threads(threads, now) == threads:
        now += 0.004
        crowding.held_up(now, share * 0.004, threads)
    return now


def test_short_hold_ups_are_accidents() -> None:
    crowding = Crowding()
    for now in (1.0, 1.01, 2.0, 2.01, 2.02, 3.0):
        crowding.held_up(now, 0.02, 2)
        assert crowding.threads(4, now) == 4


@pytest.mark.parametrize("threads", [2, 8])
def test_a_thread_is_left_out_for_a_large_share_of_the_time_only(threads: int) -> None:
    assert _watch(Crowding(), 1.0, 5.0, 0.7 / threads, threads) > 5.0
    assert 1.1 <= _watch(Crowding(), 1.0, 5.0, 0.9 / threads, threads) < 1.25


def test_calls_longer_than_the_watch_count_too() -> None:
    crowding = Crowding()
    for now in (1.0, 1.5, 2.0):
        crowding.held_up(now, 0.25, 2)
    assert crowding.threads(2, 2.0) == 1


def test_more_and_more_while_the_crowd_stays() -> None:
    crowding, now, pauses = Crowding(), 10.0, []
    for _ in range(8):
        now = left = _watch(crowding, now, now + 1.0, 0.5, 2)
        while crowding.threads(2, now) == 1:
            now += 0.001
        pauses.append(round(now - left, 2))
        again = _watch(crowding, now, now + 1.0, 0.5, 2)
        assert again - now < 0.02  # found out at once
        now = again
        while crowding.threads(2, now) == 1:
            now += 0.001
    assert pauses[0] == 0.1 and pauses[-1] == 1.6 and pauses == sorted(pauses)
    left = _watch(crowding, now + 60, now + 61, 0.5, 2)
    assert crowding.threads(2, left + 0.11) == 2  # a new crowd begins with a short pause


@pytest.mark.parametrize("held_back_s", [0.001, 0.06])
def test_calls_take_fewer_threads_after_hold_ups(
    held_back_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    sleeps: Any = iter(range(100))
    monkeypatch.setattr(Team, "sleeps", lambda _: next(sleeps))
    monkeypatch.setattr(Team, "held_back_s", lambda _: held_back_s)
    monkeypatch.setattr(team_pool, "_pools", {})  # all teams are idle
    pool, taken = TeamPool(3), []
    times = iter((5.0, 5.11, 5.12, 5.13))
    pool._clock = lambda: next(times)
    for _ in range(3):
        with pool.team() as team:
            taken.append(team.threads if team else 1)
    assert taken == ([3, 3, 2] if held_back_s > 0.05 else [3, 3, 3])


def test_workers_report_how_long_they_were_kept_from_running() -> None:
    team = Team(2)
    assert team.held_back_s() >= 0 and team.sleeps() == 0
