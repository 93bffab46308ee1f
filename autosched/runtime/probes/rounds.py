"""Whether rounds that measured the same are to be believed: others only take time away.

So the best rounds are right on a noisy machine, too, if some of them were left alone; then they
agree with each other.  Programs that run all the time slow all rounds alike, and agreement says
nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from autosched.system.stability import MOST_OTHERS, Conditions, share

LEAST_ROUNDS: Final = 3
"""The best ones, which have to agree."""
_AGREE: Final = 0.05  # how far they may differ, relative to the best


@dataclass(frozen=True, slots=True)
class Round:
    """Quantities that were measured once, by name, and what the machine did besides."""

    values: Mapping[str, float]
    conditions: Conditions


@dataclass(frozen=True, slots=True)
class Best:
    """What rounds say together.

    Attributes:
        values: of the best round, for each quantity its own.
        spread: how far the best three rounds differ, relative to the best.
        doubt: why they are not to be believed; empty where they are.
    """

    values: Mapping[str, float]
    spread: Mapping[str, float]
    doubt: str


def best_of(rounds: Sequence[Round], costs: Collection[str]) -> Best:
    """The best of at least ``LEAST_ROUNDS`` rounds; ``costs``: what is best if it is small."""
    names = rounds[0].values
    ordered = {
        name: sorted((each.values[name] for each in rounds), reverse=name not in costs)
        for name in names
    }
    spread = {name: _spread(values) for name, values in ordered.items()}
    doubts = filter(None, (_busy(rounds), _disagreement(spread)))
    return Best({name: values[0] for name, values in ordered.items()}, spread, ", ".join(doubts))


def _spread(ordered: Sequence[float]) -> float:
    best, last = ordered[0], ordered[LEAST_ROUNDS - 1]
    return abs(last - best) / best if best > 0 else 0.0  # nothing is known of it


def _busy(rounds: Sequence[Round]) -> str:
    """Whether other programs of this machine ran in every round."""
    least = min(each.conditions.others or 0.0 for each in rounds)
    return "other programs ran all the time" if least > MOST_OTHERS else ""


def _disagreement(spread: Mapping[str, float]) -> str:
    worst = max(spread, key=lambda name: spread[name])
    if spread[worst] <= _AGREE:
        return ""
    return f"{worst} differs by {share(spread[worst])} among its best {LEAST_ROUNDS} rounds"
