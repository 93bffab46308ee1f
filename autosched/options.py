"""How to search and how long: frozen options with units in their names, and presets as values."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, Literal

from autosched.errors import OptionError

if TYPE_CHECKING:
    import numpy as np

    from autosched.search.measured import Measured
    from autosched.search.policy import SearchPolicy
    from autosched.search.scorer import Scorer
    from autosched.search.space import Space
    from sketch.rules.rule import SketchRule

Strategy = Literal["gradient", "round-robin"]
PolicyName = Literal["evolutionary", "genetic", "random", "grid"]
PolicyFactory = Callable[["Space", "Scorer", "np.random.Generator", "Measured"], "SearchPolicy"]
"""(space, scorer, rng, measured) -> the user's own policy of one task; see ``search.policy``."""

STRATEGIES: Final = ("gradient", "round-robin")
POLICIES: Final = ("evolutionary", "genetic", "random", "grid")

_UNIT_SECONDS: Final = {"ms": 1e-3, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
_PART: Final = re.compile(r"(\d+(?:\.\d*)?|\.\d+)\s*([a-z]*)\s*")


def parse_budget(text: str | float) -> float:
    """Seconds from ``"10m"``, ``"90s"``, ``"1h"``, ``"1h30m"``, ``"2.5"`` or a number of seconds.

    Raises:
        OptionError: not a positive finite time.
    """
    seconds = float(text) if isinstance(text, int | float) else _parse_parts(text)
    if isinstance(text, bool) or not (math.isfinite(seconds) and seconds > 0):
        raise OptionError(
            f"budget {text!r} is not a positive time", hint='write "90s", "10m", "1h30m" or seconds'
        )
    return seconds


def _parse_parts(text: str) -> float:
    rest, seconds = text.strip().lower(), 0.0
    many = len(_PART.findall(rest)) > 1
    while rest:
        part = _PART.match(rest)
        unit = part[2] if part is not None else ""
        if part is None or (many and not unit) or (unit and unit not in _UNIT_SECONDS):
            return math.nan
        seconds += float(part[1]) * _UNIT_SECONDS[unit or "s"]
        rest = rest[part.end() :]
    return seconds


@dataclass(frozen=True, slots=True)
class SearchOptions:
    """One round of the search of one task.

    Attributes:
        policy: "evolutionary" (by the cost model); without a model "genetic" (evolution by what was
            measured), "random", or "grid" (every row in a fixed order); or a function that makes
            a policy of the user's own.
        population: rows a generation, over all sketches of the task.
        generations: generations after the first population.
        mutation_probability: share of the children that are mutated; the others are crossed.
        epsilon: share of the measured batch that is drawn at random.
        batch_trials: largest number of candidates measured at once.
        measured_share: largest share of the first population that is taken from measured rows.
        sketch_rows: rows a generation that a sketch gets, unless it gets none: below that, the
            fixed cost of lowering outweighs the rows.
        model_trials: measured candidates of the task at which the learned model and the draft
            model weigh the same in the ranking.
    """

    policy: PolicyName | PolicyFactory = "evolutionary"
    population: int = 4096
    generations: int = 3
    mutation_probability: float = 0.85
    epsilon: float = 0.05
    batch_trials: int = 32
    measured_share: float = 0.2
    sketch_rows: int = 384
    model_trials: int = 4

    def __post_init__(self) -> None:
        if not callable(self.policy) and self.policy not in POLICIES:
            raise OptionError(f"policy {self.policy!r} is unknown", hint=f"one of {POLICIES}")
        for name in ("population", "batch_trials", "sketch_rows"):
            _check(name, getattr(self, name), 1, math.inf)
        for name in ("generations", "model_trials"):
            _check(name, getattr(self, name), 0, math.inf)
        for name in ("mutation_probability", "epsilon", "measured_share"):
            _check(name, getattr(self, name), 0, 1)


@dataclass(frozen=True, slots=True)
class TuneOptions:
    """A tuning run over one or several tasks.

    Attributes:
        trials: measured candidates over all tasks, those of earlier runs in the log included;
            None: no limit.
        budget_s: wall-clock limit of this run in seconds; None: no limit.
        early_stop_trials: stop when the objective has not improved for so many trials.
        task_early_stop_trials: give a task up when it has not improved for so many of its trials.
        improvement: relative gain that counts as an improvement in early stopping.
        strategy: how the next task is chosen.
        finish_share: share of the budget that goes to coordinate descent from the best candidates.
        leaders: candidates a task that are re-measured against each other at the end.
        leader_rounds: interleaved rounds of that re-measurement.
        tolerance: largest relative error against the oracle, ``max|y - ref| / max|ref|``.
        seed: of everything random.
        search: one round of one task.
        rules: sketch rules instead of the target's default ones, asked in this order; the user's
            own go first: ``(MyRule(), *default_rules(target))``.  None: the tasks' own.
        variants: search other algorithms than those the tasks are written in, too; False keeps
            rounding and the spread of infinities and NaN as they are written.
    """

    trials: int | None = None
    budget_s: float | None = None
    early_stop_trials: int | None = None
    task_early_stop_trials: int | None = None
    improvement: float = 0.002
    strategy: Strategy = "gradient"
    finish_share: float = 0.15
    leaders: int = 4
    leader_rounds: int = 5
    tolerance: float = 1e-4
    seed: int = 0
    search: SearchOptions = field(default_factory=SearchOptions)
    rules: tuple[SketchRule, ...] | None = None
    variants: bool = True

    def __post_init__(self) -> None:
        if self.strategy not in STRATEGIES:
            raise OptionError(f"strategy {self.strategy!r} is unknown", hint=f"one of {STRATEGIES}")
        for name in ("trials", "early_stop_trials", "task_early_stop_trials"):
            if getattr(self, name) is not None:
                _check(name, getattr(self, name), 1, math.inf)
        if self.budget_s is not None:
            parse_budget(self.budget_s)
        for name in ("leaders", "leader_rounds", "seed"):
            _check(name, getattr(self, name), 0, math.inf)
        for name in ("finish_share", "improvement", "tolerance"):
            _check(name, getattr(self, name), 0, 1)

    def with_budget(
        self, trials: int | None = None, budget: str | float | None = None
    ) -> TuneOptions:
        """These options with other limits; what is None stays."""
        budget_s = self.budget_s if budget is None else parse_budget(budget)
        return replace(self, trials=self.trials if trials is None else trials, budget_s=budget_s)


def _check(name: str, value: float, low: float, high: float) -> None:
    if isinstance(value, bool) or not low <= value <= high:
        limit = f"at least {low}" if high == math.inf else f"between {low} and {high}"
        raise OptionError(f"{name} is {value!r}", hint=f"give a number that is {limit}")


QUICK: Final = TuneOptions(
    task_early_stop_trials=96,
    leaders=3,
    leader_rounds=3,
    search=SearchOptions(population=1024, generations=2, batch_trials=16),
)
DEFAULT: Final = TuneOptions()
THOROUGH: Final = TuneOptions(
    leaders=8,
    leader_rounds=9,
    search=SearchOptions(population=8192, generations=6, batch_trials=64),
)
PRESETS: Final = {"quick": QUICK, "default": DEFAULT, "thorough": THOROUGH}
