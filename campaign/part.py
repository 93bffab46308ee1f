"""A part of the campaign: how its cases are drawn, judged and made smaller."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Protocol, cast

from campaign.verdict import Json, Verdict

# Tells the parent what is going on, so that a death can be understood: "kernel" is generated code.
Mark = Callable[[str], None]
KERNEL = "kernel"


class Part(Protocol):
    """One kind of attack.  Cases are JSON, so that one that fails can be kept and replayed."""

    def draw(self, seed: int) -> Json:
        """The case of a seed: all that ``judge`` needs, and the same on every machine."""
        ...

    def judge(self, case: Json, mark: Mark) -> Verdict:
        """Run the case in this process, which may die of it."""
        ...

    def smaller(self, case: Json) -> Iterator[Json]:
        """Cases that are a little simpler, the most promising first."""
        ...


@dataclass(frozen=True, slots=True)
class Entry:
    """A part as the campaign plans it.

    Attributes:
        name: on the command line and in reports.
        title: what its cases are, in the plural.
        place: ``module:value`` of the Part; imported only where its cases run.
        share: of the time, relative to the other parts.
        goal: counts that a full campaign reaches; parts below their goal go first.
        limit_s: a case that takes longer hangs.
        batch: cases that a child process runs one after another.
        needs: packages without which the part is left out.
    """

    name: str
    title: str
    place: str
    share: float
    goal: Mapping[str, int]
    limit_s: float
    batch: int
    needs: tuple[str, ...] = ()

    def missing(self) -> list[str]:
        """The packages that the part needs and that are not installed."""
        return [name for name in self.needs if find_spec(name) is None]

    def load(self) -> Part:
        """Import the part."""
        module, _, value = self.place.partition(":")
        return cast(Part, getattr(import_module(module), value))
