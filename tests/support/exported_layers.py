"""Calls of the operators that move elements, and of layers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from autosched.graph.ops.columns import Fold
from autosched.graph.ops.conv import Conv
from autosched.graph.ops.conv_transpose import ConvTranspose
from autosched.graph.ops.einsum import Einsum
from autosched.graph.ops.gather import (
    Gather,
    GatherElements,
    GatherPoints,
    OneHot,
    ReverseSequence,
)
from autosched.graph.ops.matmul import Dense, MatMul
from autosched.graph.ops.movement import Expand, Pick, Slice, Triangle
from autosched.graph.ops.narrow import NarrowMatMul
from autosched.graph.ops.pooling import GlobalPool, Pool
from autosched.graph.ops.resample import Resample
from autosched.graph.ops.scatter import SendAlong
from autosched.graph.ops.shape import Concat, Pad, Reshape, Transpose
from autosched.graph.resize_tables import Interpolation, Resizing, table
from sketch.operators.layout import Run
from sketch.operators.narrow import NarrowFormat, words_of
from tests.support.exported_operands import FEW, INTEGERS, MAP, Case, Fixed, floats, numbers, truth


def _movement() -> Iterator[Case]:
    for data in (FEW, truth(3, 4, 5), numbers(0, 9, (3, 4, 5), "int16")):
        yield Slice((0, 1, 4), (3, 4, -1), (1, 2, -1)), (data,)
        yield Slice((2, 0, 3), (-1, 4, 1), (-2, 1, -2)), (data,)
        yield Slice((0, 0, 0), (3, 4, 5), (1, 1, 1)), (data,)
        yield Expand((2, 3, 4, 5)), (data[:, :1],)
        yield Pick(1, (Run(4, 1, -1, 2), Run(8, 0, 1, 1))), (data,)
        yield Pad((0, 1, 2), (1, 0, 3), 1.0), (data,)
        yield Reshape((6, 10)), (data,)
        yield Transpose((2, 0, 1)), (data,)
        yield Concat(1), (data, data[:, :2])
    yield Pick(2, (Run(10, 0, 1, 2),)), (FEW,)
    for data in (FEW, numbers(1, 9, (4, 5), "int8"), numbers(1, 9, (4, 5), "int64"), truth(4, 5)):
        for upper, diagonal in ((True, 1), (False, -1), (False, 2)):
            yield Triangle(upper, diagonal), (data,)
    yield Triangle(False, 0, True), (FEW,)
    yield Triangle(True, 1, True), (FEW.astype(np.float64),)
    yield Fold((5, 6), (2, 3), (1, 1), (0, 1, 1, 0), (2, 1)), (floats(2, 3, 2, 3, 4, 5),)
    yield Fold((4, 6), (2, 3), (2, 3), (0, 0, 0, 0), (1, 1)), (floats(1, 2, 2, 3, 2, 2),)


def _indexing() -> Iterator[Case]:
    for dtype in ("int64", "int32", "int8"):
        yield Gather(1), (FEW, numbers(-4, 4, (2, 3), dtype))
        yield GatherElements(1), (FEW, numbers(-4, 4, (3, 6, 2), dtype))
        yield GatherPoints(), (FEW, numbers(-3, 3, (7, 2), dtype))
        yield GatherPoints(1), (FEW, numbers(-4, 4, (3, 2, 2), dtype))
        yield ReverseSequence(0, 1), (FEW, numbers(1, 5, (3,), dtype))
    yield Gather(0), (FEW, np.array(-1))
    for batch, time in ((1, 0), (2, 1), (0, 2), (2, 0), (1, 2)):
        yield ReverseSequence(batch, time), (FEW, numbers(1, 4, (FEW.shape[batch],)))
    for dtype in ("float32", "float64", "bool", *INTEGERS):
        values = np.array([0, 1]).astype(dtype)
        yield OneHot(4, 1), (numbers(-6, 6, (2, 5), "int32"), values)
    for dtype in ("float32", "float64"):
        yield OneHot(3, 0), (np.array(1), np.array([2.0, 5.0], dtype))
    for function in ("last", "sum", "prod", "max", "min"):
        yield from _sent(function)


def _sent(function: Any) -> Iterator[Case]:
    own = np.array([1, -1, 0, 1, 2])
    for dtype in ("float32", "int64", "int32"):
        data, updates = (numbers(-5, 5, shape, dtype) for shape in ((2, 4, 3), (2, 5, 3)))
        for places in (own[:, None] + np.zeros((2, 5, 3), np.int64), own.reshape(1, 5, 1)):
            yield SendAlong(1, function), (data, places, updates)
            if function != "last":
                yield SendAlong(1, function, 6), (places.astype(np.int32), updates)


def _resampled() -> Iterator[Case]:
    for mode, coordinates, size in (
        ("linear", "half_pixel", 14), ("linear", "align_corners", 5), ("cubic", "half_pixel", 9),
        ("linear", "asymmetric", 14), ("nearest", "asymmetric", 14), ("nearest", "half_pixel", 3),
    ):  # fmt: skip
        known = table(Resizing(7, size, size / 7), Interpolation(mode, coordinates))
        positions, weights = known.used("float32")
        yield Resample(3), (MAP, Fixed(positions), Fixed(weights))
        yield Resample(1), (MAP[:, :, :, 0].transpose(0, 2, 1)[:, :7], positions, weights)
    known = table(Resizing(9, 4, 4 / 9), Interpolation("linear", "half_pixel", antialias=True))
    positions, weights = known.used("float32")
    yield Resample(2), (MAP, Fixed(positions), Fixed(weights))
    yield Resample(2), (MAP, Fixed(positions - 9), Fixed(weights))
    yield Resample(2), (MAP.astype(np.float64), Fixed(positions), Fixed(weights.astype(float)))


def _products() -> Iterator[Case]:
    yield MatMul(), (floats(2, 3, 4), floats(4, 5))
    yield Dense(), (floats(3, 4), floats(4, 5), floats(5))
    yield Dense(), (floats(3, 4, dtype="float64"), floats(4, 5, dtype="float64"))
    halves = floats(3, 4, dtype="float16"), floats(4, 5, dtype="float16")
    yield MatMul("float32"), halves
    yield Dense("float32"), halves
    yield Einsum(("ik", "kj"), "ij", "float32"), halves
    for dtype in INTEGERS:
        pair = numbers(-99, 99, (3, 4), dtype), numbers(-99, 99, (4, 5), dtype)
        yield MatMul(), pair
        yield MatMul("int64"), pair
        yield Dense(), (*pair, numbers(0, 9, (5,), dtype))
        yield Einsum(("ik", "kj"), "ij"), pair
    for own in ("int8", "uint8"):
        pair = numbers(-99, 99, (3, 4), own), numbers(-99, 99, (4, 5), "int8")
        yield MatMul("int32"), pair
        yield Dense("int32"), (*pair, numbers(0, 9, (5,), "int32"))
        yield Einsum(("ik", "kj"), "ji", "int32"), pair
        kernel = numbers(-99, 99, (4, 6, 3, 3), "int8")
        data = numbers(-99, 99, (1, 6, 5, 5), own)
        yield Conv(padding=(1,) * 4, dtype="int32"), (data, Fixed(kernel))
        yield Conv(dtype="int32"), (data, Fixed(kernel), Fixed(numbers(0, 9, (4,), "int32")))
    yield Einsum(("bhqd", "bhkd"), "bhqk"), (floats(2, 3, 4, 5), floats(2, 3, 6, 5))
    yield Einsum(("bij", "bj", "i"), "bi"), (floats(2, 3, 4), floats(1, 4), floats(3))
    yield Einsum(("ii",), "i"), (floats(4, 4),)
    yield from _narrow()


def _narrow() -> Iterator[Case]:
    for bits, dtype in ((4, "float32"), (8, "uint8"), (2, "float32")):
        stored = NarrowFormat(bits, 16)
        half = 1 << (bits - 1)
        words = words_of(numbers(-half, half, (32, 3), "int8"), stored)
        scale, zero = floats(2, 3), numbers(0, 3, (2, 3), dtype)
        yield NarrowMatMul(stored), (floats(2, 32), Fixed(words), Fixed(scale))
        yield NarrowMatMul(stored), (floats(2, 32), Fixed(words), Fixed(scale), Fixed(zero))


def _windows() -> Iterator[Case]:
    yield Conv(padding=(1, 2, 3, 0)), (MAP, floats(4, 6, 3, 3), floats(4))
    yield Conv(groups=6, dilation=(2, 1)), (MAP, floats(6, 1, 3, 3))
    yield Conv((2,), (1, 1), (1,)), (FEW, floats(2, 4, 3))
    yield Conv((1,) * 3, (0,) * 6, (1,) * 3), (floats(1, 2, 4, 4, 4), floats(3, 2, 2, 2, 2))
    transposed = ConvTranspose((2, 2), (1, 0, 0, 1), output_padding=(1, 0))
    yield transposed, (MAP, floats(6, 4, 3, 3), floats(4))
    yield ConvTranspose((2, 1), groups=3), (MAP, floats(6, 2, 2, 2))
    yield ConvTranspose((2,), (0, 0), (1,), output_padding=(0,)), (FEW, floats(4, 3, 2))
    for mode in ("max", "avg", "sum"):
        yield from _pooled(mode)
    for dtype in ("int8", "uint8", "int16", "int32"):
        yield Pool("max", (2, 2), (2, 2)), (numbers(-99, 99, (1, 2, 4, 6), dtype),)
    yield GlobalPool("avg"), (MAP,)
    yield GlobalPool("max"), (MAP,)


def _pooled(mode: Any) -> Iterator[Case]:
    yield Pool(mode, (3, 3), (2, 2), (1, 0, 1, 2)), (MAP,)
    yield Pool(mode, (2,), (2,)), (FEW,)
    for counted in (False, True):
        further = {"count_include_pad": counted}
        yield Pool(mode, (2, 2), (2, 2), ceil_mode=True, **further), (MAP,)
        yield Pool(mode, (3, 3), (3, 2), (1,) * 4, ceil_mode=True, **further), (MAP,)
        yield Pool(mode, (3, 3), (1, 2), (1, 2, 0, 1), (2, 1), **further), (MAP,)


CASES: Final = {
    "movement": _movement,
    "indexing": _indexing,
    "resampled": _resampled,
    "products": _products,
    "windows": _windows,
}
"""By group."""
