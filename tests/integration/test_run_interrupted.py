"""Exceptions at any instant of a call: later calls are right, nothing hangs, nothing is left."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest

import autosched as asd
from autosched.host.evaluator import HostError, HostEvaluator
from autosched.runtime import team_pool
from autosched.runtime.module import Module
from autosched.runtime.team_pool import TeamPool, shared_teams
from codegen.cpu_share import usable_cpus
from tests.support.interrupts import Interrupted, interrupted, interrupts

SIDES = {"small": 8, "large": 160}


@cache
def product(side: int, threads: int) -> Module:
    """``C = A @ B`` for square matrices."""
    a, b = (asd.placeholder((side, side), name=name) for name in "AB")
    k = asd.reduce_axis(side)
    c = asd.compute((side, side), lambda i, j: asd.sum(a[i, k] * b[k, j], axis=k), name="C")
    return asd.Task(asd.ComputeDAG([c]), target=asd.Target("cpu", threads=threads)).module()


def run_is_right(module: Module, number: int) -> bool:
    """Whether a run on new numbers gives the product of these."""
    side = module.inputs[0].shape[0]
    inputs = {
        "A": np.full((side, side), number % 1000, np.float32),
        "B": np.eye(side, dtype=np.float32),
    }
    return bool((module.run(inputs)["C"] == number % 1000).all())


def calls_of(module: Module) -> dict[str, Callable[[], object]]:
    side = module.inputs[0].shape[0]
    ones = np.ones((side, side), np.float32)
    inputs = {"A": ones, "B": ones}
    return {
        "run": lambda: module.run(inputs),
        "benchmark": lambda: module.benchmark(inputs, repeats=1, warmup=0),
        "profile": lambda: module.profile(inputs, repeats=1),
        "explain": lambda: module.explain(inputs, repeats=1),
    }


def attack(module: Module, call: Callable[[], object], trials: int, seed: int) -> int:
    """How many of the interrupts came inside the call; asserts that every later run is right."""
    rng, inside = np.random.default_rng(seed), 0
    call()
    with interrupts():
        for trial in range(trials):
            inside += interrupted(call, rng.uniform(0, 2e-3))
            assert run_is_right(module, trial), f"seed {seed}, trial {trial}"
    return inside


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("size", SIDES)
def test_runs_after_interrupts_are_right(size: str, threads: int) -> None:
    module = product(SIDES[size], threads)
    assert attack(module, calls_of(module)["run"], 60, seed=threads) > 10


@pytest.mark.parametrize("kind", ["benchmark", "profile", "explain"])
def test_other_calls_may_be_interrupted_too(kind: str) -> None:
    module = product(160, 2)
    assert attack(module, calls_of(module)[kind], 12, seed=7) > 5


@pytest.mark.slow
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("size", SIDES)
@pytest.mark.parametrize("kind", ["run", "benchmark", "profile"])
def test_a_thousand_interrupts(kind: str, size: str, threads: int) -> None:
    module = product(SIDES[size], threads)
    assert attack(module, calls_of(module)[kind], 1000, seed=11) > 100


def test_a_call_that_never_left_binds_its_caller_until_the_next_one_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cores = os.sched_getaffinity(0)
    pool = TeamPool(2, (min(cores), max(cores)))
    monkeypatch.setattr(team_pool, "current_core", lambda: -1)  # not on its own
    try:
        pool.team().__enter__()  # an exception comes before the first line of ``__exit__``
        with pool.team():
            assert os.sched_getaffinity(0) == {min(cores)}
        assert os.sched_getaffinity(0) == cores and not pool.homes
    finally:
        os.sched_setaffinity(0, cores)


def test_interrupts_leave_no_threads_and_no_bound_caller() -> None:
    module, cores = product(160, 2), os.sched_getaffinity(0)
    attack(module, calls_of(module)["run"], 5, seed=1)
    threads = len(os.listdir("/proc/self/task"))
    attack(module, calls_of(module)["run"], 60, seed=2)
    deadline = time.monotonic() + 30
    while len(os.listdir("/proc/self/task")) > threads and time.monotonic() < deadline:
        time.sleep(0.01)
    assert len(os.listdir("/proc/self/task")) <= threads
    module.pin_threads([min(cores), max(cores)] if len(cores) > 1 else None)
    try:
        attack(module, calls_of(module)["run"], 60, seed=3)
        assert os.sched_getaffinity(0) == cores
    finally:
        module._cores = ()


def test_every_instant_of_the_hand_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """The exception comes at each line of Python that a call executes, one after another."""
    import sys

    module = product(8, 2)
    ones = np.ones((8, 8), np.float32)

    def interrupt_after(count: int) -> bool:
        left = [count]

        def step(*_: Any) -> Any:
            left[0] -= 1
            if left[0] == 0:
                raise Interrupted
            return step

        sys.settrace(step)
        try:
            module.run({"A": ones, "B": ones})
        except Interrupted:
            return True
        finally:
            sys.settrace(None)
        return False

    steps = 1
    while interrupt_after(steps):
        assert run_is_right(module, steps), steps
        steps += 1
    assert steps > 30
    assert len(shared_teams(2)._alive) <= max(1, usable_cpus() // 2)


def test_a_handler_may_run_the_module_that_it_interrupts() -> None:
    module = product(160, 2)
    inputs = {"A": np.ones((160, 160), np.float32), "B": np.eye(160, dtype=np.float32)}
    wrong, nested = [], []

    def handler(*_: object) -> None:
        nested.append(1)
        wrong.extend([] if run_is_right(module, len(nested)) else [len(nested)])

    before = signal.signal(signal.SIGALRM, handler)
    try:
        while len(nested) < 200:
            count = len(nested)  # first: the signal may come before the next line
            signal.setitimer(signal.ITIMER_REAL, 3e-4 * (1 + count % 7))
            while len(nested) == count:
                assert (module.run(inputs)["C"] == 1).all()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert not wrong


@pytest.mark.parametrize("trials", [10, pytest.param(50, marks=pytest.mark.slow)])
def test_ctrl_c_ends_a_loop_of_runs_each_time(trials: int) -> None:
    """From outside, as a terminal sends it."""
    module = product(8, 2)
    inputs = {name: np.ones((8, 8), np.float32) for name in "AB"}
    rng = np.random.default_rng(5)
    for trial in range(trials):
        started, start = os.pipe()
        pid = os.fork()
        if pid == 0:
            _run_until_ctrl_c(module, inputs, start, trial)
        os.read(started, 1)
        time.sleep(rng.uniform(0.0, 0.01))
        os.kill(pid, signal.SIGINT)
        status = _exit_status(pid)
        os.close(started)
        os.close(start)
        assert status == 0, f"trial {trial} ended with {status}"


def _run_until_ctrl_c(module: Module, inputs: dict[str, Any], start: int, number: int) -> None:
    """What a child does; its exit status is 0 if the run after Ctrl-C is right."""
    status = 6
    try:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        os.write(start, b".")
        while True:
            module.run(inputs)
    except KeyboardInterrupt:
        status = 0 if run_is_right(module, number) else 5
    finally:
        os._exit(status)


def _exit_status(pid: int) -> int | str:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        found, status = os.waitpid(pid, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.002)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return "a hang"


@pytest.mark.parametrize(
    ("threads", "depths"),
    [(2, (2,)), *(pytest.param(n, (1, 2, 3), marks=pytest.mark.slow) for n in (1, 2))],
)
def test_a_fork_while_other_threads_run(threads: int, depths: tuple[int, ...]) -> None:
    module, stop = product(160, threads), threading.Event()
    assert run_is_right(module, 1)

    def spin() -> None:
        while not stop.is_set():
            run_is_right(module, 3)

    spinners = [threading.Thread(target=spin) for _ in range(2)]
    for thread in spinners:
        thread.start()
    try:
        for depth in depths:
            assert _fork_and_run(module, depth) == 0
    finally:
        stop.set()
        for thread in spinners:
            thread.join()
    assert run_is_right(module, 2)


def _fork_and_run(module: Module, depth: int) -> int | str:
    """The exit status of a child that runs the module, and then has such a child itself."""
    pid = os.fork()
    if pid:
        return _exit_status(pid)
    right = run_is_right(module, depth) and (depth == 1 or _fork_and_run(module, depth - 1) == 0)
    os._exit(0 if right else 1)


class _RaisesSignal:
    """An engine of host operators in whose evaluation a signal arrives."""

    name, input_names = "none", ()

    def __init__(self, _: bytes) -> None:
        pass

    def evaluate(self, _: object) -> list[object]:
        signal.raise_signal(signal.SIGALRM)
        raise ValueError("an operator's own failure")


def test_what_a_handler_raises_is_no_failure_of_a_host_operator() -> None:
    class TimeLimit(Exception):
        pass

    def handler(*_: object) -> None:
        if limit:
            raise TimeLimit

    evaluator, limit = HostEvaluator("NonZero", b"", _RaisesSignal), True
    before = signal.signal(signal.SIGALRM, handler)
    try:
        with pytest.raises(TimeLimit):
            evaluator.run([])
        limit = False
        with pytest.raises(HostError, match="an operator's own failure"):
            evaluator.run([])
    finally:
        signal.signal(signal.SIGALRM, before)
