"""Options of one round of the search of one task."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal

from autosched.search.space_options import SpaceOptions
from autosched.system.errors import OptionError
from autosched.system.limits import check_kinds, check_number, check_tuple
from costmodel.extra_feature import ExtraFeature, extra_names
from costmodel.gbdt_options import GbdtOptions

if TYPE_CHECKING:
    import numpy as np

    from autosched.search.measured import Measured
    from autosched.search.policy import SearchPolicy
    from autosched.search.scorer import Scorer
    from autosched.search.space import Space

PolicyName = Literal["evolutionary", "genetic", "random", "grid"]
PolicyFactory = Callable[["Space", "Scorer", "np.random.Generator", "Measured"], "SearchPolicy"]
"""(space, scorer, rng, measured) -> the user's own policy of one task; see ``search.policy``."""

# Children bred for each one wanted: beyond it, breeding takes longer than measuring.
_MOST_SPARE: Final = 1000
# Of ratios, as a power or a factor: beyond it, shares are 0 or infinite.
_MOST_POWER: Final = 100

POLICIES: Final = ("evolutionary", "genetic", "random", "grid")


@dataclass(frozen=True, slots=True)
class EvolutionOptions:
    """How the evolutionary policy makes its generations and its batches.

    Attributes:
        draft_share: part of the first generation that comes from the samples the draft model likes
            best.
        rows_a_trial: rows a generation for each candidate wanted, up to the population: thinking
            about a batch should not take longer than measuring it.
        curiosity: share of the first batch that explores.
        curious_trials: successes after which that share has halved; after twice as many it is a
            third, and so on.
        good: exploring draws from the best one in so many samples.
        quota: a sketch may fill this many times its share of a batch.
        pressure: parents are drawn with probability exp(-rank / (pressure * rows)).
        elite_share: best rows of all generations so far that may be parents again, of ``rows``.
        spare: children bred for each one wanted: some are known, some are not feasible.
        distance: decisions in which two rows of a batch differ at least, unless there is nothing
            else: one step away measures almost the same.
    """

    draft_share: float = 0.25
    rows_a_trial: int = 100
    curiosity: float = 0.15
    curious_trials: int = 24
    good: int = 2
    quota: float = 2.0
    pressure: float = 0.15
    elite_share: float = 0.25
    spare: float = 1.75
    distance: int = 2

    def __post_init__(self) -> None:
        check_kinds(self)
        for name in ("draft_share", "curiosity", "pressure", "elite_share"):
            check_number(name, getattr(self, name), 0, 1)
        for name in ("rows_a_trial", "curious_trials", "good", "quota"):
            check_number(name, getattr(self, name), 1, math.inf)
        check_number("spare", self.spare, 1, _MOST_SPARE)
        check_number("distance", self.distance, 0, math.inf)


@dataclass(frozen=True, slots=True)
class GeneticOptions:
    """How the genetic policy chooses parents.

    Attributes:
        founders: successes before there are children.
        parents: most candidates that may be parents, the fastest.
        decay: ranks over which a parent's share of the children falls by a factor of e.
        spare: children bred for each one wanted.
    """

    founders: int = 16
    parents: int = 32
    decay: float = 8.0
    spare: int = 8

    def __post_init__(self) -> None:
        check_kinds(self)
        for name in ("founders", "parents", "decay"):
            check_number(name, getattr(self, name), 1, math.inf)
        check_number("spare", self.spare, 1, _MOST_SPARE)


@dataclass(frozen=True, slots=True)
class BanditOptions:
    """What share of the rows and of the trials each sketch gets.

    Attributes:
        sharpness: a sketch at 80 % of the best speed gets 0.8 ** sharpness of the best one's share.
        optimism: what more trials of a sketch that had few may still gain, as a share.
        draft_trust: the draft model tells sketches apart only roughly: its ratios count with this
            power.
        failed: promise of a sketch without a success, relative to the best one's.
        variant_trials: trials that each variant gets at least, unless it is known to be slower.
        variant_doubt: chance that it is not, where it is said to be known.
        variant_share: part of a batch that goes to such variants at most; half of it where so many
            have never been tried.
        variant_rows: samples of such a variant that are scored: the draft's best ones.
    """

    sharpness: float = 6.0
    optimism: float = 0.35
    draft_trust: float = 0.5
    failed: float = 0.3
    variant_trials: int = 16
    variant_doubt: float = 0.2
    variant_share: float = 0.25
    variant_rows: int = 128

    def __post_init__(self) -> None:
        check_kinds(self)
        for name in ("sharpness", "optimism", "draft_trust"):
            check_number(name, getattr(self, name), 0, _MOST_POWER)
        check_number("variant_trials", self.variant_trials, 0, math.inf)
        check_number("variant_rows", self.variant_rows, 1, math.inf)
        check_number("variant_doubt", self.variant_doubt, 1 / _MOST_POWER, 1)
        check_number("variant_share", self.variant_share, 0, 1)
        check_number("failed", self.failed, 1e-6, 1)


