"""The peak of the machine: independent chains of one instruction, one thread a core.

It is a contender like any other, so that every row's share of the peak comes from the same run.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Final

from autosched.runtime.probes.chains import (
    CHAINS,
    ChainedInstruction,
    load_chains,
    multiply_add,
    unit_product,
)
from autosched.runtime.probes.tile_chains import load_tile_chains, tile_operations
from benchmarks.contender import Prepared
from benchmarks.workloads import IntegerConv, IntegerMatmul, Workload
from codegen.host import host_target
from codegen.llvm.jit import Library
from sketch.target.target import Target
from sketch.target.units import units_of

# 10-20 ms a run, so that handing out the work is below 1 %
TRIPS: Final = 8_000_000
TILE_TRIPS: Final = 500_000
NAME: Final = "peak"
TILE_NAME: Final = "tile_peak"


@dataclass(frozen=True, slots=True)
class Peak:
    """Executes the instruction that a workload is made of; computes nothing of it.

    ``tiles``: that of tile registers rather than that of vectors.
    """

    name: str = NAME
    tiles: bool = False

    def supports(self, workload: Workload) -> bool:
        return chains_of(workload, self.tiles) is not None

    def prepare(self, workload: Workload, threads: int) -> Prepared:
        """Compile the chains for this CPU and pin one Python thread to each core."""
        chains = chains_of(workload, self.tiles)
        assert chains is not None
        library, execute = chains.load(host_target(1))
        cores = iter(sorted(os.sched_getaffinity(0))[:threads])
        pool = ThreadPoolExecutor(
            threads, initializer=lambda: os.sched_setaffinity(0, [next(cores)])
        )

        def run() -> None:
            list(pool.map(execute, [chains.trips] * threads))

        operations = chains.operations * chains.trips * threads
        return Prepared(
            run,
            outputs=dict,
            note=chains.name,
            details=lambda: {"operations": operations},
            keep_alive=library,
        )


@dataclass(frozen=True, slots=True)
class Chains:
    """Chains of one instruction.

    Attributes:
        name: of the instruction.
        trips: of a run.
        operations: multiplications and additions of a trip.
        load: makes the function of trips for a CPU.
    """

    name: str
    trips: int
    operations: float
    load: Callable[[Target], tuple[Library, Callable[[int], object]]]


def chains_of(workload: Workload, tiles: bool = False) -> Chains | None:
    """Those of the instruction of this CPU for a workload; None: it has none.

    ``tiles``: that of tile registers, of products of bytes.
    """
    target = host_target(1)
    if not isinstance(workload, IntegerMatmul | IntegerConv):
        return None if tiles else _of_vectors(multiply_add(target.lanes(4)))
    types = ("uint8", "int8")
    found = [u for u in units_of(target) if (u.lhs, u.rhs) == types and bool(u.tiles) == tiles]
    unit = max(found, key=lambda unit: unit.m * unit.n * unit.k, default=None)
    if unit is None or not tiles:
        return None if unit is None else _of_vectors(unit_product(unit))
    return Chains(unit.name, TILE_TRIPS, tile_operations(unit), partial(load_tile_chains, unit))


def _of_vectors(instruction: ChainedInstruction) -> Chains:
    operations = instruction.operations * CHAINS
    return Chains(instruction.intrinsic, TRIPS, operations, partial(load_chains, instruction))
