"""Threads, forks, affinity and limits while modules run."""

from __future__ import annotations

import os
import resource
import signal
import threading
import time
from collections.abc import Callable
from random import Random
from typing import Final

import autosched as asd
from autosched.task import Task
from campaign.faults.modules import Subject
from sketch.errors import AutoschedError

_PATIENCE_S: Final = 30.0
# Mebibytes: with less, LLVM ends the process, which nobody can catch.
_LEAST_ROOM: Final = 96


def in_threads(subjects: list[Subject], rng: Random, count: int) -> str | None:
    """Several threads run several modules at once."""
    wrong: list[str] = []

    def work(seed: int) -> None:
        own = Random(seed)
        for _ in range(count):
            factor = float(own.randrange(1, 50))
            if not own.choice(subjects).right(factor):
                wrong.append("a concurrent call returns another call's result")

    threads = [threading.Thread(target=work, args=(rng.random(),)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return wrong[0] if wrong else None


def forks(subjects: list[Subject], rng: Random, count: int) -> str | None:
    """Children of a process whose other threads are inside calls run modules, too."""
    stop = threading.Event()

    def busy(subject: Subject) -> None:
        while not stop.is_set():
            subject.right(3.0)

    threads = [threading.Thread(target=busy, args=(subject,)) for subject in subjects]
    for thread in threads:
        thread.start()
    try:
        for _ in range(count):
            time.sleep(rng.uniform(0, 0.003))
            problem = _child(lambda: all(s.right(5.0) for s in subjects))
            if problem is not None:
                return problem
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    return None


def _child(check: Callable[[], bool]) -> str | None:
    child = os.fork()
    if child == 0:
        try:
            os._exit(0 if check() else 1)
        except BaseException:
            os._exit(2)
    end = time.monotonic() + _PATIENCE_S
    while time.monotonic() < end:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            code = os.waitstatus_to_exitcode(status)
            texts = {0: None, 1: "a forked child computes a wrong result"}
            return texts.get(code, f"a forked child ends with {code}")
        time.sleep(0.0005)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return "a forked child hangs"


def on_fewer_cores(subjects: list[Subject], rng: Random, count: int) -> str | None:
    """The affinity of the process changes between calls."""
    cores = sorted(os.sched_getaffinity(0))
    for _ in range(count):
        os.sched_setaffinity(0, rng.sample(cores, rng.randrange(1, len(cores) + 1)))
        if not rng.choice(subjects).right(float(rng.randrange(9))):
            return "a wrong result after the affinity changed"
    return None


def under_limits(subjects: list[Subject], rng: Random, count: int) -> str | None:
    """Children with little memory, few files or small files compile and run, or say why not."""
    for _ in range(count):
        kind = rng.choice((resource.RLIMIT_AS, resource.RLIMIT_NOFILE, resource.RLIMIT_FSIZE))
        size = {
            resource.RLIMIT_AS: _used() + rng.choice((_LEAST_ROOM, 256)) * 2**20,
            resource.RLIMIT_NOFILE: rng.randrange(3, 16),
            resource.RLIMIT_FSIZE: rng.choice((0, 100, 10_000)),
        }[kind]
        width = rng.randrange(20, 60)

        def limited(kind: int = kind, size: int = size, width: int = width) -> bool:
            resource.setrlimit(kind, (size, resource.getrlimit(kind)[1]))
            try:
                return _fresh(width)
            except (AutoschedError, MemoryError, OSError):
                return True

        problem = _child(limited)
        if problem is not None:
            return f"{problem} under limit {kind} of {size}"
    return None


def _fresh(width: int) -> bool:
    """Compile and run a new program."""
    a = asd.placeholder((width, 3), name="A")
    b = asd.compute((width, 3), lambda i, j: a[i, j] * 2.0 + 1.0, name="B")
    module = Task(asd.ComputeDAG([b]), asd.Target("cpu", threads=1)).module()
    import numpy as np

    return bool((module.run({"A": np.ones((width, 3), np.float32)})["B"] == 3).all())


def _used() -> int:
    """Bytes of this process's address space."""
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[0]) * resource.getpagesize()
