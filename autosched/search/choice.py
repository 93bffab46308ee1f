"""The policy that the options name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

import numpy as np

from autosched.search.evolutionary import EvolutionaryPolicy
from autosched.search.genetic import GeneticPolicy
from autosched.search.grid import GridPolicy
from autosched.search.measured import Measured
from autosched.search.options import SearchOptions
from autosched.search.own_policy import OwnPolicy
from autosched.search.policy import SearchPolicy
from autosched.search.random_search import RandomPolicy
from autosched.search.scorer import Scorer
from autosched.search.space import Space
from autosched.tasks.candidate import Candidate


def make_policy(
    space: Space,
    scorer: Scorer,
    rng: np.random.Generator,
    options: SearchOptions,
    measured: Measured,
    seeds: Sequence[Candidate] = (),
) -> SearchPolicy:
    """A fresh policy of one task.

    Args:
        space: sketches of the task.
        scorer: ranks rows by what the run's cost model has learned.
        rng: source of everything random.
        options: ``options.policy`` is a name, or a function that makes the user's own policy.
        measured: what is known of the task; the policy must remember there what it asks for.
        seeds: candidates to propose first, where the policy does that.
    """
    match options.policy:
        case "evolutionary":
            return EvolutionaryPolicy(space, scorer, rng, options, measured, seeds)
        case "genetic":
            return GeneticPolicy(space, rng, options, measured)
        case "random":
            return RandomPolicy(space, rng, measured)
        case "grid":
            return GridPolicy(space, measured)
        case str() as unknown:
            assert_never(unknown)
        case factory:
            return OwnPolicy(lambda: factory(space, scorer, rng, measured))


def uses_model(options: SearchOptions) -> bool:
    """Whether what is measured should be learned; a user's own policy may look at the scorer."""
    return options.policy not in ("genetic", "random", "grid")
