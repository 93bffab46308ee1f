"""Random GPU candidates of a matrix product: how many compile, what they use, how fast they are.

Without a GPU: rate of compilation and resources.  With one: the candidates that do not spill are
checked and timed, next to cuBLAS (through PyTorch, where that is installed with CUDA).
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from benchmarks.rows import Row, write_json
from codegen.cuda.build import build, emit
from codegen.cuda.kernel import CudaKernel
from codegen.errors import CodegenError
from codegen.gpu.device_kernel import DeviceKernel
from codegen.gpu.host import gpu_here
from codegen.gpu.missing import missing_gpu
from codegen.gpu.open import open_device
from sketch.dag.dag import ComputeDAG
from sketch.lang.tensor import placeholder
from sketch.lower import lower
from sketch.operators.matmul import matmul
from sketch.population.feasible import feasible
from sketch.rules.generate import generate
from sketch.schedule.decision import DecisionId
from sketch.schedule.sketch import Sketch
from sketch.target.gpu_targets import cuda_target
from sketch.target.target import Target

Arrays = dict[str, NDArray[np.float32]]
_TOLERANCE = 1e-4
_REPEATS, _RUNS = 10, 10
_DRAWS = 100_000  # most random tiles need too many threads or too much memory


@dataclass(frozen=True, slots=True)
class Compiled:
    """A candidate and how long it took to compile."""

    kernel: CudaKernel
    milliseconds: float


def product(size: int) -> ComputeDAG:
    """``C = A @ B``, all of ``size x size``."""
    lhs, rhs = placeholder((size, size), name="A"), placeholder((size, size), name="B")
    return ComputeDAG([matmul(lhs, rhs, name="C")])


def candidates(sketch: Sketch, target: Target, count: int) -> Iterator[dict[DecisionId, int]]:
    """Random feasible rows of powers of two: whole warps, and blocks for half the processors."""
    rng = np.random.default_rng(0)
    columns = {
        decision.name: rng.choice([c for c in decision.choices if c & (c - 1) == 0], _DRAWS)
        for decision in sketch.decisions
    }
    fits = feasible(sketch, columns)
    for index in np.flatnonzero(fits):
        row = {name: int(column[index]) for name, column in columns.items()}
        (launch,) = emit(lower(sketch, dict(row)), target).launches
        if launch.block % target.warp_size == 0 and launch.grid >= target.threads // 2:
            yield row
            count -= 1
        if count == 0:
            return


def compile_all(dag: ComputeDAG, target: Target, count: int) -> tuple[list[Compiled], int]:
    """Compiled candidates, and how many the compiler refused."""
    (sketch,) = generate(dag, target)
    compiled: list[Compiled] = []
    refused = 0
    for row in candidates(sketch, target, count):
        start = time.perf_counter()
        try:
            kernel = build(lower(sketch, dict(row)), target)
        except CodegenError as error:
            refused += 1
            print(f"refused: {error}")
            continue
        compiled.append(Compiled(kernel, (time.perf_counter() - start) * 1e3))
    return compiled, refused


def print_resources(compiled: list[Compiled]) -> None:
    """One line a candidate."""
    print(f"{'grid':>7} {'block':>6} {'regs':>5} {'spill B':>8} {'shared B':>9} {'compile ms':>11}")
    for item in compiled:
        ((_, resources),) = item.kernel.resources
        (launch,) = item.kernel.source.launches
        print(
            f"{launch.grid:7d} {launch.block:6d} {resources.registers:5d} "
            f"{resources.spill_store_bytes + resources.spill_load_bytes:8d} "
            f"{resources.shared_bytes:9d} {item.milliseconds:11.0f}"
        )


def best_milliseconds(compiled: list[Compiled], arrays: Arrays) -> float:
    """Run and check every candidate that does not spill; the fastest time."""
    expected = arrays["A"].astype(np.float64) @ arrays["B"].astype(np.float64)
    best = np.inf
    for item in compiled:
        if item.kernel.spills:
            continue
        with (
            open_device(item.kernel.target) as device,
            DeviceKernel(device, item.kernel, arrays) as kernel,
        ):
            error = np.abs(kernel.run()["C"] - expected).max() / np.abs(expected).max()
            if not error < _TOLERANCE:
                raise CodegenError(f"a candidate is wrong by {error:.1e}", "cuda_matmul")
            kernel.seconds(_RUNS)  # the clocks rise
            best = min(best, min(kernel.seconds(_RUNS) for _ in range(_REPEATS)) / _RUNS * 1e3)
    return float(best)


def cublas_milliseconds(arrays: Arrays) -> float | None:
    """The vendor's time in full float32, where PyTorch can reach it."""
    try:
        import torch
    except ImportError:
        return None
    if not torch.cuda.is_available():
        return None
    torch.backends.cuda.matmul.allow_tf32 = False
    lhs, rhs = (torch.from_numpy(arrays[name]).cuda() for name in ("A", "B"))
    times = []
    for _ in range(12):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        for _ in range(10):
            lhs @ rhs
        end.record()
        end.synchronize()
        times.append(start.elapsed_time(end) / 10)
    return float(min(times[2:]))


def measure(size: int, count: int, arch: str) -> Row:
    """Compile the candidates of one size, and time them where there is a GPU of ``arch``."""
    dag = product(size)
    compiled, refused = compile_all(dag, cuda_target(arch), count)
    print_resources(compiled)
    times = np.array([item.milliseconds for item in compiled])
    row: Row = {
        "name": f"matmul_{size}_{arch}",
        "candidates": len(compiled) + refused,
        "refused": refused,
        "spill": sum(item.kernel.spills for item in compiled),
        "compile_ms": float(np.median(times)),
        "rivals_ms": {},
    }
    reason = missing_gpu()
    if reason is not None:
        print(f"not run: {reason}")
        return row
    rng = np.random.default_rng(0)
    arrays = {name: rng.standard_normal((size, size), np.float32) for name in ("A", "B")}
    row["ours_ms"] = best_milliseconds(compiled, arrays)
    rival = cublas_milliseconds(arrays)
    if rival is not None:
        row["rivals_ms"] = {"cublas": rival}
    return row


def main() -> None:
    """One size, as many candidates as wanted."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=int, default=1024)
    parser.add_argument("--candidates", type=int, default=16)
    parser.add_argument("--arch", default=gpu_here().arch if missing_gpu() is None else "sm_90")
    parser.add_argument("--json", metavar="FILE")
    arguments = parser.parse_args()
    row = measure(arguments.size, arguments.candidates, arguments.arch)
    for key, value in row.items():
        print(f"{key:12s} {value}")
    write_json(arguments.json, [row])


if __name__ == "__main__":
    main()
