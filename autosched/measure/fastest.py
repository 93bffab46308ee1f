"""Machine code of a task's fastest candidates: they are checked and timed again, not rebuilt."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Hashable

    from autosched.tasks.candidate import Candidate

# As many as the slowest preset times against each other; of each variant, as some of them may be
# forbidden later.
_KEPT: Final = 24


class FastestKernels:
    """Pickled kernels of one task by candidate, of the fastest 24 of each variant."""

    def __init__(self) -> None:
        self._variants: dict[str, dict[Hashable, tuple[float, bytes]]] = {}

    def note(self, candidate: Candidate, kernel: bytes, seconds: float) -> None:
        """Keep a kernel that took ``seconds`` as long as it is among the fastest."""
        kernels = self._variants.setdefault(candidate.sketch.variant, {})
        kernels[_key(candidate)] = seconds, kernel
        if len(kernels) > _KEPT:
            del kernels[max(kernels, key=lambda key: kernels[key][0])]

    def kernel(self, candidate: Candidate) -> bytes | None:
        """The kernel of a candidate; None where it was not kept."""
        kept = self._variants.get(candidate.sketch.variant, {}).get(_key(candidate))
        return None if kept is None else kept[1]


def _key(candidate: Candidate) -> Hashable:
    return candidate.sketch.key, frozenset(candidate.values.items())
