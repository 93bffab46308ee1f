"""What every contender offers: prepare a workload once, then run it again and again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from benchmarks.workloads import Workload


@dataclass(frozen=True, slots=True)
class Prepared:
    """A workload that is ready to be timed.

    Attributes:
        run: executes it once on inputs that are bound already; nothing else is inside.
        outputs: the results of the latest run, by name, in the workload's own layout.
        note: what the row should say about this contender (layout, precision in force).
        details: further figures for the row, taken after timing.
        keep_alive: whatever ``run`` needs and does not own.
    """

    run: Callable[[], object]
    outputs: Callable[[], Mapping[str, NDArray[np.float32]]]
    note: str = ""
    details: Callable[[], Mapping[str, Any]] = dict
    keep_alive: object = None


class Contender(Protocol):
    """A runtime that can run some workloads.  Values are picklable; libraries load in prepare."""

    @property
    def name(self) -> str: ...

    def supports(self, workload: Workload) -> bool:
        """Whether this contender has a fair form of the workload."""
        ...

    def prepare(self, workload: Workload, threads: int) -> Prepared:
        """Load, compile and bind inputs; runs in the process that will be timed."""
        ...
