"""Threads are left out while others crowd the CPUs, and come back."""

from __future__ import annotations

from typing import Any

import pytest

from autosched.runtime import team_pool
from autosched.runtime.crowding import Crowding
from autosched.runtime.team_pool import TeamPool
from codegen.team import Team


def test_one_hold_up_is_an_accident() -> None:
    crowding = Crowding()
    for now in (1.0, 2.0, 3.0):
        crowding.held_up(now)
        assert crowding.threads(4, now) == 4


def test_two_in_a_row_leave_a_thread_out_for_a_while() -> None:
    crowding = Crowding()
    crowding.held_up(1.0)
    crowding.held_up(1.01)
    assert [crowding.threads(4, now) for now in (1.02, 1.1, 1.2, 1.3)] == [3, 3, 4, 4]
    assert crowding.threads(1, 1.02) == 1


def test_more_and_more_while_the_crowd_stays() -> None:
    crowding, now, pauses = Crowding(), 10.0, []
    for _ in range(8):
        crowding.held_up(now)
        crowding.held_up(now + 0.01)
        assert crowding.threads(2, now + 0.02) == 1
        end = now + 0.02
        while crowding.threads(2, end) == 1:
            end += 0.001
        pauses.append(round(end - now - 0.01, 2))
        now = end
    assert pauses[0] == 0.1 and pauses[-1] == 1.6 and pauses == sorted(pauses)
    crowding.held_up(now + 60)
    crowding.held_up(now + 60.01)
    assert crowding.threads(2, now + 60.2) == 2  # a new crowd begins with a short pause


@pytest.mark.parametrize("held_back_s", [0.0, 0.004])
def test_calls_take_fewer_threads_after_hold_ups(
    held_back_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    sleeps: Any = iter(range(100))
    monkeypatch.setattr(Team, "sleeps", lambda _: next(sleeps))
    monkeypatch.setattr(Team, "held_back_s", lambda _: held_back_s)
    monkeypatch.setattr(team_pool, "_pools", {})  # all teams are idle
    pool, taken = TeamPool(3), []
    pool._clock = lambda: 5.0
    for _ in range(4):
        with pool.team() as team:
            taken.append(team.threads if team else 1)
    assert taken == ([3, 3, 3, 3] if held_back_s == 0 else [3, 3, 2, 1])


def test_workers_report_how_long_they_were_kept_from_running() -> None:
    team = Team(2)
    assert team.held_back_s() >= 0 and team.sleeps() == 0
