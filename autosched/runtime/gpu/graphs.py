"""Graphs that were captured, the ones that were used last."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from codegen.gpu.protocol import DeviceEvent, DeviceGraph

# A caller that reuses its arrays needs one graph for each part of the program, one with a few
# buffers in turn some more; a graph of a large network takes about a megabyte.
_MOST_GRAPHS: Final = 64


@dataclass(frozen=True, slots=True)
class StepMark:
    """One execution of a step in a captured graph: what is recorded before it and after it."""

    step: int
    before: DeviceEvent
    after: DeviceEvent


@dataclass(frozen=True, slots=True)
class Captured:
    """A graph; ``marks``: of its executions, where they are timed."""

    graph: DeviceGraph
    marks: tuple[StepMark, ...] = ()


class Graphs:
    """Captured graphs by what they depend on."""

    def __init__(self) -> None:
        self._kept: OrderedDict[Hashable, Captured] = OrderedDict()

    def get(self, key: Hashable, capture: Callable[[], Captured]) -> Captured:
        """The graph of ``key``, captured now unless it is known."""
        found = self._kept.get(key)
        if found is None:
            found = self._kept[key] = capture()
            if len(self._kept) > _MOST_GRAPHS:
                self._kept.popitem(last=False)[1].graph.close()
        self._kept.move_to_end(key)
        return found

    def close(self) -> None:
        """Give all of them back."""
        while self._kept:
            self._kept.popitem()[1].graph.close()
