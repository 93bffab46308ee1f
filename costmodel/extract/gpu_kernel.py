"""Kernels of a nest as a GPU runs them: blocks, threads, what a block holds of its processor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from costmodel.extract.quantity import Quantity, ceil, larger, smaller, to_quantity
from sketch.lang.dtypes import size_of
from sketch.lang.tensor import Compute
from sketch.nest.loopnest import Buffer, LoopKind, LoopNest, Node, Store
from sketch.nest.walk import store_loads, stores, stores_within
from sketch.population.blocks_gpu import blocks_of, threads_of
from sketch.population.feasible_gpu import registers_of, shared_bytes_of, threads_of_unit
from sketch.target.target import Target


@dataclass(frozen=True, slots=True, eq=False)
class KernelShape:
    """One launch, as every statement in it sees it; [P] or fixed.

    Attributes:
        blocks, threads: of the launch, of a block.
        shared_bytes: of a block.
        registers: of a thread, estimated.
        resident: blocks that a processor holds at a time.
        busiest: blocks that the busiest processor runs in all.
        arithmetic: cycles of the multiply-adds of a block.
        first: the stage by whose statement the launch itself is paid.
        read_before: what stages of the launch have read when this one starts, by stage.
    """

    blocks: Quantity
    threads: Quantity
    shared_bytes: Quantity
    registers: Quantity
    resident: Quantity
    busiest: Quantity
    arithmetic: Quantity
    first: Compute | None
    read_before: Mapping[Compute | None, frozenset[Buffer]]

    def warps(self, target: Target) -> Quantity:
        """Warps of a block."""
        return ceil(self.threads / float(target.warp_size))

    def active_warps(self, target: Target) -> Quantity:
        """Warps that the busiest processor holds at a time."""
        return smaller(self.resident, self.busiest) * self.warps(target)


def kernel_shapes(nest: LoopNest, target: Target) -> Mapping[Compute | None, KernelShape]:
    """The kernel of every stage of a nest."""
    shapes: dict[Compute | None, KernelShape] = {}
    for root in nest.roots:
        found = [store for store, _ in stores_within((root,), None, lambda _, node: None)]
        stages = [store.stage for store in found]
        blocks, threads = to_quantity(blocks_of(root)), to_quantity(threads_of((root,)))
        shared = to_quantity(shared_bytes_of(root))
        registers = to_quantity(registers_of(root, target))
        resident = _resident(threads, shared, registers, target)
        busiest = ceil(blocks / float(target.threads))
        before = _read_before(found)
        shape = KernelShape(
            blocks,
            threads,
            shared,
            registers,
            resident,
            busiest,
            _arithmetic(root, target),
            stages[0],
            before,
        )
        shapes |= dict.fromkeys(stages, shape)
    return shapes


def _arithmetic(root: Node, target: Target) -> Quantity:
    """Cycles in which a processor reduces all terms of a block."""
    total: Quantity = 0.0
    for store, loops in stores((root,)):
        if store.reducer is not None:
            terms: Quantity = 1.0
            for loop in loops:
                if loop.kind is not LoopKind.BLOCK:
                    terms = terms * to_quantity(loop.extent)
            together = threads_of_unit((loop.kind, loop.extent) for loop in loops)
            rate = unit_macs(store, target, together) if together > 1 else target.card.fma_lanes
            total = total + terms / rate
    return total


def unit_macs(store: Store, target: Target, together: float) -> float:
    """Multiply-adds a cycle of a processor's tensor units on what a statement multiplies, by so
    many threads together.
    """
    size = min(size_of(load.buffer.dtype) for load in store_loads(store))
    share = target.card.warp_share if together <= target.warp_size else 1.0
    return share * float(target.card.unit_macs(size) or target.card.fma_lanes)


def _read_before(found: Sequence[Store]) -> Mapping[Compute | None, frozenset[Buffer]]:
    """What the stages before each one read, by stage."""
    read: frozenset[Buffer] = frozenset()
    before: dict[Compute | None, frozenset[Buffer]] = {}
    for store in found:
        before.setdefault(store.stage, read)
        read |= {load.buffer for load in store_loads(store)}
    return before


def _resident(threads: Quantity, shared: Quantity, registers: Quantity, target: Target) -> Quantity:
    """Blocks that fit a processor at a time, by threads, registers and shared memory."""
    card, warp = target.card, float(target.warp_size)
    whole = ceil(threads / warp) * warp
    held = smaller(float(card.blocks_per_processor), _floor(card.threads_per_processor / whole))
    in_registers = card.registers_per_processor / (
        smaller(registers, float(target.registers)) * whole
    )
    held = smaller(held, _floor(in_registers))
    # what no block can ask for is taken by the system, once for each of them
    system = float(card.shared_processor_bytes - card.shared_block_bytes)
    held = smaller(held, _floor(card.shared_processor_bytes / larger(shared + system, 1.0)))
    return larger(held, 1.0)


def _floor(value: Quantity) -> Quantity:
    return float(np.floor(value)) if isinstance(value, float) else np.floor(value)
