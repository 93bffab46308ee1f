"""Which features drive what a model predicts: SHAP values, in groups that people have names for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from costmodel.feature_table import FEATURES
from costmodel.features import Features

GROUP_NAMES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "computation": "amount of arithmetic",
        "annotation": "vector, unrolled and parallel loops",
        "buffer": "reads and writes",
        "intensity": "arithmetic per byte",
        "locality": "what fits the caches",
        "allocation": "intermediate buffers",
        "structure": "structure of the loops",
        "registers": "register tile",
        "parallel": "balance of the threads",
        "validity": "tails, padding, length of code",
        "packing": "packed constants",
        "hardware": "the machine",
        "gpu": "blocks and threads of the GPU",
        "unit": "tensor units",
        "draft": "the draft model's terms",
    }
)
"""By the group of a feature, without the number of a buffer."""

OWN_FEATURES: Final = "features of your own"
ESTIMATE: Final = "the draft model's estimate"


@runtime_checkable
class Attributing(Protocol):
    """A cost model that says what each feature adds."""

    def contributions(self, features: Features) -> NDArray[np.float64]:
        """[P, F]: what each feature adds to the logarithm of the predicted time over the draft."""
        ...


@dataclass(frozen=True, slots=True)
class ScoreDriver:
    """What a group of features does to the predicted time of a program.

    Attributes:
        name: of the group, for people.
        change: relative change of the time against the mean of other programs: -0.2 is 20 % less.
        feature: that does most of it; empty for the draft's estimate as a whole.
    """

    name: str
    change: float
    feature: str


def drivers(
    model: Attributing, program: Features, others: Sequence[Features], most: int = 6
) -> tuple[ScoreDriver, ...]:
    """What drives the prediction of one program, the strongest group first.

    Args:
        model: that predicts.
        program: features of one program.
        others: of programs of the same task, which it is compared with.
        most: groups.
    """
    added = model.contributions(program)[0]
    usual = np.concatenate([model.contributions(features) for features in others])
    differences = added - usual.mean(axis=0)
    members: dict[str, list[int]] = {}
    for place in range(len(differences)):
        members.setdefault(_group_of(place), []).append(place)
    estimates = np.concatenate([np.log(f.draft_seconds()) for f in others])
    estimate = float(np.log(program.draft_seconds())[0] - estimates.mean())
    found = [(estimate, ESTIMATE, "")]
    for name, places in members.items():
        strongest = max(places, key=lambda place: abs(differences[place]))
        found.append((float(differences[places].sum()), name, program.names[strongest]))
    found.sort(key=lambda item: -abs(item[0]))
    kept = [item for item in found if item[0]][:most]
    return tuple(ScoreDriver(name, float(np.expm1(change)), best) for change, name, best in kept)


def _group_of(place: int) -> str:
    if place >= len(FEATURES):
        return OWN_FEATURES
    return GROUP_NAMES[FEATURES[place].group.rstrip("0123456789")]
