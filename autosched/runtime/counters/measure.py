"""Counting what the steps of a module do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from autosched.runtime.counters.counts import StepCounts, step_counts
from autosched.runtime.counters.events import EVENTS, Event
from autosched.runtime.counters.perf import Opener, counting, open_event
from autosched.runtime.counters.reader import FileReader, Reader

if TYPE_CHECKING:
    from sketch.target.target import Target

_VALUES: Final = 3


def count_steps(
    once: Callable[[Reader], NDArray[np.int64]],
    target: Target,
    threads: Sequence[int],
    repeats: int,
    events: Sequence[Event] = EVENTS,
    opener: Opener | None = None,
) -> StepCounts:
    """Counts of each step, over all threads that compute it.

    Args:
        once: one run, by how much each step changed the counters: int64 ``[steps, files, 3]``.
        target: of the code.
        threads: the system's ids of the threads that compute.
        repeats: runs to count.
        events: what to count.
        opener: opens an event for a thread; None: the kernel.
    """
    # Workers that exist already are not children that a counter would follow: each has its own.
    with counting(events, tuple(threads), opener or open_event) as counters:
        if not counters.events:
            return StepCounts((), (), counters.note)
        reader = FileReader(counters.files, target)
        total = sum(once(reader) for _ in range(repeats))
    shape = (-1, len(counters.events), counters.threads, _VALUES)
    differences = np.asarray(total, np.int64).reshape(shape)
    return step_counts(counters.events, differences, repeats, counters.note)
