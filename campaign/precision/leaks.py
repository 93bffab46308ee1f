"""What many runs and many compilations leave behind in a process."""

from __future__ import annotations

import gc
import os
import resource
import warnings
from collections.abc import Callable, Iterator
from random import Random
from typing import Any, Final, NamedTuple

import numpy as np

import autosched as asd
from autosched.task import Task
from campaign.part import Mark
from campaign.verdict import Json, Verdict
from codegen.build import build
from codegen.llvm.jit import load
from sketch.lower import lower
from sketch.population.population import sample
from sketch.rules.generate import generate

# Bytes that one step may leave, and what a process may take once.
_ALLOWED: Final = {"runs": 100, "compiles": 24_000}
_ONCE: Final = 6 * 2**20
_WARM_UP: Final = 0.3
_STEPS: Final = {"runs": 10_000, "compiles": 150}


class Held(NamedTuple):
    """What a process holds: bytes of memory, files, threads, mappings."""

    memory: int
    files: int
    threads: int
    maps: int


def held() -> Held:
    """Of this process."""
    gc.collect()
    with open("/proc/self/statm", encoding="ascii") as file:
        memory = int(file.read().split()[1]) * resource.getpagesize()
    with open("/proc/self/maps", encoding="utf-8") as file:
        maps = sum(1 for _ in file)
    return Held(memory, len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task")), maps)


class LeaksPart:
    """Slopes of memory, files, threads and mappings."""

    def draw(self, seed: int) -> Json:
        """Runs or compilations, and of what."""
        rng = Random(seed)
        what = rng.choice(("runs", "compiles", "compiles", "compiles"))
        return {"what": what, "threads": rng.choice((1, 1, 2)), "seed": rng.randrange(2**31)}

    def judge(self, case: Json, mark: Mark) -> Verdict:
        """Warm up, take the size, go on, take the size again."""
        warnings.simplefilter("ignore")
        what = case["what"]
        step = (_run if what == "runs" else _compile)(case)
        steps = _STEPS[what]
        first = int(steps * _WARM_UP)
        mark(what)
        for number in range(first):
            step(number)
        before = held()
        for number in range(first, steps):
            step(number)
        after = held()
        problem = growth(before, after, steps - first, _ALLOWED[what])
        return Verdict("wrong" if problem else "right", problem or "", {what: steps})

    def smaller(self, case: Json) -> Iterator[Json]:
        """A leak needs all its steps."""
        yield from ()


def growth(before: Held, after: Held, steps: int, bytes_a_step: int) -> str | None:
    """What grew more than it may."""
    grown = after.memory - before.memory
    if grown > _ONCE + bytes_a_step * steps:
        return f"memory grew by {grown / steps:.0f} bytes in each of {steps} steps"
    if after.files > before.files:
        return f"{after.files - before.files} files stay open after {steps} steps"
    if after.threads > before.threads + 2:
        return f"{after.threads - before.threads} threads stay after {steps} steps"
    if after.maps > before.maps + 20 + steps // 20:
        return f"{after.maps - before.maps} mappings stay after {steps} steps"
    return None


def _program(width: int, rng: Random) -> asd.ComputeDAG:
    a = asd.placeholder((width, 7), name="A")
    k = asd.reduce_axis(7)
    total = asd.compute(width, lambda i: asd.sum(a[i, k] * rng.random(), axis=k), name="S")
    return asd.ComputeDAG([total])


def _run(case: Json) -> Callable[[int], Any]:
    dag = _program(1000, Random(case["seed"]))
    module = Task(dag, asd.Target("cpu", threads=case["threads"])).module()
    inputs = {"A": np.ones((1000, 7), np.float32)}
    return lambda number: module.run(inputs)


def _compile(case: Json) -> Callable[[int], Any]:
    """Mostly kernels, which are loaded and dropped; now and then a whole module that runs once."""
    rng = Random(case["seed"])
    target = asd.Target("cpu", threads=case["threads"])

    def step(number: int) -> None:
        width = rng.randrange(2, 60)
        dag = _program(width, rng)
        if number % 10 == 0:
            module = Task(dag, target).module()
            module.run({"A": np.ones((width, 7), np.float32)})
            return
        sketch = generate(dag, target)[0]
        row = sample(sketch, 1, np.random.default_rng(number)).row(0)
        kernel = build(lower(sketch, row), target)
        load([kernel]).address(kernel.symbol)

    return step


PART: Final = LeaksPart()
