"""Many callers at once: results are those of one caller, and no thread or file is left."""

from __future__ import annotations

import gc
import multiprocessing
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import autosched as asd
from autosched.runtime.module import Module
from autosched.runtime.team_pool import TeamPool
from codegen.cpu_share import usable_cpus

SIDE = 96


def scaled(factor: int, threads: int) -> Module:
    """``C = factor * A @ A``."""
    a = asd.placeholder((SIDE, SIDE), name="A")
    k = asd.reduce_axis(SIDE)
    c = asd.compute((SIDE, SIDE), lambda i, j: asd.sum(a[i, k] * a[k, j], axis=k), name="C")
    d = asd.compute((SIDE, SIDE), lambda i, j: c[i, j] * float(factor), name="D")
    return asd.Task(asd.ComputeDAG([d]), target=asd.Target("cpu", threads=threads)).module()


def right(module: Module, factor: int, number: int) -> bool:
    x = np.eye(SIDE, dtype=np.float32) * (number % 100)
    return bool((module.run({"A": x})["D"] == x * x * factor).all())


def in_threads(count: int, work: Callable[[int], object]) -> None:
    threads = [threading.Thread(target=work, args=(k,)) for k in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert not any(thread.is_alive() for thread in threads)


@pytest.mark.parametrize("repeats", [40, pytest.param(1000, marks=pytest.mark.slow)])
def test_eight_callers_of_five_modules(repeats: int) -> None:
    modules = [scaled(n + 1, threads) for n, threads in enumerate((1, 2, 1, 2, 3))]
    wrong: list[tuple[int, int]] = []

    def work(caller: int) -> None:
        for turn in range(repeats):
            choice = (caller + turn) % len(modules)
            if not right(modules[choice], choice + 1, caller * repeats + turn):
                wrong.append((caller, turn))

    in_threads(8, work)
    assert wrong == []


def test_callers_of_one_module_are_inside_at_the_same_time() -> None:
    module = scaled(1, 1)
    together = threading.Barrier(4, timeout=60)

    def work(_: int) -> None:
        with module._loaded.call():
            together.wait()  # breaks where one caller waits for another

    in_threads(4, work)
    assert not together.broken
    assert len(module._loaded._idle) <= max(1, len(os.sched_getaffinity(0)))


def test_callers_that_find_no_team_compute_alone() -> None:
    pool, most = TeamPool(2), max(1, usable_cpus() // 2)
    taken = []
    with pool.team() as first:
        taken.append(first)
        for _ in range(most + 2):
            context = pool.team()
            taken.append(context.__enter__())
            taken.append(context)
    teams = [item for item in taken if hasattr(item, "address")]
    assert len(teams) == most and None in taken


def test_modules_come_and_go_while_others_run(tmp_path: Path) -> None:
    path = tmp_path / "m.asd"
    scaled(2, 2).save(path)
    wrong: list[int] = []

    def work(caller: int) -> None:
        for turn in range(15):
            if not right(asd.load(path), 2, caller + turn):  # garbage after its first run
                wrong.append(caller)
            gc.collect(0)

    in_threads(4, work)
    assert wrong == []


def test_a_module_lives_as_long_as_a_call_of_it() -> None:
    box = [scaled(3, 2)]
    run, started = box[0].run, threading.Event()
    wrong: list[int] = []
    x = np.eye(SIDE, dtype=np.float32)

    def work(_: int) -> None:
        for turn in range(50):
            wrong.extend([] if (run({"A": x})["D"] == 3 * x).all() else [turn])
            started.set()

    thread = threading.Thread(target=work, args=(0,))
    thread.start()
    started.wait(60)
    box.clear()
    gc.collect()
    thread.join(120)
    assert wrong == []


@pytest.mark.parametrize("cycles", [10, pytest.param(2000, marks=pytest.mark.slow)])
def test_loading_and_running_leaves_nothing_behind(cycles: int, tmp_path: Path) -> None:
    path = tmp_path / "m.asd"
    scaled(2, 2).save(path)

    def counts() -> tuple[int, int]:
        return len(os.listdir("/proc/self/task")), len(os.listdir("/proc/self/fd"))

    for _ in range(3):
        assert right(asd.load(path), 2, 1)
    gc.collect()
    before = counts()
    for cycle in range(cycles):
        assert right(asd.load(path), 2, cycle)
    gc.collect()
    deadline = time.monotonic() + 30
    while counts() != before and time.monotonic() < deadline:
        time.sleep(0.01)
    assert counts() == before


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one core: nobody is moved")
def test_pinned_threads_give_the_caller_its_cores_back() -> None:
    """A caller that is not on its core, and cannot come there by itself."""
    module, cores = scaled(1, 1), os.sched_getaffinity(0)
    core, other = sorted(cores)[:2]
    module.pin_threads([core])
    os.sched_setaffinity(0, {other})
    try:
        with module._loaded.call():
            assert os.sched_getaffinity(0) == {core}
        assert os.sched_getaffinity(0) == {other}
    finally:
        os.sched_setaffinity(0, cores)
    assert right(module, 1, 4)


def test_cores_that_this_process_has_not_are_refused() -> None:
    from autosched.runtime.errors import AssemblyError

    core = min(os.sched_getaffinity(0))
    with pytest.raises(AssemblyError, match="cannot pin"):
        scaled(1, 1).pin_threads([100_000])
    with pytest.raises(AssemblyError, match="distinct"):
        scaled(1, 2).pin_threads([core, core])


MODULE_IN_A_POOL: list[Module] = []


def _in_child(number: int) -> bool:
    return right(MODULE_IN_A_POOL[0], 2, number)


def test_a_pool_of_forked_processes() -> None:
    MODULE_IN_A_POOL[:] = [scaled(2, 2)]
    assert right(MODULE_IN_A_POOL[0], 2, 5)
    with multiprocessing.get_context("fork").Pool(2) as pool:
        assert all(pool.map_async(_in_child, range(8)).get(60))


def test_daemon_threads_run_while_the_interpreter_ends(tmp_path: Path) -> None:
    path = tmp_path / "m.asd"
    scaled(2, 2).save(path)
    text = f"""
import threading, time
import autosched as asd
module = asd.load({str(path)!r})
inputs = module.random_inputs()
def work():
    while True:
        module.run(inputs)
for _ in range(4):
    threading.Thread(target=work, daemon=True).start()
time.sleep(0.05)
"""
    for _ in range(2):
        done = subprocess.run([sys.executable, "-c", text], timeout=60, capture_output=True)
        assert (done.returncode, done.stderr) == (0, b"")
