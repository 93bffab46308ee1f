"""Square matrix products in float32 against cuBLAS, TF32 off on both sides."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Final

from benchmarks.gpu_parts.bench import Bench
from benchmarks.gpu_parts.operators import OperatorCase, operator_rows
from benchmarks.gpu_parts.rivals import EMULATED, Cublas, Rival, TorchGraph, cuda_torch
from benchmarks.gpu_parts.row_log import Row
from codegen.gpu.protocol import Device
from sketch.dag.dag import ComputeDAG
from sketch.lang.tensor import placeholder
from sketch.operators.matmul import matmul

# Least ratio of the rival's time and ours by size; the one in the middle is for comparison.
_BARS: Final[Mapping[int, float]] = {4096: 0.85, 1024: 0.75, 2048: 0.8}
_SMALL: Final[Mapping[int, float]] = {64: 0.0}
_TUNE_S: Final = 90.0
_SMALL_TUNE_S: Final = 1.5


def product(size: int) -> ComputeDAG:
    """``C = A @ B``, all of [size, size]."""
    lhs, rhs = placeholder((size, size), name="A"), placeholder((size, size), name="B")
    return ComputeDAG([matmul(lhs, rhs, name="C")])


def cublas(size: int, device: Device) -> Rival:
    """The library through PyTorch where that has CUDA, else by its C interface.

    Raises:
        OSError: neither is here, or the device is emulated.
    """
    if device.kind == "emulated":
        raise OSError(EMULATED)
    try:
        torch = cuda_torch()
    except OSError:
        return Cublas(device, size)
    lhs, rhs = (torch.randn(size, size, device="cuda") for _ in range(2))
    out = torch.empty_like(lhs)
    return TorchGraph(
        torch, f"cublas of CUDA {torch.version.cuda}", lambda: torch.mm(lhs, rhs, out=out)
    )


def run(bench: Bench) -> Iterator[Row]:
    """A row a size."""
    tune_s = _SMALL_TUNE_S if bench.small else _TUNE_S
    cases = [
        OperatorCase(f"sgemm_{size}", product(size), partial(cublas, size), bar, tune_s)
        for size, bar in _bars(bench).items()
    ]
    for row in operator_rows(bench, cases):
        if "ours_ms" in row:
            row["gflops"] = row["gflop"] / row["ours_ms"] * 1e3
        yield row


def programs(bench: Bench) -> list[ComputeDAG]:
    """What is tuned."""
    return [product(size) for size in _bars(bench)]


def _bars(bench: Bench) -> Mapping[int, float]:
    return _SMALL if bench.small else _BARS
