"""Square products on tensor units against cuBLAS: of bfloat16 and of float32 rounded to tf32, in
float32, and of bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Final, NamedTuple

from benchmarks.gpu_parts.bench import Bench
from benchmarks.gpu_parts.operators import OperatorCase, operator_rows
from benchmarks.gpu_parts.rivals import EMULATED, Rival, TorchGraph, cuda_torch
from benchmarks.gpu_parts.row_log import Row
from codegen.gpu.protocol import Device
from sketch.dag.dag import ComputeDAG
from sketch.lang import reducers
from sketch.lang.expr import cast
from sketch.lang.tensor import compute, placeholder, reduce_axis
from sketch.operators.factors import TF32, factor
from sketch.target.target import Target
from sketch.target.units import units_of

_TUNE_S: Final = 60.0
_SMALL_TUNE_S: Final = 1.5
_SMALL: Final = 64


class UnitCase(NamedTuple):
    """A product: the types of its elements, of what they are multiplied and summed as (or tf32) and
    of its result, its size, and the least ratio of the rival's time and ours, on cards
    where single warps multiply, and where four warps together do, which alone reach the whole rate.
    """

    operand: str
    sums: str
    result: str
    size: int
    bar: float
    together_bar: float

    def bar_on(self, target: Target) -> float:
        """The one for a card."""
        together = any(u.reads_shared and u.lhs == self.operand for u in units_of(target))
        return self.together_bar if together else self.bar


CASES: Final[Mapping[str, UnitCase]] = {
    "bf16": UnitCase("bfloat16", "float32", "bfloat16", 4096, 0.55, 0.8),
    "tf32": UnitCase("float32", TF32, "float32", 4096, 0.0, 0.0),
    "int8": UnitCase("int8", "int32", "int32", 4096, 0.5, 0.5),
}


def product(case: UnitCase, size: int) -> ComputeDAG:
    """``C = A @ B``, all of [size, size]; B is a constant, as weights are."""
    lhs = placeholder((size, size), case.operand, name="A")
    rhs = placeholder((size, size), case.operand, name="B", constant=True)
    r = reduce_axis(size, "r")
    whole = case.result in (case.sums, "float32")
    sums = compute(
        (size, size),
        lambda i, j: reducers.sum(factor(lhs[i, r], case.sums) * factor(rhs[r, j], case.sums), r),
        name="C" if whole else "sums",
    )
    if whole:
        return ComputeDAG([sums])
    return ComputeDAG([compute((size, size), lambda i, j: cast(sums[i, j], case.result), name="C")])


def cublas(case: UnitCase, size: int, device: Device) -> Rival:
    """The library through PyTorch.

    Raises:
        OSError: PyTorch has no GPU here, or the device is emulated.
    """
    if device.kind == "emulated":
        raise OSError(EMULATED)
    torch = cuda_torch()
    name = f"cublas of CUDA {torch.version.cuda}"
    if case.operand == "int8":
        one, other = (
            torch.randint(-128, 128, (size, size), dtype=torch.int8, device="cuda")
            for _ in range(2)
        )
        other = other.t()  # the layout in which this product is fast
        return TorchGraph(torch, name, lambda: torch._int_mm(one, other))
    dtype = getattr(torch, case.operand)
    one, other = (torch.randn(size, size, device="cuda", dtype=dtype) for _ in range(2))
    out = torch.empty_like(one)
    kept = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = case.sums == TF32
    try:  # the graph keeps what is chosen now
        return TorchGraph(torch, name, lambda: torch.mm(one, other, out=out))
    finally:
        torch.backends.cuda.matmul.allow_tf32 = kept


def run(bench: Bench) -> Iterator[Row]:
    """A row a type, with the operations a second of the best kernel."""
    tune_s = _SMALL_TUNE_S if bench.small else _TUNE_S
    cases = []
    for name, case in CASES.items():
        size = _SMALL if bench.small else case.size
        bar = 0.0 if bench.small else case.bar_on(bench.target)
        rival = partial(cublas, case, size)
        cases.append(OperatorCase(f"{name}_{size}", product(case, size), rival, bar, tune_s))
    for row in operator_rows(bench, cases):
        if "ours_ms" in row:
            row["gops"] = row["gflop"] / row["ours_ms"] * 1e3
        yield row


def programs(bench: Bench) -> list[ComputeDAG]:
    """What is tuned."""
    return [product(case, _SMALL if bench.small else case.size) for case in CASES.values()]
