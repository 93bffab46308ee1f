"""What callers of ``tune`` may ask for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from os import PathLike
from typing import TYPE_CHECKING

from autosched.tuning.objectives import Objective, weighted_sum
from autosched.tuning.options import TuneOptions

if TYPE_CHECKING:
    from autosched.measure.protocol import Runner
    from autosched.report.callbacks import Callback
    from autosched.report.events import Progress
    from costmodel.model import CostModel


@dataclass(frozen=True, slots=True, eq=False)
class TuneRequest:
    """A tuning run as its caller describes it.

    Attributes:
        log: every trial is appended to it; what it has already counts.
        trials, budget, seed: override the fields of ``options``; None: they stand.
        options: how to search.
        progress: who is shown how far it is; None: whoever fits.
        quiet: show nobody.
        skip_tuned: only tasks without a record in the log.
        objective: what to minimise, see ``objectives``.
        cost_model: learns over all tasks; None: gradient-boosted trees.
        callbacks: who is told of every batch.
        runner: measures instead of this machine; None: this machine does.
    """

    log: str | PathLike[str] | None = None
    trials: int | None = None
    budget: str | float | None = None
    seed: int | None = None
    options: TuneOptions = field(default_factory=TuneOptions)
    progress: Progress | None = None
    quiet: bool = False
    skip_tuned: bool = False
    objective: Objective = weighted_sum
    cost_model: CostModel | None = None
    callbacks: Sequence[Callback] = ()
    runner: Runner | None = None

    def limited(self, trials: int | None = None, budget: str | None = None) -> TuneOptions:
        """The options with all that overrides them, and these limits where there is none at all."""
        chosen = self.options.with_budget(self.trials, self.budget)
        if chosen.trials is None and chosen.budget_s is None:
            chosen = chosen.with_budget(trials, budget)
        return chosen if self.seed is None else replace(chosen, seed=self.seed)
