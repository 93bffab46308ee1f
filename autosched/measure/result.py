"""What measuring a candidate gives: a timing, or a failure as a value."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from statistics import median
from typing import Final, Literal, get_args

ConstantState = Literal["warm", "l2_cold", "dram_cold"]
"""Where the constants are before each run: in all caches, not in L2, or in no cache at all."""

CacheState = ConstantState | Literal["network", "network_l2_cold", "network_dram_cold"]
"""What the caches hold before each run: the state of the constants; in the states of a network the
caches of each thread have besides its share of the rows of all inputs, as kernels leave them that
compute row after row, and nothing of others' rows.  Of the memory of the outputs they have what is
left after other values as large as the kernel's own.  Else what the last run has left."""

Stage = Literal["lower", "compile", "load", "run", "verify", "timeout"]

_CONSTANTS: Final[dict[CacheState, ConstantState]] = {
    "warm": "warm", "l2_cold": "l2_cold", "dram_cold": "dram_cold", "network": "warm",
    "network_l2_cold": "l2_cold", "network_dram_cold": "dram_cold",
}  # fmt: skip
CACHE_STATES: Final = tuple(_CONSTANTS)
WRONG_RESULT: Final = "WrongResult"
"""The kind of a failure at stage "verify" where the kernel ran but disagrees with the oracle."""
STAGES: Final[tuple[Stage, ...]] = get_args(Stage)


def constant_state(state: CacheState) -> ConstantState:
    """Where a state has the constants."""
    return _CONSTANTS[state]


def leaves_warm(state: CacheState) -> bool:
    """Whether a run begins with something in the caches that only the last run of the same kernel
    can have left.
    """
    return constant_state(state) == "warm" or not of_network(state)


def network_state(constants: ConstantState) -> CacheState:
    """The state of a network whose constants are in this one."""
    return next(s for s, held in _CONSTANTS.items() if held == constants and of_network(s))


def of_network(state: CacheState) -> bool:
    """Whether threads have their shares of inputs and outputs, as in a network."""
    return state != _CONSTANTS[state]


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds per execution.

    Attributes:
        seconds: one element a sample, in the order taken; the first runs of a fresh kernel are
            slower.  A candidate that was dropped early has one or two, others up to five.  Where
            there were several bursts, the median of each is a sample.
        cache_state: what the caches held before each run.
        error: relative error against the oracle, ``max|y - ref| / max|ref|``; None: not checked.
        variant_errors: the same of the candidate's variant on normal data and on data with a large
            mean, measured once for all of its candidates; empty: not measured, as of the task as it
            is written where no variant has large ones.
        build_s: seconds that compiling it took; None: unknown, or it was compiled before.
        pace: times as slow as usual that the machine was meanwhile, which is taken off ``seconds``;
            None: unknown (``measure.pacer``).
        waiting: times as long as the runs that count that all runs took, since threads had to wait
            for other processes.
    """

    seconds: tuple[float, ...]
    cache_state: CacheState = "warm"
    error: float | None = None
    variant_errors: tuple[float, ...] = ()
    build_s: float | None = None
    pace: float | None = field(default=None, compare=False)
    waiting: float = field(default=1.0, compare=False)

    def __post_init__(self) -> None:
        if not self.seconds or not all(math.isfinite(s) and s > 0 for s in self.seconds):
            raise ValueError(f"a timing needs positive finite seconds, got {self.seconds}")
        if self.cache_state not in CACHE_STATES:
            raise ValueError(f"cache state {self.cache_state!r} is not one of {CACHE_STATES}")

    @property
    def best(self) -> float:
        """The fastest sample, in seconds."""
        return min(self.seconds)

    @property
    def median(self) -> float:
        """The middle sample, in seconds."""
        return median(self.seconds)


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a candidate has no timing.

    Attributes:
        stage: where it failed; "timeout" for a phase that was killed.
        kind: the exception's type, the signal's name, or the phase that ran out of time.
        message: what happened, with values.
    """

    stage: Stage
    kind: str
    message: str

    def __str__(self) -> str:
        return f"{self.stage}: {self.kind}: {self.message}"


MeasureResult = Timing | Failure


def scaled(result: MeasureResult, factor: float) -> MeasureResult:
    """A timing with all seconds times ``factor``; a failure as it is."""
    if not isinstance(result, Timing):
        return result
    return replace(result, seconds=tuple(factor * s for s in result.seconds))


def is_wrong(result: MeasureResult) -> bool:
    """Whether the kernel ran but disagrees with the oracle."""
    return isinstance(result, Failure) and result.kind == WRONG_RESULT
