"""Teams of threads: every chunk is computed once, whoever comes, and threads end with the team."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from codegen.llvm.jit import load_regions
from codegen.llvm.region import REGION_SYMBOL
from codegen.team import Team
from sketch.errors import TargetError

CHUNK = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
REGION = ctypes.CFUNCTYPE(
    None, ctypes.c_void_p, CHUNK, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64
)


def native_threads() -> set[str]:
    return set(os.listdir("/proc/self/task"))


def run_region(team: Team | None, chunks: int, work: CHUNK) -> None:
    library = load_regions()
    address = 0 if team is None else team.address
    REGION(library.address(REGION_SYMBOL))(address, work, None, chunks, 1)


@pytest.mark.parametrize("threads", [1, 2, 3, 8])
@pytest.mark.parametrize("chunks", [1, 2, 7, 32])
def test_every_chunk_is_computed_once_by_a_member(threads: int, chunks: int) -> None:
    team = Team(threads)
    found: list[tuple[int, int]] = []
    work = CHUNK(lambda _, chunk, thread: found.append((chunk, thread)))
    for _ in range(20):
        found.clear()
        run_region(team, chunks, work)
        assert sorted(chunk for chunk, _ in found) == list(range(chunks))
        assert all(0 <= thread < threads for _, thread in found)


def test_without_a_team_the_caller_computes_in_order() -> None:
    found: list[tuple[int, int]] = []
    run_region(None, 5, CHUNK(lambda _, chunk, thread: found.append((chunk, thread))))
    assert found == [(chunk, 0) for chunk in range(5)]


def test_a_worker_that_is_held_back_holds_back_one_chunk() -> None:
    """The first chunk that a worker takes waits until all others are done."""
    team, chunks = Team(2), 16
    others, held = threading.Event(), list[int]()
    done: list[int] = []

    @CHUNK
    def work(_: int, chunk: int, thread: int) -> None:
        if thread == 0:
            while not held:  # until the worker has its chunk
                time.sleep(0)
        else:
            held.append(chunk)
            assert others.wait(60)
        done.append(chunk)
        if len(done) == chunks - 1:
            others.set()

    run_region(team, chunks, work)
    assert done[-1] == held[0] and len(held) == 1
    assert sorted(done) == list(range(chunks))


def test_workers_sleep_and_wake() -> None:
    team = Team(2)
    seen: set[int] = set()

    @CHUNK
    def work(_: int, chunk: int, thread: int) -> None:
        seen.add(thread)
        time.sleep(0.001)

    run_region(team, 8, work)
    status = Path(f"/proc/self/task/{team.worker_ids()[0]}/stat")
    while status.read_text().rsplit(")", 1)[1].split()[0] != "S":
        time.sleep(0.001)
    seen.clear()
    while seen != {0, 1}:
        run_region(team, 8, work)


def test_workers_end_with_their_team() -> None:
    before = native_threads()
    team = Team(4)
    workers = {str(thread) for thread in team.worker_ids()}
    assert len(workers) == 3 and workers <= native_threads() - before
    del team
    while workers & native_threads():
        time.sleep(0.001)


@pytest.mark.parametrize("count", [300, pytest.param(3000, marks=pytest.mark.slow)])
def test_many_teams_leave_nothing_behind(count: int) -> None:
    before = len(native_threads())
    for _ in range(count):
        run_region(Team(3), 4, CHUNK(lambda *_: None))
    while len(native_threads()) > before:
        time.sleep(0.001)


def test_workers_are_bound_to_their_cores() -> None:
    before = os.sched_getaffinity(0)
    core = min(before)
    team = Team(3, [core, core, core])
    assert [os.sched_getaffinity(thread) for thread in team.worker_ids()] == [{core}] * 2
    assert os.sched_getaffinity(0) == before
    with pytest.raises(TargetError, match="cannot use core"):
        Team(2, [core, 1_000_000])


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two CPUs")
def test_workers_run_on_all_cpus_though_the_caller_is_bound() -> None:
    everywhere, teams = os.sched_getaffinity(0), list[Team]()

    def work() -> None:
        os.sched_setaffinity(0, {min(everywhere)})
        teams.append(Team(3))

    caller = threading.Thread(target=work)
    caller.start()
    caller.join()
    assert [os.sched_getaffinity(thread) for thread in teams[0].worker_ids()] == [everywhere] * 2


def test_in_a_forked_child_the_caller_computes_alone() -> None:
    team = Team(3)
    total = np.zeros(1)

    @CHUNK
    def work(_: int, chunk: int, thread: int) -> None:
        total[0] += chunk

    child = os.fork()
    if child == 0:
        run_region(team, 12, work)
        os._exit(0 if total[0] == 66 else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_workers_wait_quietly_while_the_interpreter_ends() -> None:
    text = "from codegen.team import Team\nteams = [Team(4) for _ in range(8)]"
    for _ in range(3):
        subprocess.run([sys.executable, "-c", text], check=True, timeout=60)