@dataclass(frozen=True, slots=True)
class FinishOptions:
    """Coordinate descent from the best measured candidates, the last part of a run.

    Attributes:
        centres: candidates that it starts from, fastest first: the next when one has nothing left.
        neighbours: a centre is left when so many of its neighbours, best-scored first, were no
            better.
        hops: most places that a decision moves up or down its choices.
    """

    centres: int = 4
    neighbours: int = 48
    hops: int = 2

    def __post_init__(self) -> None:
        check_kinds(self)
        for name in ("centres", "neighbours", "hops"):
            check_number(name, getattr(self, name), 1, math.inf)


@dataclass(frozen=True, slots=True)
class LearnerOptions:
    """When the cost model learns, and how far it is trusted.

    Attributes:
        foreign: a measurement of another task teaches this much of what one of the task itself
            does.
        growth: the model is updated when there is this much more data: after every batch while they
            are few, later so that learning stays cheaper than the batch it follows.
        defer: programs learned from which on the last batch may wait to be learned until the next
            one is being compiled.
        draft: whether the draft model ranks, too; else, as long as nothing is learned, chance does.
        process: whether a Gaussian process over the decisions of each task ranks, too, where the
            model leaves it a share (``GbdtOptions.process_share``).
    """

    foreign: float = 0.05
    growth: float = 0.5
    defer: int = 256
    draft: bool = True
    process: bool = True

    def __post_init__(self) -> None:
        check_kinds(self)
        check_number("foreign", self.foreign, 0, 1)
        for name in ("growth", "defer"):
            check_number(name, getattr(self, name), 0, math.inf)


@dataclass(frozen=True, slots=True)
class SearchOptions:
    """One round of the search of one task.

    Attributes:
        policy: "evolutionary" (by the cost model); without a model "genetic" (evolution by what was
            measured), "random", or "grid" (every row in a fixed order); or a function that makes
            a policy of your own.
        population: most rows a generation, over all sketches of the task; ``evolution`` bounds them
            for small batches.
        generations: generations after the first population.
        mutation_probability: share of the children that are mutated; the others are crossed.
        epsilon: share of the measured batch that is drawn at random.
        batch_trials: largest number of candidates measured at once.
        measured_share: largest share of the first population that is taken from measured rows.
        sketch_rows: rows a generation that a sketch gets, unless it gets none: below that, the
            fixed cost of lowering outweighs the rows.
        transferred: candidates that a task which nothing is known of begins with: the best of the
            nearest other tasks, rescaled; 0: none.
        model_trials: measured candidates of the task at which the learned model and the draft
            model weigh the same in the ranking.
        space: which sketches of a task are searched.
        evolution: what else the evolutionary policy goes by.
        genetic: what else the genetic policy goes by.
        bandit: how the sketches of a task share its trials.
        finish: the last part of a run.
        learner: when the cost model learns, and how far it is trusted.
        gbdt: gradient-boosted trees, where no other cost model is given; the seed is that of the
            run.
        extra_features: that the cost model gets beside those of its table.
    """

    policy: PolicyName | PolicyFactory = "evolutionary"
    population: int = 3200
    generations: int = 3
    mutation_probability: float = 0.85
    epsilon: float = 0.02
    batch_trials: int = 32
    measured_share: float = 0.2
    sketch_rows: int = 384
    transferred: int = 2
    model_trials: int = 4
    space: SpaceOptions = field(default_factory=SpaceOptions)
    evolution: EvolutionOptions = EvolutionOptions()
    genetic: GeneticOptions = GeneticOptions()
    bandit: BanditOptions = BanditOptions()
    finish: FinishOptions = FinishOptions()
    learner: LearnerOptions = LearnerOptions()
    gbdt: GbdtOptions = field(default_factory=GbdtOptions)
    extra_features: tuple[ExtraFeature, ...] = ()

    def __post_init__(self) -> None:
        check_kinds(self)
        if not callable(self.policy) and self.policy not in POLICIES:
            raise OptionError(f"policy {self.policy!r} is unknown", hint=f"one of {POLICIES}")
        check_tuple("extra_features", self.extra_features)
        extra_names(self.extra_features)
        for name in ("population", "batch_trials", "sketch_rows"):
            check_number(name, getattr(self, name), 1, math.inf)
        for name in ("generations", "model_trials", "transferred"):
            check_number(name, getattr(self, name), 0, math.inf)
        for name in ("mutation_probability", "epsilon", "measured_share"):
            check_number(name, getattr(self, name), 0, 1)
