"""Random candidates of a matrix product: how long NVRTC takes, what it refuses, what spills.

No GPU is needed.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from typing import Final

import numpy as np

from benchmarks.gpu_parts.bench import Bench, verdict
from benchmarks.gpu_parts.products import product
from benchmarks.gpu_parts.row_log import Row
from codegen.cuda.build import emit
from codegen.cuda.kernel import CudaSource, Launch
from codegen.cuda.nvrtc import compile_source, missing_compiler
from codegen.errors import CodegenError
from sketch.lower import lower
from sketch.population.feasible import feasible
from sketch.population.population import sample
from sketch.rules.generate import generate
from sketch.target.gpu_targets import cuda_target

_SIZE: Final = 1024
_COUNT: Final = 64
_SMALL_COUNT: Final = 4
_MEDIAN_MS: Final = 300.0
_LONGEST_MS: Final = 2000.0


@dataclass(frozen=True, slots=True)
class Compilation:
    """One candidate: CPU time, registers of a thread, why it was refused (empty: it was not)."""

    milliseconds: float
    registers: int
    spills: bool
    refused: str = ""


def run(bench: Bench) -> Iterator[Row]:
    """One row, for the architecture of the target."""
    arch = bench.target.arch
    for name, _ in bench.turns(["matmul"]):
        missing = missing_compiler()
        if missing is not None:
            yield {"name": name, "done": True, "rival": f"not run: {missing}"}
            continue
        count = _SMALL_COUNT if bench.small else _COUNT
        processes = len(os.sched_getaffinity(0))
        with ProcessPoolExecutor(processes, get_context("spawn"), warm_up, (arch,)) as pool:
            seeds = range(count)
            found = list(pool.map(compile_candidate, seeds, [arch] * count))
        made = [each for each in found if not each.refused]
        times = np.array([each.milliseconds for each in made] or [0.0])
        yield {
            "name": name,
            "done": True,
            "arch": arch,
            "candidates": count,
            "refused": count - len(made),
            "spill": sum(each.spills for each in made),
            "registers": [each.registers for each in made],
            "median_ms": float(np.median(times)),
            "longest_ms": float(times.max()),
            "longest_bar": verdict(float(times.max()), _LONGEST_MS, at_most=True)["bar"],
            "messages": [each.refused for each in found if each.refused][:3],
        } | verdict(float(np.median(times)), _MEDIAN_MS, at_most=True)


def warm_up(arch: str) -> None:
    """Load the compiler, which the first program of a process would wait for."""
    launch = Launch("nothing_0", 1, 1, (), ())
    text = 'extern "C" __global__ void nothing_0() {}'
    compile_source(CudaSource("nothing", text, (launch,), (), ()), arch)


def compile_candidate(seed: int, arch: str) -> Compilation:
    """Compile one random feasible row; runs in a process of its own."""
    target = cuda_target(arch)
    (sketch, *_) = generate(product(_SIZE), target)
    population = sample(sketch, 64, np.random.default_rng(seed))
    (place, *_) = np.flatnonzero(feasible(sketch, population.columns()))
    source = emit(lower(sketch, population.row(int(place))), target)
    start = time.process_time()
    try:
        _, resources = compile_source(source, arch)
    except CodegenError as error:
        return Compilation(0.0, 0, False, str(error))
    used = [each for _, each in resources]
    elapsed = (time.process_time() - start) * 1e3
    return Compilation(elapsed, max(r.registers for r in used), any(r.spills for r in used))
