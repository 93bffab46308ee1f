"""The phases of a transposed convolution along one dimension.

Output p gets ``data[i] * weight[k]`` where ``i*stride + k*dilation == p + before``.  All p of one
remainder mod ``stride`` see the same kernel positions: a *phase*, which is an ordinary convolution
of stride 1, so that no inserted zero is ever multiplied.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import gcd

from sketch.lang.expr import Expr


@dataclass(frozen=True, slots=True)
class Phase:
    """One phase: outputs ``first + stride*q`` for 0 <= q < count.

    Tap t < taps multiplies ``data[q + index + t*index_step]`` by ``weight[kernel +
    t*kernel_step]``; data indices grow with t, as those of a convolution do.
    """

    first: int
    count: int
    taps: int
    index: int
    index_step: int
    kernel: int
    kernel_step: int


@dataclass(frozen=True, slots=True)
class PhaseRange:
    """Neighbouring phases of one form: ``index`` and ``kernel`` change evenly from each to the
    next, so that one stage with an axis for the phase computes all of them.
    """

    phases: tuple[Phase, ...]

    @property
    def head(self) -> Phase:
        return self.phases[0]

    @property
    def index_slope(self) -> int:
        """Change of ``index`` from phase to phase."""
        return self.phases[1].index - self.head.index if len(self.phases) > 1 else 0

    @property
    def kernel_slope(self) -> int:
        """Change of ``kernel`` from phase to phase."""
        return self.phases[1].kernel - self.head.kernel if len(self.phases) > 1 else 0

    def index_at(self, position: Expr, phase: Expr, tap: Expr) -> Expr:
        """The data index; may lie outside of the data."""
        head = self.head
        moved = position + phase * self.index_slope + tap * head.index_step
        return moved - -head.index if head.index < 0 else moved + head.index

    def kernel_at(self, phase: Expr, tap: Expr) -> Expr:
        """The kernel index."""
        head = self.head
        return phase * self.kernel_slope + tap * head.kernel_step + head.kernel

    def accepts(self, phase: Phase) -> bool:
        """Whether the range with ``phase`` appended is still one."""
        last, head = self.phases[-1], self.head
        if (phase.count, phase.taps) != (head.count, head.taps):
            return False
        slopes = (phase.index - last.index, phase.kernel - last.kernel)
        return len(self.phases) == 1 or slopes == (self.index_slope, self.kernel_slope)


@dataclass(frozen=True, slots=True)
class TransposedWindow:
    """One dimension of a transposed convolution.

    The output has ``(extent - 1)*stride + (kernel - 1)*dilation + 1 + extra - before - after``
    elements; ``extra`` (output padding) adds to its end.
    """

    extent: int
    kernel: int
    stride: int
    dilation: int
    before: int
    after: int
    extra: int

    @property
    def outputs(self) -> int:
        """Extent of the output; not positive if padding takes all of it."""
        reach = (self.extent - 1) * self.stride + (self.kernel - 1) * self.dilation + 1
        return reach + self.extra - self.before - self.after

    def ranges(self) -> tuple[PhaseRange, ...]:
        """All phases, in order, as few ranges as possible."""
        found: list[PhaseRange] = []
        for first in range(min(self.stride, self.outputs)):
            phase = self._phase(first)
            if found and found[-1].accepts(phase):
                found[-1] = PhaseRange((*found[-1].phases, phase))
            else:
                found.append(PhaseRange((phase,)))
        return tuple(found)

    def _phase(self, first: int) -> Phase:
        """Kernel positions k with (first + before - k*dilation) divisible by the stride."""
        count = -(-(self.outputs - first) // self.stride)
        step = self.stride // gcd(self.stride, self.dilation)
        back = self.dilation // gcd(self.stride, self.dilation)
        target = first + self.before
        start = next(
            (k for k in range(step) if (target - k * self.dilation) % self.stride == 0), None
        )
        if start is None or start >= self.kernel:
            return Phase(first, count, 0, 0, 0, 0, 0)
        taps = -(-(self.kernel - start) // step)
        last = start + (taps - 1) * step
        index = (target - last * self.dilation) // self.stride
        return Phase(first, count, taps, index, back, last, -step)


def combinations(windows: Sequence[TransposedWindow]) -> tuple[tuple[PhaseRange, ...], ...]:
    """One range for each dimension, in all ways, the last dimension fastest."""
    result: tuple[tuple[PhaseRange, ...], ...] = ((),)
    for window in windows:
        result = tuple((*chosen, own) for chosen in result for own in window.ranges())
    return result
