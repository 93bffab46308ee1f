"""Whether the cores are as near to each other as they can be.

A hypervisor moves virtual cores.  Where two of them no longer share a last-level cache, what one
thread hands to the other takes three times as long, and whole networks take up to 1.4 times as
long, for seconds or minutes.  Contenders that run in turn are then compared across two machines.
"""

from __future__ import annotations

import ctypes
import math
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from typing import Final

import numpy as np

from benchmarks.contender import Prepared
from benchmarks.worker import Worker
from benchmarks.workloads import Workload

_NUMBERS: Final = 1 << 15  # 128 KB: half of a core's L2 at most
_SWAPS: Final = 8  # of a run
_PROBE_S: Final = 0.005
_LEAST: Final = 20
_FAR: Final = 1.5  # times as long as at best
_PATIENCE_S: Final = 20.0  # for all turns of a comparison together
_WAIT_S: Final = 0.3


@dataclass(frozen=True, slots=True)
class Exchange:
    """A contender like any other, whose threads reverse an array again and again: each reads what
    the other has just written.
    """

    name: str = "exchange"

    def supports(self, workload: Workload) -> bool:
        return True

    def prepare(self, workload: Workload, threads: int) -> Prepared:
        """Compile the kernel for as many threads."""
        import autosched
        from autosched.measure.execution import LoadedKernel, aligned_empty
        from codegen.kernel import Kernel
        from codegen.team import Team

        a = autosched.placeholder((_NUMBERS,), name="a")
        b = autosched.compute((_NUMBERS,), lambda i: a[_NUMBERS - 1 - i] * 1.0, name="b")
        target = autosched.Target("cpu", threads=threads)
        kernel = autosched.Task(autosched.ComputeDAG([b]), target).compile()
        assert isinstance(kernel, Kernel)
        first, second = (aligned_empty((_NUMBERS,), "float32") for _ in range(2))
        first[...] = 1.0
        workspace = aligned_empty((max(kernel.workspace_bytes, 1),), "uint8")
        there = LoadedKernel(kernel, [first, second, workspace], {})
        back = LoadedKernel(kernel, [second, first, workspace], {})
        calls = [
            (ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(loaded.address), loaded)
            for loaded in (there, back)
        ]
        cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, cores[:1])
        team = Team(threads, cores)

        def run() -> None:
            for _ in range(_SWAPS):
                for function, loaded in calls:
                    function(ctypes.addressof(loaded.blocks[0]), team.address)

        return Prepared(run, lambda: {"b": np.array(second)}, keep_alive=(calls, team))


@dataclass(slots=True)
class Placement:
    """Repeats turns during which the cores were far from each other.

    Attributes:
        probe: runs ``Exchange``; None: one core is never far from itself.
        best_s: the shortest exchange so far.
        far_turns: turns that stayed far, although they were tried again.
        patience_s: how long turns may still be waited for.
    """

    probe: Worker | None
    best_s: float = math.inf
    far_turns: int = 0
    patience_s: float = _PATIENCE_S

    def turn(self, run: Callable[[], float]) -> float:
        """What ``run`` gives while the cores are near; or anywhere, where that takes too long."""
        while True:
            near = self._near()
            if near or self.patience_s <= 0:
                found = run()
                if near and self._near():
                    return found
                if self.patience_s <= 0:
                    self.far_turns += 1
                    return found
            self.patience_s -= _WAIT_S
            time.sleep(_WAIT_S)

    def _near(self) -> bool:
        if self.probe is None:
            return True
        found = median(self.probe.time(_PROBE_S, _LEAST))
        self.best_s = min(self.best_s, found)
        return found < _FAR * self.best_s
