"""What to compile where nothing was measured: first the variants that are surely faster."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from autosched.search.favourite import favourites
from autosched.search.space import build_space, draft_candidate, reference_space
from autosched.tasks.candidate import Candidate
from sketch.errors import AutoschedError
from sketch.target.of_kind import of_kind
from sketch.variants import error_growth

if TYPE_CHECKING:
    from collections.abc import Sequence

    from autosched.tasks.spec import TaskSpec, Variant
    from sketch.target.target import Target, TargetKind

# A variant is tried that is predicted to take less than this part of the time of the task as it is
# written.  The best variants of 37 convolutions of three networks were within it; 36 of them were
# faster when they were measured.  Above it they were as often slower.
SURE_BELOW: Final = 0.8
# The same of GPUs, whose draft model was never compared with times of one.  Terms that are tested
# one by one, which is where variants help there, cost three times as many instructions and more.
SURE_BELOW_ON_GPUS: Final = 0.5


@dataclass(frozen=True, slots=True)
class Predicted:
    """A candidate that was never measured.

    Attributes:
        candidate: the favourite of its variant.
        share: its predicted seconds over those of the reference's favourite, which has 1.
    """

    candidate: Candidate
    share: float = 1.0


@dataclass(frozen=True, slots=True)
class _Trust:
    """In what the model predicts of other forms of a task, for one kind of machine.

    Attributes:
        kind: of machine.
        below: the share of the time of the task as it is written that they must be within.
        unmeasured: they may be taken where nobody measures their errors, if they round no more
            than the task as it is written.
    """

    kind: TargetKind
    below: float
    unmeasured: bool


def _trust(target: Target) -> _Trust:
    known = (_Trust("cpu", SURE_BELOW, False), _Trust("cuda", SURE_BELOW_ON_GPUS, True))
    return of_kind(target, known)


def predictable(task: TaskSpec, errors_are_measured: bool) -> tuple[Variant, ...]:
    """The other forms of a task that may be compiled without a record.

    Args:
        task: what is compiled.
        errors_are_measured: a kernel runs when it is compiled, and the next one is taken where its
            errors are beyond the budget.

    Returns:
        Where they are not measured, for a GPU: those that round no more than the task as it is
        written; for a CPU none.
    """
    others = task.variants[1:]
    if errors_are_measured:
        return others
    if not _trust(task.target).unmeasured:
        return ()
    return tuple(variant for variant in others if error_growth(variant.name) <= 1.0)


def predicted(
    task: TaskSpec, quick: bool = False, variants: Sequence[Variant] | None = None
) -> tuple[Predicted, ...]:
    """Candidates to compile, in turn, if the ones before are refused; the reference is the last.

    Args:
        task: what is compiled.
        quick: the draft model sees few candidates of the reference.
        variants: the forms, other than as it is written, that it may be computed in; None: all.
    """
    if quick:
        return (Predicted(draft_candidate(task, quick)),)
    reference = next(iter(favourites(reference_space(task), task.target).values()))
    written = Predicted(reference.candidate)
    others = task.variants[1:] if variants is None else variants
    if not others:
        return (written,)
    found = sorted(_drafted(task, others, reference.seconds), key=lambda item: item.share)
    return (*(item for item in found if item.share < _trust(task.target).below), written)


def _drafted(task: TaskSpec, variants: Sequence[Variant], reference_s: float) -> list[Predicted]:
    """The favourite of each variant, where that of the reference takes ``reference_s``."""
    try:
        space = build_space(variants, task.target, task.rules)
    except AutoschedError:  # no row fits the machine, or none of a user's rules knows the program
        return []
    found = favourites(space, task.target).values()
    return [Predicted(item.candidate, item.seconds / reference_s) for item in found]
