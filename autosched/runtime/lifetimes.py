"""From which step to which step every value must be kept."""

from __future__ import annotations

from autosched.runtime.errors import AssemblyError
from autosched.runtime.program import RepeatedSteps
from autosched.runtime.wiring import Wiring


def lifetimes_of(wiring: Wiring) -> dict[str, tuple[int, int]]:
    """First and last step of every value that is no part; inputs and constants live elsewhere.

    What enters a loop, and what its iterations leave behind, lives as long as the whole loop.

    Raises:
        AssemblyError: a call reads what nobody wrote, or a value is written twice.
    """
    found = _Lifetimes(wiring)
    for number, call in enumerate(wiring.calls):
        loop = wiring.loop_of(number)
        for name in call.read:
            found.read(name, number, loop, call.info.name)
        for name in call.written:
            found.write(name, number, loop, call.info.name)
    for spec, name in wiring.outputs:
        found.read(name, len(wiring.calls), None, f"output {spec.name!r}")
    return found.spans


class _Lifetimes:
    """What is known of the steps so far."""

    def __init__(self, wiring: Wiring) -> None:
        self._wiring = wiring
        self._outside = {spec.name for spec in wiring.inputs} | set(wiring.constants)
        self._written: set[str] = set()
        self.spans: dict[str, tuple[int, int]] = {}

    def read(self, name: str, step: int, loop: RepeatedSteps | None, where: str) -> None:
        """A call reads ``name``."""
        home, part = self._wiring.home(name), self._wiring.parts.get(name)
        if part is not None and part.first is not None:
            assert loop is not None
            self.read(part.first, step, loop, where)
            self._extend(home, loop.first)  # a later step of the iteration before wrote it
        if home in self._outside:
            return
        if home not in self.spans:
            raise AssemblyError(f"value {name!r} is read before it is written", where)
        entered = loop is not None and self.spans[home][0] < loop.first
        if loop is not None and (entered or self._moves(name)):
            self._extend(home, loop.first + loop.count - 1)
        self._extend(home, step)

    def write(self, name: str, step: int, loop: RepeatedSteps | None, where: str) -> None:
        """A call writes ``name``."""
        home = self._wiring.home(name)
        if name in self._written or home in self._outside:
            raise AssemblyError(f"value {name!r} is written twice", where)
        self._written.add(name)
        if loop is not None and self._moves(name):
            self._extend(home, loop.first)
            self._extend(home, loop.first + loop.count - 1)
        self._extend(home, step)

    def _moves(self, name: str) -> bool:
        """Whether the value lies elsewhere in each iteration, for others to find it there."""
        part = self._wiring.parts.get(name)
        return part is not None and part.moves

    def _extend(self, home: str, step: int) -> None:
        first, last = self.spans.get(home, (step, step))
        self.spans[home] = min(first, step), max(last, step)
