"""What is for a kind of machine, chosen by the target: the one place that looks at its kind."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, TypeVar

from sketch.target.target import Target, TargetKind


class ForKind(Protocol):
    """Something that is for one kind of machine."""

    @property
    def kind(self) -> TargetKind:
        """Which kind."""
        ...


T = TypeVar("T", bound=ForKind)


def of_kind(target: Target, choices: Iterable[T]) -> T:
    """The one of ``choices``, one for every kind, that is for the kind of ``target``."""
    return next(choice for choice in choices if choice.kind == target.kind)
