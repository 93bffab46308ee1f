"""Kernels that move data and compute little: their time against that of a copy of as many bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from math import prod
from typing import Final

from benchmarks.gpu_parts.bench import Bench
from benchmarks.gpu_parts.operators import OperatorCase, operator_rows
from benchmarks.gpu_parts.rivals import EMULATED, Copies, Rival
from benchmarks.gpu_parts.row_log import Row
from codegen.gpu.protocol import Device
from sketch.dag.dag import ComputeDAG
from sketch.lang.tensor import Tensor, placeholder
from sketch.operators.broadcast import add
from sketch.operators.elementwise import gelu
from sketch.operators.normalization import normalize
from sketch.operators.softmax import softmax

SHAPE: Final = (8192, 4096)
"""128 MiB of float32, twice what the largest L2 of these cards holds."""

_SMALL: Final = (64, 128)
_BAR: Final = 0.8
_TUNE_S: Final = 15.0
_SMALL_TUNE_S: Final = 1.5
_FLOAT_BYTES: Final = 4

_OPERATORS: Final[dict[str, Callable[[Tensor], Tensor]]] = {
    "softmax": softmax,
    "layer_norm": lambda data: normalize(data, (1,), 1e-5),
    "rms_norm": lambda data: normalize(data, (1,), 1e-5, centered=False),
    "gelu": gelu,
    "add": lambda data: add(data, placeholder(data.shape, name="other")),
}


def programs(bench: Bench) -> Mapping[str, ComputeDAG]:
    """By operator."""
    shape = _shape(bench)
    return {
        name: ComputeDAG([operator(placeholder(shape, name="data"))])
        for name, operator in _OPERATORS.items()
    }


def _shape(bench: Bench) -> tuple[int, int]:
    return _SMALL if bench.small else SHAPE


def moved_bytes(dag: ComputeDAG) -> int:
    """Bytes that a kernel reads and writes at least."""
    return sum(prod(tensor.shape) * _FLOAT_BYTES for tensor in (*dag.inputs, *dag.outputs))


def copies(size: int, device: Device) -> Rival:
    """A copy of as many bytes; raises OSError where the device is emulated."""
    if device.kind == "emulated":
        raise OSError(EMULATED)
    return Copies(device, size)


def run(bench: Bench) -> Iterator[Row]:
    """A row an operator, with the bytes a second that its best kernel moves."""
    dags = programs(bench)
    sizes = {name: moved_bytes(dag) for name, dag in dags.items()}
    tune_s = _SMALL_TUNE_S if bench.small else _TUNE_S
    cases = [
        OperatorCase(name, dag, partial(copies, sizes[name]), _BAR, tune_s)
        for name, dag in dags.items()
    ]
    for row in operator_rows(bench, cases):
        if "ours_ms" in row:
            row["gb_per_s"] = sizes[row["name"]] / row["ours_ms"] / 1e6
        yield row
