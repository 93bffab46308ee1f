"""The peak of the machine: independent chains of one instruction, one thread a core.

It is a contender like any other, so that every row's share of the peak comes from the same run.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

from autosched.runtime.probes.chains import (
    CHAINS,
    ChainedInstruction,
    load_chains,
    multiply_add,
    unit_product,
)
from benchmarks.contender import Prepared
from benchmarks.workloads import IntegerMatmul, Workload
from codegen.host import host_target
from sketch.target.units import units_of

TRIPS: Final = 8_000_000  # 10-20 ms a run, so that handing out the work is below 1 %
NAME: Final = "peak"


@dataclass(frozen=True, slots=True)
class Peak:
    """Executes the instruction that a workload is made of; computes nothing of it."""

    name: str = NAME

    def supports(self, workload: Workload) -> bool:
        return instruction_of(workload) is not None

    def prepare(self, workload: Workload, threads: int) -> Prepared:
        """Compile the chains for this CPU and pin one Python thread to each core."""
        instruction = instruction_of(workload)
        assert instruction is not None
        library, chains = load_chains(instruction, host_target(1))
        cores = iter(sorted(os.sched_getaffinity(0))[:threads])
        pool = ThreadPoolExecutor(
            threads, initializer=lambda: os.sched_setaffinity(0, [next(cores)])
        )

        def run() -> None:
            list(pool.map(chains, [TRIPS] * threads))

        operations = instruction.operations * CHAINS * TRIPS * threads
        return Prepared(
            run,
            outputs=dict,
            note=instruction.intrinsic,
            details=lambda: {"operations": operations},
            keep_alive=library,
        )


def instruction_of(workload: Workload) -> ChainedInstruction | None:
    """The fastest one of this CPU for a workload; None: it has no unit for products of bytes."""
    target = host_target(1)
    if not isinstance(workload, IntegerMatmul):
        return multiply_add(target.lanes(4))
    found = (unit for unit in units_of(target) if (unit.lhs, unit.rhs) == ("uint8", "int8"))
    return next(map(unit_product, found), None)
