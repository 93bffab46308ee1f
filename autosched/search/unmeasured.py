"""What to compile where nothing was measured: first the variants that are surely faster."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from autosched.search.favourite import favourites
from autosched.search.space import build_space, draft_candidate, reference_space
from autosched.tasks.candidate import Candidate
from sketch.errors import AutoschedError

if TYPE_CHECKING:
    from autosched.tasks.spec import TaskSpec

# A variant is tried that is predicted to take less than this part of the time of the task as it is
# written.  The best variants of 37 convolutions of three networks were within it; 36 of them were
# faster when they were measured.  Above it they were as often slower.
SURE_BELOW: Final = 0.8


@dataclass(frozen=True, slots=True)
class Predicted:
    """A candidate that was never measured.

    Attributes:
        candidate: the favourite of its variant.
        share: its predicted seconds over those of the reference's favourite, which has 1.
    """

    candidate: Candidate
    share: float = 1.0


def predicted(task: TaskSpec, quick: bool = False, variants: bool = True) -> tuple[Predicted, ...]:
    """Candidates to compile, in turn, if the ones before are refused; the reference is the last.

    Args:
        task: what is compiled.
        quick: the draft model sees few candidates of the reference.
        variants: the task may be computed in another way than it is written.
    """
    if quick:
        return (Predicted(draft_candidate(task, quick)),)
    reference = next(iter(favourites(reference_space(task), task.target).values()))
    written = Predicted(reference.candidate)
    if not variants or len(task.variants) == 1:
        return (written,)
    others = sorted(_others(task, reference.seconds), key=lambda item: item.share)
    return (*(item for item in others if item.share < SURE_BELOW), written)


def _others(task: TaskSpec, reference_s: float) -> list[Predicted]:
    """The favourite of each variant but the reference, whose own takes ``reference_s``."""
    try:
        space = build_space(task.variants[1:], task.target, task.rules)
    except AutoschedError:  # no row fits the machine, or none of a user's rules knows the program
        return []
    found = favourites(space, task.target).values()
    return [Predicted(item.candidate, item.seconds / reference_s) for item in found]
