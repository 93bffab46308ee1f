"""The plan of a replay: the operations of a tape in an order and in slots that need little memory.

An operation on the numbers of some hundred programs takes less than a microsecond as long as its
arrays are in the caches.  So every value is given up after its last use, and a result is handed
out as soon as it is known: a few hundred arrays serve thousands of operations.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
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
_EXTREMES: Final = frozenset((np.minimum, np.maximum))


@dataclass(frozen=True, slots=True, eq=False)
class ReplayPlan:
    """``slots[target] = function(*(slots[s] for s in sources))``, operation by operation.

    Attributes:
        functions, sources, targets: of all operations; ``sources`` are empty where there are two.
        pairs: (slot, slot) of the operations that have two sources; (0, 0) of others.
        slots: what they hold before the first operation.
        spread: slots of numbers that are wanted as an array for all programs.
        inputs: how many of the slots, the first, are the arrays to replay for.
        stops: (operations since the last stop, slot of a result, where the tape wants it).
    """

    functions: tuple[Callable[..., Any], ...]
    sources: tuple[tuple[int, ...], ...]
    pairs: tuple[tuple[int, int], ...]
    targets: tuple[int, ...]
    slots: tuple[Any, ...]
    spread: tuple[int, ...]
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
        for slot in self.spread:
            slots[slot] = np.full(len(arrays[0]), slots[slot])
        operations = zip(self.functions, self.sources, self.pairs, self.targets, strict=True)
        for count, result, places in self.stops:
            for function, sources, (a, b), target in islice(operations, count):
                if sources:
                    slots[target] = function(*[slots[s] for s in sources])
                else:
                    slots[target] = function(slots[a], slots[b])
            for place in places:
                yield place, slots[result]


def plan_of(tape: Tape) -> ReplayPlan:
    """The plan of a tape's results that are not fixed: operations that none needs are left out."""
    _keep_freed_memory()
    wanted: dict[int, list[int]] = {}
    for place, result in enumerate(tape.results):
        if result.slot is not None:
            wanted.setdefault(result.slot, []).append(place)
    kept, last = needed(tape, wanted)
    made = set(tape.targets)
    # Inputs, and constants that are read.
    held = [*tape.inputs, *sorted(last.keys() - made - set(tape.inputs))]
    home = {slot: n for n, slot in enumerate(held)}
    stops = [(0, home[slot], tuple(places)) for slot, places in wanted.items() if slot in home]
    sources: list[tuple[int, ...]] = []
    free: list[int] = []
    count, done = len(held), 0
    for number, n in enumerate(kept, start=1):
        read = tape.sources[n]
        sources.append(tuple([home[slot] for slot in read]))
        for slot in read:
            if last[slot] == n:
                last[slot] = -1  # it may be read twice
                if slot in made:
                    free.append(home[slot])
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
        sources=tuple([() if len(read) == 2 else read for read in sources]),
        pairs=tuple([read if len(read) == 2 else (0, 0) for read in sources]),
        targets=tuple([home[tape.targets[n]] for n in kept]),
        slots=(*(_prepared(tape.constants[slot]) for slot in held), *[None] * (count - len(held))),
        spread=_spread(tape, kept, home),
        inputs=len(tape.inputs),
        stops=tuple(stops),
    )


def _prepared(constant: Any) -> Any:
    """A float as what NumPy would make of it in every operation again."""
    return np.array(constant) if type(constant) is float else constant


def _spread(tape: Tape, kept: Sequence[int], home: Mapping[int, int]) -> tuple[int, ...]:
    """Where the floats are that some array is clipped to.

    NumPy has vector code for the extremes of two arrays, but none for those of an array and a
    number.
    """
    slots = {
        slot
        for n in kept
        if tape.functions[n] in _EXTREMES
        for slot in tape.sources[n]
        if type(tape.constants[slot]) is float
    }
    return tuple([home[slot] for slot in slots])


def needed(tape: Tape, wanted: Container[int]) -> tuple[list[int], dict[int, int]]:
    """(operations that the slots ``wanted`` need, the last one that reads each slot)."""
    last: dict[int, int] = {}
    kept: list[int] = []
    number = len(tape.targets)
    for target, read in zip(reversed(tape.targets), reversed(tape.sources), strict=True):
        number -= 1
        if target in last or target in wanted:
            kept.append(number)
            for slot in read:
                if slot not in last:
                    last[slot] = number
    return kept[::-1], last


@cache
def _keep_freed_memory() -> None:
    """Let the C library keep what is freed, up to 64 MiB, instead of handing it back at once.

    Else each replay gets its memory page by page from the system, which takes as long as the
    operations.  Once a large block is freed, the GNU C library expects more of its size; elsewhere
    this does nothing.
    """
    np.empty(_LARGEST_BLOCK, dtype=np.uint8)
