"""How to search and how long: frozen options with units in their names, and presets as values."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, Literal, get_args

from autosched.records.accuracy import ACCURACIES, Accuracy
from autosched.search.options import SearchOptions
from autosched.system.errors import OptionError
from autosched.system.limits import check_choice, check_kinds, check_number, check_tuple

if TYPE_CHECKING:
    from costmodel.extra_feature import ExtraFeature
    from sketch.rules.rule import SketchRule

Strategy = Literal["gradient", "round-robin"]
Effort = Literal["none", "draft", "quick"]
"""For operators without a record: the draft model ranks few schedules; it ranks many, of other
algorithms, too; a few of them are measured."""

DEFAULT_TRIALS: Final = 256
"""Of one task where nobody sets a limit."""

EMULATED_TRIAL_S: Final = 1.0
"""Seconds of a trial on an emulated device, until some were made: most are the C++ compiler's."""

STOP_BELOW: Final = 0.003
"""Of the objective: two timings of one kernel differ by more."""

STRATEGIES: Final = ("gradient", "round-robin")
EFFORTS: Final[tuple[Effort, ...]] = get_args(Effort)

_UNIT_SECONDS: Final = {"ms": 1e-3, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
_PART: Final = re.compile(r"(\d+(?:\.\d*)?|\.\d+)\s*([a-z]*)\s*")
_MOST_SEED: Final = 2**31 - 1  # that LightGBM takes


def parse_budget(text: str | float) -> float:
    """Seconds from ``"10m"``, ``"90s"``, ``"1h"``, ``"1h30m"``, ``"2.5"`` or a number of seconds.

    Raises:
        OptionError: not a positive finite time.
    """
    seconds = float(text) if isinstance(text, int | float) else _parse_parts(str(text))
    known = isinstance(text, str | int | float) and not isinstance(text, bool)
    if not known or not (math.isfinite(seconds) and seconds > 0):
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
class SchedulerOptions:
    """Which task gets the next trials, and how many; see ``tuning.scheduler``.

    Attributes:
        alpha: weight of what a task's last batches gained, against what it promises.
        window: batches that count as its last ones.
        beta: a task may be so many times slower per FLOP than the best of its kind before that
            counts as a promise.
        kind_trust: that promise is at most so many times the one from the task alone: it may
            differ from its kind for good, and must not starve the others.
        rounds: batches that a task should see on average: an evolution of one is no evolution.
        least_batch: trials of a batch at least.
        young_batch: trials of a batch at most while a task is young: it learns most from each.
        warm_up_share: part of the budget that goes to first batches, before any gradient counts.
        even_share: part of the warm-up that all tasks get alike; the rest goes by weighted time.
        trial_s: seconds of a trial before any was made.
        trial_prior: trials that the mean of all tasks counts for in the seconds of a task's trial.
        failed_batches, failed_trials: a task without a success gets no more trials after both.
        search_share: part of a time budget that is searched for, however long the end may take.
        doublings: of a task's trials, from which the next one's gain is expected.
        shrink: a doubling gains this part of what the one before it gained.
        hope: fall of the logarithm of a task's best time in a doubling that nobody made yet.
        hope_share: what that counts for where all of them were made, against the last one.
    """

    alpha: float = 0.2
    window: int = 3
    beta: float = 2.0
    kind_trust: float = 3.0
    rounds: int = 2
    least_batch: int = 4
    young_batch: int = 20
    warm_up_share: float = 1 / 3
    even_share: float = 0.5
    trial_s: float = 0.05
    trial_prior: int = 8
    failed_batches: int = 2
    failed_trials: int = 8
    search_share: float = 0.5
    doublings: int = 3
    shrink: float = 0.3
    hope: float = 0.05
    hope_share: float = 0.02

    def __post_init__(self) -> None:
        check_kinds(self)
        for name in ("alpha", "warm_up_share", "even_share", "search_share", "shrink"):
            check_number(name, getattr(self, name), 0, 1)
        for name in ("beta", "kind_trust", "hope", "hope_share"):
            check_number(name, getattr(self, name), 0, math.inf)
        for name in (
            "window", "rounds", "least_batch", "young_batch", "trial_prior", "failed_batches",
            "failed_trials", "doublings",
        ):  # fmt: skip
            check_number(name, getattr(self, name), 1, math.inf)
        check_number("trial_s", self.trial_s, 1e-6, math.inf)


@dataclass(frozen=True, slots=True)
class TuneOptions:
    """A tuning run over one or several tasks.

    Attributes:
        trials: measured candidates over all tasks, those of earlier runs in the log included;
            None: no limit.
        budget_s: wall-clock limit of this run in seconds; None: no limit.
        task_trials: measured candidates of one task, those of earlier runs in the log included;
            None: no limit.
        early_stop_trials: stop when the objective has not improved for so many trials.
        task_early_stop_trials: stop a task when it has not improved for so many of its trials.
        improvement: relative gain that counts as an improvement in early stopping.
        stop_below: the search ends, and what is known is finished, when the objective is expected
            to fall by less than this part in the rest of the budget (``tuning.remaining``); 0:
            never.  None: 0.003 where there is a limit of time; a number of trials alone is made in
            full.
        strategy: how the next task is chosen.
        finish_share: share of the budget that goes to coordinate descent from the best candidates.
        leaders: candidates a task that are re-measured against each other at the end.
        leader_rounds: interleaved rounds of that re-measurement.
        contenders: candidates a task that come into a longer one where there is time for it
            (``tuning.retiming``).
        retiming_s: seconds a task that both may take, and that a time budget reserves for them.
        retiming_share: of a time budget that is reserved for them at most, and of the run, that
            they may take in any case; and of a time budget, in which what a log knows may be timed
            again before the search goes on.
        doubt: a batch whose fastest takes this many times the task's best time is followed by
            another timing of what was fastest: the machine may have become slower; and where one is
            ``slowdown`` times as fast, of the best: it may have been (``tuning.disturbance``).
        slowdown: of what was fastest, or before, from which that is believed.
        tolerance: largest relative error against the oracle, ``max|y - ref| / max|ref|``.
        predicted_first: a task begins with what would be compiled without tuning.
        seed: of everything random; below 2**31.
        search: one round of one task.
        scheduler: which task gets the next trials.
        rules: sketch rules instead of the target's default ones, asked in this order; the user's
            own go first: ``(MyRule(), *default_rules(target))``.  None: the tasks' own.
        accuracy: which other algorithms than those that the tasks are written in are searched, too:
            none ("as written": rounding and the spread of infinities and NaN stay), those whose
            errors are at most 1e-5 of the largest output, or four times those of the task as it is
            written ("default"), or 1e-4 ("fast").  "close" is "default" here; they differ in what
            a network may have of them, see ``autosched.compile``.
    """

    trials: int | None = None
    budget_s: float | None = None
    task_trials: int | None = None
    early_stop_trials: int | None = None
    task_early_stop_trials: int | None = None
    improvement: float = 0.002
    stop_below: float | None = None
    strategy: Strategy = "gradient"
    finish_share: float = 0.15
    leaders: int = 4
    leader_rounds: int = 5
    contenders: int = 12
    retiming_s: float = 0.6
    retiming_share: float = 0.06
    doubt: float = 1.05
    slowdown: float = 1.15
    tolerance: float = 1e-4
    predicted_first: bool = False
    seed: int = 0
    search: SearchOptions = field(default_factory=SearchOptions)
    scheduler: SchedulerOptions = SchedulerOptions()
    rules: tuple[SketchRule, ...] | None = None
    accuracy: Accuracy = "default"

    def __post_init__(self) -> None:
        check_kinds(self)
        if self.rules is not None:
            check_tuple("rules", self.rules)
        check_choice("strategy", self.strategy, STRATEGIES)
        check_choice("accuracy", self.accuracy, ACCURACIES)
        for name in ("trials", "task_trials", "early_stop_trials", "task_early_stop_trials"):
            if getattr(self, name) is not None:
                check_number(name, getattr(self, name), 1, math.inf)
        if self.budget_s is not None:
            parse_budget(self.budget_s)
        check_number("leader_rounds", self.leader_rounds, 1, math.inf)
        for name in ("leaders", "contenders", "retiming_s"):
            check_number(name, getattr(self, name), 0, math.inf)
        check_number("seed", self.seed, 0, _MOST_SEED)
        for name in ("doubt", "slowdown"):
            check_number(name, getattr(self, name), 1, math.inf)
        shares = ["finish_share", "improvement", "tolerance", "retiming_share"]
        shares += [] if self.stop_below is None else ["stop_below"]
        for name in shares:
            check_number(name, getattr(self, name), 0, 1)

    @property
    def limited(self) -> bool:
        """Whether a run with these options ends by itself."""
        limits = (
            self.trials, self.budget_s, self.task_trials, self.early_stop_trials,
            self.task_early_stop_trials,
        )  # fmt: skip
        return any(limit is not None for limit in limits)

    @property
    def worth_stopping(self) -> float:
        """``stop_below``, or what stands for None; 0: a run is never stopped for that."""
        if self.stop_below is None:
            return 0.0 if self.budget_s is None else STOP_BELOW
        return self.stop_below

    @property
    def emulated(self) -> TuneOptions:
        """These options where all trials are on an emulated device: first batches are small."""
        trial_s = max(self.scheduler.trial_s, EMULATED_TRIAL_S)
        return replace(self, scheduler=replace(self.scheduler, trial_s=trial_s))

    def reserve_s(self, timed: int) -> float:
        """Seconds of the budget that are kept for re-timing the leaders of so many tasks."""
        if not self.leaders:
            return 0.0
        budget_s = math.inf if self.budget_s is None else self.budget_s
        return min(self.retiming_s * timed, self.retiming_share * budget_s)

    def unless_limited(self, trials: int | None = None, budget: str | None = None) -> TuneOptions:
        """These options, with other limits where they have neither trials nor a time."""
        free = self.trials is None and self.budget_s is None
        return self.overridden(trials, budget) if free else self

    def overridden(
        self,
        trials: int | None = None,
        budget: str | float | None = None,
        seed: int | None = None,
        extra_features: Sequence[ExtraFeature] | None = None,
        accuracy: Accuracy | None = None,
    ) -> TuneOptions:
        """These options with other values of what callers name most; what is None stays.

        Args:
            trials: measured candidates over all tasks.
            budget: time, in seconds or as "10m".
            seed: of all random choices.
            extra_features: functions of the nest's columns.
            accuracy: of the algorithms that are searched.
        """
        search = self.search
        if extra_features is not None:
            check_tuple("extra_features", extra_features)
            search = replace(search, extra_features=tuple(extra_features))
        budget_s = self.budget_s if budget is None else parse_budget(budget)
        return replace(
            self,
            trials=self.trials if trials is None else trials,
            budget_s=budget_s,
            seed=self.seed if seed is None else seed,
            search=search,
            accuracy=self.accuracy if accuracy is None else accuracy,
        )


def options_or_default(options: TuneOptions | None) -> TuneOptions:
    """What a caller gave, or the defaults for None; raises OptionError for anything else."""
    if options is None:
        return TuneOptions()
    if not isinstance(options, TuneOptions):
        raise OptionError(
            f"{type(options).__name__} is no TuneOptions", hint="give TuneOptions(...) or None"
        )
    return options


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
    contenders=24,
    search=SearchOptions(population=6400, generations=6, batch_trials=64),
)
PRESETS: Final = {"quick": QUICK, "default": DEFAULT, "thorough": THOROUGH}
