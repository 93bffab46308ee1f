"""Random tensor programs: a kernel, what is done to its data before, and to its results after.

Networks of the zoo use few shapes of few operators; a model that has seen nothing else knows
little of the next network.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Final

import numpy as np

from sketch.dag.dag import ComputeDAG
from sketch.lang.tensor import Tensor, placeholder
from sketch.operators import broadcast, elementwise, reduction
from sketch.operators.conv import conv, depthwise_conv
from sketch.operators.layout import transpose
from sketch.operators.matmul import batch_matmul, matmul
from sketch.operators.normalization import normalize
from sketch.operators.pooling import PoolKind, pool2d
from sketch.operators.softmax import softmax

# Sizes of a program: enough work to be timed, little enough to be measured often.
_LEAST_FLOPS: Final = 2e5
_MOST_FLOPS: Final = 6e8
_MOST_ELEMENTS: Final = 8_000_000
_ATTEMPTS: Final = 100
_Rng = np.random.Generator


def random_dag(seed: int) -> ComputeDAG:
    """A program of float32; equal seeds give equal programs.

    Sizes are drawn evenly on a logarithmic scale, most of them multiples of eight: odd sizes are
    rare in networks, too.
    """
    rng = np.random.default_rng(seed)
    for _ in range(_ATTEMPTS):
        dag = ComputeDAG([_program(rng)])
        arrays = (*(t.shape for t in dag.inputs), *(op.shape for op in dag.stages))
        fits = max(map(prod, arrays)) <= _MOST_ELEMENTS
        if fits and _LEAST_FLOPS <= dag.flops <= _MOST_FLOPS:
            return dag
    raise AssertionError(f"no program of a reasonable size from seed {seed}")


def _program(rng: _Rng) -> Tensor:
    kernel = _KERNELS[rng.choice(len(_KERNELS), p=_ODDS)]
    result = kernel(rng)
    for n in range(int(rng.integers(0, 4))):
        result = _step(rng, result, f"after{n}")
    return result


def _step(rng: _Rng, data: Tensor, name: str) -> Tensor:
    """One operation on every element of ``data``."""
    which = rng.integers(6)
    if which < 2:
        channel = placeholder(data.shape[-1:], name=f"{name}_by", constant=True)
        return (broadcast.add if which == 0 else broadcast.multiply)(data, channel, name)
    if which == 2:
        return broadcast.add(data, placeholder(data.shape, name=f"{name}_with"), name)
    if which == 3:
        return elementwise.clip(data, 0.0, 6.0, name)
    if which == 4:
        return elementwise.sigmoid(data, name)
    return elementwise.relu(data, name)


def _data(rng: _Rng, shape: tuple[int, ...], name: str = "data") -> Tensor:
    """An input, or an operation on every element of one."""
    data = placeholder(shape, name=name)
    return _step(rng, data, f"{name}_before") if rng.random() < 0.2 else data


def _size(rng: _Rng, least: int, most: int) -> int:
    size = round(2.0 ** rng.uniform(np.log2(least), np.log2(most)))
    return size if size < 12 or rng.random() < 0.2 else size // 8 * 8


def _weight(shape: tuple[int, ...]) -> Tensor:
    return placeholder(shape, name="weight", constant=True)


def _batch(rng: _Rng) -> int:
    return int(rng.choice((1, 1, 1, 2, 4, 8)))


def _convolution(rng: _Rng) -> Tensor:
    rank = int(rng.choice((1, 2, 2, 2, 2, 3)))
    kernel = int(rng.choice((1, 1, 3, 3, 3, 5, 7)))
    groups = int(rng.choice((1, 1, 1, 1, 2, 4)))
    inputs, outputs = (groups * _size(rng, 2, 512 // groups) for _ in range(2))
    extents = (max(kernel, _size(rng, 4, (1024, 128, 24)[rank - 1])),) * rank
    data = _data(rng, (_batch(rng), *extents, inputs))
    weight = _weight((*(kernel,) * rank, inputs // groups, outputs))
    stride, dilation = int(rng.choice((1, 1, 1, 2))), 1
    padding = kernel // 2 if rng.random() < 0.8 else 0
    return conv(data, weight, stride, padding, dilation, groups, "conv")


def _depthwise(rng: _Rng) -> Tensor:
    kernel, channels = int(rng.choice((3, 3, 5, 7))), _size(rng, 8, 1024)
    extent = max(kernel, _size(rng, 4, 128))
    data = _data(rng, (_batch(rng), extent, extent, channels))
    weight = _weight((kernel, kernel, 1, channels))
    return depthwise_conv(data, weight, int(rng.choice((1, 1, 2))), kernel // 2, 1, "depthwise")


def _product(rng: _Rng) -> Tensor:
    m, n, k = _size(rng, 1, 1024), _size(rng, 8, 2048), _size(rng, 8, 2048)
    if rng.random() < 0.3:
        count = _size(rng, 2, 32)
        return batch_matmul(
            _data(rng, (count, m, k)), _data(rng, (count, k, n), "other"), "product"
        )
    return matmul(_data(rng, (m, k)), _weight((k, n)), "product")


def _reduction(rng: _Rng) -> Tensor:
    shape = tuple(_size(rng, 2, 512) for _ in range(int(rng.integers(2, 5))))
    axes = sorted(rng.permutation(len(shape))[: rng.integers(1, len(shape))].tolist())
    reduce = (reduction.sum, reduction.max, reduction.mean)[rng.integers(3)]
    return reduce(_data(rng, shape), axes, True, "reduced")


def _rows(rng: _Rng) -> Tensor:
    shape = (_size(rng, 8, 2048), _size(rng, 8, 2048))
    if rng.random() < 0.5:
        return softmax(_data(rng, shape), name="softmax")
    return normalize(_data(rng, shape), [1], 1e-5)


def _pooling(rng: _Rng) -> Tensor:
    kernel, extent = int(rng.choice((2, 3, 3, 5))), _size(rng, 8, 128)
    data = _data(rng, (_batch(rng), extent, extent, _size(rng, 8, 512)))
    kind: PoolKind = "max" if rng.random() < 0.5 else "avg"
    return pool2d(data, kind, kernel, int(rng.choice((1, 2))), kernel // 2)


def _moving(rng: _Rng) -> Tensor:
    rank = int(rng.integers(2, 5))
    shape = tuple(_size(rng, 2, 256) for _ in range(rank))
    return transpose(_data(rng, shape), rng.permutation(rank).tolist())


def _elements(rng: _Rng) -> Tensor:
    shape = tuple(_size(rng, 2, 256) for _ in range(int(rng.integers(2, 5))))
    return _step(rng, _step(rng, _data(rng, shape), "first"), "second")


_KERNELS: Final[tuple[Callable[[_Rng], Tensor], ...]] = (
    _convolution, _depthwise, _product, _reduction, _rows, _pooling, _moving, _elements,
)  # fmt: skip
_ODDS: Final = (0.35, 0.1, 0.2, 0.1, 0.08, 0.07, 0.05, 0.05)
