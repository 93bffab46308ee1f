"""Timing the same work on several pinned threads at once."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor


def best_seconds(work: Callable[[int], object], threads: int, repeats: int) -> float:
    """Least wall-clock seconds of ``work(0)`` ... ``work(threads - 1)`` at once.

    Thread k is pinned as worker k of a kernel is.  ``work`` must give up Python's lock.
    """
    cores = sorted(os.sched_getaffinity(0))

    def pinned(worker: int) -> None:
        os.sched_setaffinity(0, [cores[worker % len(cores)]])
        work(worker)

    def once(pool: ThreadPoolExecutor) -> float:
        began = time.perf_counter()
        list(pool.map(pinned, range(threads)))
        return time.perf_counter() - began

    with ThreadPoolExecutor(threads) as pool:
        return min(once(pool) for _ in range(repeats))
