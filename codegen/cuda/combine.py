"""CUDA C++ of combinations: how the lanes that share a reduction exchange partial results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from codegen.cuda.device import Combine
from codegen.cuda.passes.lanes import WARP, shuffles

Lines = list[str]
# (places of the left operands and of the results, right operands) -> statements
Assign = Callable[[Sequence[str], Sequence[str]], Lines]


@dataclass(frozen=True, slots=True)
class CombineText:
    """The identifiers that a combination needs.

    Attributes:
        values: the accumulators' cells.
        scratch: arrays in shared memory.
        lane: the number of the lane.
        assign: the statements that combine right operands into left ones.
    """

    node: Combine
    block: int
    values: tuple[str, ...]
    scratch: tuple[str, ...]
    lane: str
    assign: Assign

    def lines(self) -> Lines:
        """The statements, indented; they stand in a block of their own.

        Whoever uses the scratch next must wait; so does the next cell.
        """
        node = self.node
        last = ["__syncthreads();"] if node.scratch and node.targets[0].size > 1 else []
        if not shuffles(node.lanes, node.inner, self.block):
            return [*self._tree(), *last]
        return [*self._shuffle(), *(self._warps() if node.lanes > WARP else ()), *last]

    def _shuffle(self) -> Lines:
        """All lanes of a warp get the same: an exchange is the same on both sides."""
        width = min(self.node.lanes, WARP)
        others = [f"__shfl_xor_sync(0xffffffffu, {value}, step)" for value in self.values]
        return [
            "#pragma unroll",
            f"for (int step = {width // 2}; step > 0; step /= 2) {{",
            *_indented(self.assign(self.values, others)),
            "}",
        ]

    def _warps(self) -> Lines:
        """The first thread of every warp tells the others what it has."""
        warps = self.node.lanes // WARP
        first = f"thread / {self.node.lanes} * {warps}"
        pairs = list(zip(self.scratch, self.values, strict=True))
        others = [f"{place}[{first} + warp]" for place in self.scratch]
        return [
            *(f"if (thread % {WARP} == 0) {p}[thread / {WARP}] = {v};" for p, v in pairs),
            "__syncthreads();",
            *(f"{value} = {place}[{first}];" for place, value in pairs),
            "#pragma unroll",
            f"for (int warp = 1; warp < {warps}; ++warp) {{",
            *_indented(self.assign(self.values, others)),
            "}",
        ]

    def _tree(self) -> Lines:
        """Half of the lanes at a time take over the results of the other half."""
        lanes, inner = self.node.lanes, self.node.inner
        half = 1 << (lanes - 1).bit_length() - 1
        pairs = list(zip(self.scratch, self.values, strict=True))
        own = [f"{place}[thread]" for place in self.scratch]
        others = [f"{place}[thread + step * {inner}]" for place in self.scratch]
        return [
            *(f"{place}[thread] = {value};" for place, value in pairs),
            "#pragma unroll",
            f"for (int step = {half}; step > 0; step /= 2) {{",
            "  __syncthreads();",
            f"  if ({self.lane} < step && {self.lane} + step < {lanes}) {{",
            *_indented(_indented(self.assign(own, others))),
            "  }",
            "}",
            "__syncthreads();",
            *(f"{value} = {place}[thread - {self.lane} * {inner}];" for place, value in pairs),
        ]


def _indented(lines: Lines) -> Lines:
    return [f"  {line}" for line in lines]
