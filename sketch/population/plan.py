"""The plan of a replay: the operations of a tape in an order and in slots that need little memory.

An operation on the numbers of some hundred programs takes less than a microsecond as long as its
arrays are in the caches.  So every value is given up after its last use, and a result is handed
out as soon as it is known: a few hundred arrays serve thousands of operations.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from sketch.population.tape import Tape

# The largest block for which the GNU C library lets ``free`` raise its limits: 32 MiB, less what it
# adds.
_LARGEST_BLOCK: Final = 2**25 - 2**13


@dataclass(frozen=True, slots=True, eq=False)
class ReplayPlan:
    """``slots[target] = function(*(slots[s] for s in sources))``, operation by operation.

    Attributes:
        functions, sources, targets: of all operations.
        slots: what they hold before the first operation.
        inputs: how many of the slots, the first, are the arrays to replay for.
        stops: (operations since the last stop, slot of a result, where the tape wants it).
    """

    functions: tuple[Callable[..., Any], ...]
    sources: tuple[tuple[int, ...], ...]
    targets: tuple[int, ...]
    slots: tuple[Any, ...]
    inputs: int
    stops: tuple[tuple[int, int, tuple[int, ...]], ...]

    def run(self, arrays: Sequence[NDArray[Any]]) -> Iterator[tuple[int, Any]]:
        """(place, value) of every result, in the order of the operations.

        Raises:
            ValueError: another number of arrays than was recorded.
        """
        if len(arrays) != self.inputs:
            raise ValueError(f"{len(arrays)} arrays for a tape of {self.inputs}")
        slots = [*arrays, *self.slots[self.inputs :]]
        operations = zip(self.functions, self.sources, self.targets, strict=True)
        for count, result, places in self.stops:
            for function, sources, target in islice(operations, count):
                if len(sources) == 2:
                    a, b = sources
                    slots[target] = function(slots[a], slots[b])
                else:
                    slots[target] = function(*[slots[s] for s in sources])
            for place in places:
                yield place, slots[result]


def plan_of(tape: Tape) -> ReplayPlan:
    """The plan of a tape's results that are not fixed: operations that none needs are left out."""
    _keep_freed_memory()
    wanted: dict[int, list[int]] = {}
    for place, result in enumerate(tape.results):
        if result.slot is not None:
            wanted.setdefault(result.slot, []).append(place)
    kept, last = _needed(tape, wanted)
    made = set(tape.targets)
    # Inputs, and constants that are read.
    held = [*tape.inputs, *sorted(last.keys() - made - set(tape.inputs))]
    home = {slot: n for n, slot in enumerate(held)}
    stops = [(0, home[slot], tuple(places)) for slot, places in wanted.items() if slot in home]
    sources: list[tuple[int, ...]] = []
    free: list[int] = []
    count, done = len(held), 0
    for number, n in enumerate(kept, start=1):
        sources.append(tuple([home[slot] for slot in tape.sources[n]]))
        free += [home[slot] for slot in {*tape.sources[n]} if last[slot] == n and slot in made]
        if not free:
            free.append(count)
            count += 1
        target = tape.targets[n]
        place = home[target] = free.pop()
        if target in wanted:
            stops.append((number - done, place, tuple(wanted[target])))
            done = number
            if target not in last:
                free.append(place)
    return ReplayPlan(
        functions=tuple([tape.functions[n] for n in kept]),
        sources=tuple(sources),
        targets=tuple([home[tape.targets[n]] for n in kept]),
        slots=(*(tape.constants[slot] for slot in held), *[None] * (count - len(held))),
        inputs=len(tape.inputs),
        stops=tuple(stops),
    )


def _needed(tape: Tape, wanted: Container[int]) -> tuple[list[int], dict[int, int]]:
    """(operations that the slots ``wanted`` need, the last one that reads each slot)."""
    last: dict[int, int] = {}
    kept: list[int] = []
    for n in range(len(tape.targets) - 1, -1, -1):
        target = tape.targets[n]
        if target in last or target in wanted:
            kept.append(n)
            for slot in tape.sources[n]:
                last.setdefault(slot, n)
    return kept[::-1], last


@cache
def _keep_freed_memory() -> None:
    """Let the C library keep what is freed, up to 64 MiB, instead of handing it back at once.

    Else each replay gets its memory page by page from the system, which takes as long as the
    operations.  Once a large block is freed, the GNU C library expects more of its size; elsewhere
    this does nothing.
    """
    np.empty(_LARGEST_BLOCK, dtype=np.uint8)
