"""What to compile where nothing was measured: first the variants that the draft is sure of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

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
        candidate: the best of its variant by the draft model.
        share: its draft seconds over those of the best candidate of the reference, which has 1.
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
    written = Predicted(draft_candidate(task, quick))
    if not variants or len(task.variants) == 1:
        return (written,)
    others = sorted(_others(task), key=lambda item: item.share)
    return (*(item for item in others if item.share < SURE_BELOW), written)


def _others(task: TaskSpec) -> list[Predicted]:
    """The best candidate of each variant but the reference."""
    try:
        space = build_space(task.variants[1:], task.target, task.rules)
    except AutoschedError:  # no row fits the machine, or none of a user's rules knows the program
        return []
    reference_s = float(reference_space(task).drafts[0][0])
    found: dict[str, Predicted] = {}
    for sketch, rows, drafts in zip(space.sketches, space.samples, space.drafts, strict=True):
        share = float(drafts[0]) / reference_s
        found.setdefault(sketch.variant, Predicted(Candidate(sketch, rows.row(0)), share))
    return list(found.values())
