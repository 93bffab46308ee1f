"""Values that take the places of others, which their kernels read for the last time.

What a kernel has just read is in the first cache of the thread that read it, so that its result
need not bring other memory there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from autosched.runtime.wiring import Call

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet

    from autosched.runtime.wiring import Wiring

Lifetimes = Mapping[str, tuple[int, int]]


def overwritten(wiring: Wiring, lifetimes: Lifetimes, placed: AbstractSet[str]) -> dict[str, str]:
    """By value, the one that lies in its place before; of a chain of them, the first.

    Loops are left out: what a value is replaced by may be read again in the next iteration.

    Args:
        wiring: the calls, and the sizes of values.
        lifetimes: of the values that are no parts, see ``lifetimes_of``.
        placed: values that are to be placed.
    """
    found: dict[str, str] = {}
    for number, call in enumerate(wiring.calls):
        if not isinstance(call, Call) or wiring.loop_of(number) is not None:
            continue
        dying = [v for v in _replaceable(wiring, call) if v in placed and lifetimes[v][1] == number]
        for result in call.written:
            if result not in placed or lifetimes[result][0] != number:
                continue
            before = [value for value in dying if wiring.sizes[value] == wiring.sizes[result]]
            if before:
                latest = max(before, key=lambda value: lifetimes[value][0])
                found[result] = found.get(latest, latest)
    return found


def _replaceable(wiring: Wiring, call: Call) -> list[str]:
    """The values that a kernel's output may take the place of: whatever is read of them is read
    through arguments that allow it.
    """
    pairs = zip(call.kernel.arguments, call.values, strict=True)
    found = [value for argument, value in pairs if argument.name in call.kernel.overwrites]
    homes = [wiring.home(value) for value in call.read]
    return [value for value in found if homes.count(value) == found.count(value)]
