"""Random candidates of a matrix product, and the draft model's favourites of every variant of
ResNet's 3x3 layers: how long NVRTC takes, what it refuses, what spills.

No GPU is needed.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from typing import Final

import numpy as np

from benchmarks.gpu_parts.bench import Bench, verdict
from benchmarks.gpu_parts.layers import LAYERS, Layer, layer
from benchmarks.gpu_parts.products import product
from benchmarks.gpu_parts.row_log import Row
from codegen.cuda.build import emit
from codegen.cuda.kernel import CudaSource, Launch
from codegen.cuda.nvrtc import compile_source, missing_compiler
from codegen.errors import CodegenError
from costmodel.extract import draft_seconds
from sketch.lower import lower
from sketch.population.feasible import feasible
from sketch.population.population import Population, sample
from sketch.rules.backend import sketch_backend
from sketch.rules.generate import generate
from sketch.schedule.sketch import Sketch
from sketch.target.gpu_targets import cuda_target
from sketch.variants.derive import variants_of

_SIZE: Final = 1024
_COUNT: Final = 64
_SMALL_COUNT: Final = 4
_ROWS: Final = 64
_DIRECT: Final = "direct"
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
    """Two rows, for the architecture of the target."""
    arch = bench.target.arch
    for name, _ in bench.turns(["matmul", "layers"]):
        missing = missing_compiler()
        if missing is not None:
            yield {"name": name, "done": True, "rival": f"not run: {missing}"}
            continue
        most = _SMALL_COUNT if bench.small else _COUNT
        work = compile_product if name == "matmul" else compile_favourite
        cases: Sequence[object] = range(most) if name == "matmul" else favourites(arch)[:most]
        count = len(cases)
        processes = len(os.sched_getaffinity(0))
        with ProcessPoolExecutor(processes, get_context("spawn"), warm_up, (arch,)) as pool:
            found = list(pool.map(work, cases, [arch] * count))
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


def compile_product(seed: int, arch: str) -> Compilation:
    """Compile one random feasible row; runs in a process of its own."""
    (sketch, *_) = generate(product(_SIZE), cuda_target(arch))
    rows = _feasible_rows(sketch, seed)
    return _compile(rows, 0, arch)


Favourite = tuple[Layer, str]
"""A layer, and the name of a variant of it."""


def favourites(arch: str) -> list[Favourite]:
    """Every variant of each layer for an architecture."""
    algorithms = sketch_backend(cuda_target(arch)).algorithms
    return [
        (each, name)
        for each in LAYERS
        for name in (_DIRECT, *variants_of(layer(*each), algorithms))
    ]


def compile_favourite(case: Favourite, arch: str) -> Compilation:
    """Compile what the draft model likes best of a variant; runs in a process of its own."""
    (shape, name), target = case, cuda_target(arch)
    dag = layer(*shape)
    dag = dag if name == _DIRECT else variants_of(dag, sketch_backend(target).algorithms)[name]
    found = [_feasible_rows(sketch, 0) for sketch in generate(dag, target)]
    seconds = [draft_seconds(rows) for rows in found]
    best = int(np.argmin([each.min() for each in seconds]))
    return _compile(found[best], int(seconds[best].argmin()), arch)


def _feasible_rows(sketch: Sketch, seed: int) -> Population:
    population = sample(sketch, _ROWS, np.random.default_rng(seed))
    return population.take(np.flatnonzero(feasible(sketch, population.columns())))


def _compile(rows: Population, place: int, arch: str) -> Compilation:
    source = emit(lower(rows.sketch, rows.row(place)), cuda_target(arch))
    start = time.process_time()
    try:
        _, resources = compile_source(source, arch)
    except CodegenError as error:
        return Compilation(0.0, 0, False, str(error))
    used = [each for _, each in resources]
    elapsed = (time.process_time() - start) * 1e3
    return Compilation(elapsed, max(r.registers for r in used), any(r.spills for r in used))
