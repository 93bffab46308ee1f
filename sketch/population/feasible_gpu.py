"""Feasibility on GPUs: threads and shared memory of a block, registers of a thread."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sketch.lang.dtypes import size_of
from sketch.nest.loopnest import Allocate, Loop, LoopKind, LoopNest, Node, Num, Scope
from sketch.target.target import Target

# Registers a thread needs besides its accumulators: addresses, operands, loop counters.
_OVERHEAD_REGISTERS = 32


Flags = bool | NDArray[np.bool_]


def feasible_on_gpu(nest: LoopNest, target: Target) -> Flags:
    """Which rows of a lowered population fit ``target``; bool ``[P]``, or one for all rows."""
    fits: Flags = True
    for root in nest.roots:
        use = _Use()
        use.visit((root,))
        threads = threads_of((root,))
        fits = fits & (threads <= target.threads_per_block)
        fits = fits & (use.vthreads <= target.max_vthreads)
        fits = fits & (use.shared_bytes <= target.shared_memory_bytes)
        registers = use.local * use.vthreads + _OVERHEAD_REGISTERS
        fits = fits & (registers <= target.registers)
        fits = fits & (registers * threads <= target.registers_per_block)
        fits = fits & (use.copies <= target.instruction_budget)
    return fits


def threads_of(nodes: tuple[Node, ...]) -> Num:
    """Threads of a block; nests one after another in it are run by the same threads."""
    most: Num = 1
    for node in nodes:
        match node:
            case Loop():
                inside = threads_of(node.body)
                count = inside * node.extent if node.kind is LoopKind.THREAD else inside
            case Allocate(buffer, body):
                # The first nest of the body fills a shared buffer with whatever threads there are.
                count = threads_of(body[1:] if buffer.scope is Scope.SHARED else body)
            case _:
                continue
        most = np.maximum(most, count)
    return most


class _Use:
    """What one kernel asks of the hardware."""

    def __init__(self) -> None:
        self.vthreads: Num = 1
        self.shared_bytes: Num = 0
        self.local: Num = 0
        self.copies: Num = 1

    def visit(self, nodes: tuple[Node, ...]) -> None:
        for node in nodes:
            match node:
                case Loop():
                    self._loop(node)
                case Allocate(buffer, body):
                    if buffer.scope is Scope.SHARED:
                        self.shared_bytes = self.shared_bytes + buffer.size * size_of(buffer.dtype)
                    else:
                        self.local = self.local + buffer.size
                    self.visit(body)
                case _:
                    continue

    def _loop(self, loop: Loop) -> None:
        if loop.kind is LoopKind.VTHREAD:
            self.vthreads = self.vthreads * loop.extent
        elif loop.kind is LoopKind.UNROLLED and loop.axis_kind == "reduce":
            self.copies = np.maximum(self.copies, self.local * self.vthreads * loop.extent)
        self.visit(loop.body)
