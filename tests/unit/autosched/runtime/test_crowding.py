"""Threads are left out while others crowd the CPUs, and come back."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
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


def _called(crowding: Crowding, now: float, lost_s: float, call_s: float) -> None:
    if crowding.late(call_s):
        crowding.held_up_once(now, lost_s, call_s)


def test_calls_far_shorter_than_a_slice_take_a_thread_less_after_one_hold_up() -> None:
    crowding = Crowding()
    _called(crowding, 1.0, 0.004, 0.0042)  # nothing to compare it with yet
    assert crowding.threads(2, 1.0) == 2
    _called(crowding, 1.01, 0.0, 0.0002)
    _called(crowding, 1.02, 0.004, 0.0042)
    assert crowding.threads(2, 1.1) == 1
    assert crowding.threads(2, 1.13) == 2
    _called(crowding, 1.14, 0.004, 0.0042)
    assert crowding.threads(2, 1.33) == 1  # again: for longer
    _called(crowding, 1.42, 0.004, 0.0042)
    assert crowding.threads(2, 1.53) == 2  # an accident: not again at once


def test_many_callers_that_are_held_up_together_leave_out_one_thread() -> None:
    crowding = Crowding()
    _called(crowding, 1.0, 0.0, 0.0002)
    for _ in range(5):
        _called(crowding, 1.01, 0.004, 0.0042)
    assert crowding.threads(8, 1.02) == 7


@pytest.mark.parametrize(
    ("lost_s", "call_s"),
    [
        (0.004, 0.012),  # not the others' fault: more to compute
        (0.0008, 0.0009),  # the system's own work
    ],
)
def test_calls_that_others_hardly_held_up_keep_their_threads(lost_s: float, call_s: float) -> None:
    crowding = Crowding()
    _called(crowding, 1.0, 0.0, 0.0002)
    _called(crowding, 1.1, lost_s, call_s)
    assert crowding.threads(2, 1.1) == 2
    assert not crowding.late(2 * call_s)


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
    times = iter((4.8, 5.0, 5.01, 5.11, 5.12, 5.13))  # of begins and ends
    pool.clock = lambda: next(times)
    for _ in range(3):
        with pool.team() as team:
            taken.append(team.threads if team else 1)
    assert taken == ([3, 3, 2] if held_back_s > 0.05 else [3, 3, 3])


@pytest.mark.parametrize("held_back_s", [0.0, 0.004])
def test_a_caller_that_was_held_up_counts_as_well(
    held_back_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Team, "caller_held_back_s", lambda _: held_back_s)
    monkeypatch.setattr(team_pool, "_pools", {})
    pool, taken = TeamPool(2), []
    times = iter((1.0, 1.0002, 1.1, 1.1042, 1.105, 1.1052))
    pool.clock = lambda: next(times)
    for _ in range(3):
        with pool.team() as team:
            taken.append(team is not None)
    assert taken == [True, True, not held_back_s]


def test_workers_report_how_long_they_were_kept_from_running() -> None:
    team = Team(2)
    assert team.held_back_s() >= 0 and team.sleeps() == 0
    assert team.caller_held_back_s() >= 0

    def other_thread() -> None:
        assert team.caller_held_back_s() == 0.0

    with ThreadPoolExecutor(1) as others:
        others.submit(other_thread).result()
