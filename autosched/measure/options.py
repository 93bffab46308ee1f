"""How to measure."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, Literal

from autosched.measure.result import CACHE_STATES, CacheState
from autosched.system.limits import check_choice, check_kinds, check_number
from codegen.denormals import DENORMALS, Denormals
from sketch.target.target import MOST_THREADS

CheckPolicy = Literal["best", "all", "none"]

CHECKS: Final = ("best", "all", "none")

InputPlaces = Literal["arrays", "aligned"]

INPUT_PLACES: Final = ("arrays", "aligned")


@dataclass(frozen=True, slots=True)
class MeasureOptions:
    """Options of the local runner.

    Attributes:
        cache_state: what the caches hold before each run; see ``result.CacheState``.  None: for
            a network what its constants leave in them, else "warm".
        check: whose results are compared with the oracle: those that beat the best so far, all, or
            none.
        tolerance: largest relative error, ``max|y - ref| / max|ref|``, of a right result.
        samples: most timed samples of a candidate in one burst; noise between bursts is larger
            than what more of them would average out.
        bursts: of a candidate that may be the fastest of its batch, at different moments, as long
            as that is not decided (``measure.burst_noise``); others have one.
        paced: whether a CPU's speed at the moment of each sample is taken off (``measure.pacer``).
        few_samples: enough where the middle one is within ``agreed`` of the fastest, where they
            took ``enough_s``, or where the candidate is slower than ``drop_late`` times the best:
            its rank is known.
        agreed, drop_late, enough_s: see ``few_samples``.
        min_sample_s: a sample of a faster kernel is the mean of several runs (warm caches only).
        burst_s: no further sample is begun after this time.
        drop_first, drop_second: a candidate slower than this times the best, after one run or by
            the faster of two, is not run again; fresh kernels are up to 1.7x slow on the first run
            and 1.15x on the second.
        wake_s: what a first run may lose to sleeping threads and untouched pages before it counts
            as slow.
        interruption_s: a first run that is slow by less is repeated once: perhaps the operating
            system ran something else meanwhile.
        warmup_s: what a burst of a short kernel begins with, not recorded but for its first run.
        builders: building processes; None: one per CPU.
        build_timeout_s: limit for lowering and compiling one candidate.
        run_timeout_s: limit for loading and timing one candidate.
        reference_timeout_s: limit for the oracle of one task.
        recycle_after: the timing process is replaced after so many kernels (memory of the JIT).
        seed: of the inputs.
        inputs: where inputs lie: "arrays", where NumPy puts arrays, so that vectors may be across
            two lines of the cache, or "aligned".  None: of a network aligned, as its memory is; of
            a task of its own as arrays, since it is called with such.
        denormals: what becomes of denormal numbers while a CPU runs candidates, as in ``compile``:
            "flush" or "keep".  Random inputs have none, so that records of one serve the other.
    """

    cache_state: CacheState | None = None
    check: CheckPolicy = "best"
    tolerance: float = 1e-4
    samples: int = 7
    bursts: int = 3
    paced: bool = True
    few_samples: int = 3
    agreed: float = 0.02
    drop_late: float = 1.15
    enough_s: float = 8e-3
    min_sample_s: float = 200e-6
    burst_s: float = 0.5
    drop_first: float = 2.0
    drop_second: float = 1.5
    wake_s: float = 100e-6
    interruption_s: float = 20e-3
    warmup_s: float = 500e-6
    builders: int | None = None
    build_timeout_s: float = 20.0
    run_timeout_s: float = 10.0
    reference_timeout_s: float = 120.0
    recycle_after: int = 2000
    seed: int = 0
    inputs: InputPlaces | None = None
    denormals: Denormals = "flush"

    def __post_init__(self) -> None:
        check_kinds(self)
        check_choice("cache state", self.state, CACHE_STATES)
        check_choice("check", self.check, CHECKS)
        if self.inputs is not None:
            check_choice("places of inputs", self.inputs, INPUT_PLACES)
        check_choice("denormals", self.denormals, DENORMALS)
        for name in ("samples", "bursts", "few_samples", "recycle_after"):
            check_number(name, getattr(self, name), 1, math.inf)
        if self.builders is not None:
            check_number("builders", self.builders, 1, MOST_THREADS)
        for name in (
            "tolerance", "agreed", "min_sample_s", "burst_s", "drop_first", "drop_second",
            "drop_late", "enough_s", "wake_s", "interruption_s", "warmup_s", "build_timeout_s",
            "run_timeout_s", "reference_timeout_s", "seed",
        ):  # fmt: skip
            check_number(name, getattr(self, name), 0, math.inf)

    @property
    def state(self) -> CacheState:
        """``cache_state``, "warm" where it is not said."""
        return "warm" if self.cache_state is None else self.cache_state
