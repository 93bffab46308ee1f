"""The protocol of search policies: ``ask`` for candidates, ``tell`` what became of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from autosched.measure.result import MeasureResult
from autosched.tasks.candidate import Candidate


@runtime_checkable
class SearchPolicy(Protocol):
    """Proposes candidates of one task.

    A policy is deterministic: constructed with an equal generator and told equal results, it asks
    for the same candidates in the same order, in another process too.
    """

    def ask(self, count: int) -> list[Candidate]:
        """At most ``count`` candidates, each feasible and never asked for or told before.

        Fewer than ``count`` when the space has not got more; an empty list means that the policy
        has nothing left to propose.
        """
        ...

    def tell(self, candidates: Sequence[Candidate], results: Sequence[MeasureResult]) -> None:
        """Results of candidates, one each: asked for, or known from a log."""
        ...
