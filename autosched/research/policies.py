"""Ways to search, by name: ours, others', and ours with one of its parts switched off.

All of them are options of one and the same search; nothing is implemented twice.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Any, Final

from autosched.search.options import POLICIES
from autosched.tuning.options import TuneOptions

Change = Callable[[TuneOptions], TuneOptions]
"""From the options of a comparison to those of one of its settings."""

# More than any batch: a sketch may fill one alone.
_NO_QUOTA: Final = 1e6


def _searching(options: TuneOptions, **fields: Any) -> TuneOptions:
    """With other fields of the search."""
    return replace(options, search=replace(options.search, **fields))


def _evolving(options: TuneOptions, **fields: Any) -> TuneOptions:
    """With other fields of the evolutionary policy."""
    return _searching(options, evolution=replace(options.search.evolution, **fields))


def _without_draft(options: TuneOptions) -> TuneOptions:
    """The draft model neither ranks rows nor sketches, nor do the trees correct it.

    It has still chosen the sketches of the space.
    """
    search = options.search
    options = _evolving(options, draft_share=0.0, good=1)
    return _searching(
        options,
        learner=replace(search.learner, draft=False),
        gbdt=replace(search.gbdt, on_draft=False),
        bandit=replace(search.bandit, draft_trust=0.0),
    )


def _without_process(options: TuneOptions) -> TuneOptions:
    """The trees, or the model that is compared, rank without a process over the decisions."""
    return _searching(options, learner=replace(options.search.learner, process=False))


def _without_bandit(options: TuneOptions) -> TuneOptions:
    """All sketches get the same share of the rows and of the trials."""
    bandit = replace(options.search.bandit, sharpness=0.0)
    return _searching(options, bandit=bandit, sketch_rows=1)


def _ansor(options: TuneOptions) -> TuneOptions:
    """Ansor's policy (OSDI'20, section 5, with the settings of its authors) on our sketches.

    Rows of all sketches alike, evolved for four generations under a model that begins with nothing
    and knows no draft; a twentieth of the batch at random; no part of the budget for neighbours.
    """
    options = _without_process(_without_bandit(_without_draft(options)))
    options = replace(options, finish_share=0.0)
    options = _evolving(options, curiosity=0.0, quota=_NO_QUOTA, distance=0, elite_share=0.0)
    return _searching(
        options,
        population=2048,
        generations=4,
        mutation_probability=0.85,
        epsilon=0.05,
        measured_share=0.2,
        model_trials=0,
        transferred=0,
    )


PARTS: Final[Mapping[str, Change]] = MappingProxyType(
    {
        "draft model": _without_draft,
        "draft samples": partial(_evolving, draft_share=0.0),
        "bandit": _without_bandit,
        "process": _without_process,
        "curiosity": partial(_evolving, curiosity=0.0),
        "distance": partial(_evolving, distance=0),
        "evolution": partial(_searching, generations=0),
        "crossover": partial(_searching, mutation_probability=1.0),
        "measured parents": partial(_searching, measured_share=0.0),
        "chance": partial(_searching, epsilon=0.0),
        "other tasks": partial(_searching, transferred=0),
        "finish": partial(replace, finish_share=0.0),
    }
)
"""Parts of the evolutionary search, each with the options that switch it off."""

_NAMED: Final[Mapping[str, Change]] = MappingProxyType(
    {
        **{name: partial(_searching, policy=name) for name in POLICIES},
        "ansor": _ansor,
        **{f"without {part}": change for part, change in PARTS.items()},
    }
)
POLICY_NAMES: Final = tuple(_NAMED)
"""What ``compare`` knows: the policies of ``SearchOptions``, ``ansor``, and ``without`` a part."""


def named_policy(name: str) -> Change:
    """The options of a policy of ``POLICY_NAMES``."""
    return _NAMED[name]
