"""ResNet's 3x3 convolutions at batch 1 against cuDNN in float32."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, Final

from benchmarks.gpu_parts.bench import Bench
from benchmarks.gpu_parts.operators import OperatorCase, operator_rows
from benchmarks.gpu_parts.rivals import EMULATED, Rival, TorchGraph, cuda_torch
from benchmarks.gpu_parts.row_log import Row
from codegen.gpu.protocol import Device
from sketch.dag.dag import ComputeDAG
from sketch.lang.tensor import placeholder
from sketch.operators.conv import conv2d

# Height and width, channels in and out, stride.
Layer = tuple[int, int, int, int]
LAYERS: Final[tuple[Layer, ...]] = (
    (56, 64, 64, 1), (28, 128, 128, 1), (14, 256, 256, 1), (7, 512, 512, 1),
    (56, 64, 128, 2), (28, 128, 256, 2), (14, 256, 512, 2),
)  # fmt: skip
_SMALL: Final[tuple[Layer, ...]] = ((7, 16, 16, 1),)
_BAR: Final = 1.0
_TUNE_S: Final = 45.0
_SMALL_TUNE_S: Final = 1.5


def layer(size: int, channels: int, filters: int, stride: int) -> ComputeDAG:
    """A 3x3 convolution with padding 1: [1, size, size, channels], weights constant."""
    data = placeholder((1, size, size, channels), name="data")
    weight = placeholder((3, 3, channels, filters), name="weight", constant=True)
    return ComputeDAG([conv2d(data, weight, stride, 1)])


def cudnn(case: Layer, device: Device) -> Rival:
    """The fastest algorithm of cuDNN, for the faster of its two layouts.

    Raises:
        OSError: PyTorch with CUDA is not here, or the device is emulated.
    """
    if device.kind == "emulated":
        raise OSError(EMULATED)
    torch = cuda_torch()
    return min((_graph(torch, case, layout) for layout in ("NHWC", "NCHW")), key=_quickest)


def _quickest(rival: TorchGraph) -> float:
    return min(rival.seconds() for _ in range(5))


def _graph(torch: Any, case: Layer, layout: str) -> TorchGraph:
    size, channels, filters, stride = case
    kind = torch.channels_last if layout == "NHWC" else torch.contiguous_format
    data, weight = (
        torch.randn(*shape, device="cuda").to(memory_format=kind)
        for shape in ((1, channels, size, size), (filters, channels, 3, 3))
    )
    name = f"cudnn {torch.backends.cudnn.version()} {layout}"
    convolve = partial(torch.nn.functional.conv2d, data, weight, None, stride, 1)
    return TorchGraph(torch, name, convolve)


def run(bench: Bench) -> Iterator[Row]:
    """A row a layer."""
    tune_s = _SMALL_TUNE_S if bench.small else _TUNE_S
    chosen = _layers(bench)
    names = ["conv3x3_{}_{}_{}_s{}".format(*case) for case in chosen]
    cases = [
        OperatorCase(name, layer(*case), partial(cudnn, case), _BAR, tune_s)
        for name, case in zip(names, chosen, strict=True)
    ]
    yield from operator_rows(bench, cases)


def programs(bench: Bench) -> list[ComputeDAG]:
    """What is tuned."""
    return [layer(*case) for case in _layers(bench)]


def _layers(bench: Bench) -> tuple[Layer, ...]:
    return _SMALL if bench.small else LAYERS
