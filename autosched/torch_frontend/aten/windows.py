"""Converters of convolutions and pooling."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Final

from autosched.graph.max_positions import max_positions
from autosched.graph.ops.columns import Fold, steps_of_fold
from autosched.graph.ops.conv import Conv
from autosched.graph.ops.conv_transpose import ConvTranspose
from autosched.graph.ops.pooling import Pool, PoolMode
from autosched.torch_frontend.aten.call import AtenCall, Converter, per_dimension
from sketch.lang.dtypes import is_float


def _convolution(call: AtenCall) -> str:
    rank = len(call.shape("input")) - 2
    names = "stride", "padding", "dilation", "output_padding"
    strides, padding, dilation, extra = (per_dimension(call[name], rank) for name in names)
    operands = [*call.values("input", "weight"), *call.bias("bias")]
    if call["transposed"]:
        whole = ConvTranspose(strides, padding * 2, dilation, call["groups"], output_padding=extra)
        return call.add(whole, *operands)
    return call.add(Conv(strides, padding * 2, dilation, call["groups"]), *operands)


def _pooling(mode: PoolMode, rank: int, call: AtenCall) -> Pool:
    call.require(len(call.shape("self")) == rank + 2, "pooling of one image without a batch")
    call.require(is_float(call.dtype), "pooling of integers")
    call.require(call.given.get("divisor_override") is None, "a divisor of its own")
    window = per_dimension(call["kernel_size"], rank)
    return Pool(
        mode,
        window,
        per_dimension(call["stride"], rank) if call["stride"] else window,
        per_dimension(call["padding"], rank) * 2,
        per_dimension(call.given.get("dilation", (1,)), rank),
        call["ceil_mode"],
        call.given.get("count_include_pad", False),
    )


def _mean_pool(rank: int, call: AtenCall) -> str:
    return call.add(_pooling("avg", rank, call), call.value("self"))


def _max_pool(rank: int, call: AtenCall) -> tuple[str | None, ...]:
    return _maxima(call, _pooling("max", rank, call))


def _maxima(call: AtenCall, pool: Pool) -> tuple[str | None, ...]:
    """Where they are is computed if somebody reads it."""
    data = call.value("self")
    places = max_positions(call, data, pool) if 1 in call.read else None
    return call.add(pool, data), places


def _adaptive(mode: PoolMode, rank: int, call: AtenCall) -> Pool:
    """Windows of one size, where the extents allow it."""
    extents = call.shape("self")[2:]
    call.require(len(extents) == rank, "pooling of one image without a batch")
    wanted = per_dimension(call["output_size"], rank)
    whole = all(n > 0 and extent % n == 0 for extent, n in zip(extents, wanted, strict=True))
    call.require(whole, "windows of several sizes")
    window = tuple(extent // n for extent, n in zip(extents, wanted, strict=True))
    return Pool(mode, window, window, (0,) * (2 * rank), (1,) * rank, False, mode == "avg")


def _adaptive_mean(rank: int, call: AtenCall) -> str:
    return call.add(_adaptive("avg", rank, call), call.value("self"))


def _adaptive_max(rank: int, call: AtenCall) -> tuple[str | None, ...]:
    return _maxima(call, _adaptive("max", rank, call))


def _fold(call: AtenCall) -> str:
    call.require(len(call.shape("self")) == 3, "columns without a batch")
    names = "output_size", "kernel_size", "stride", "padding", "dilation"
    image, block, strides, padding, dilation = (per_dimension(call[name], 2) for name in names)
    value = call.value("self")
    fold = Fold(image, block, strides, padding * 2, dilation)
    for op in steps_of_fold(fold, call.shape("self")):
        value = call.add(op, value)
    return value


WINDOWS: Final[Mapping[str, Converter]] = {
    "_adaptive_avg_pool2d.default": partial(_adaptive_mean, 2),
    "_adaptive_avg_pool3d.default": partial(_adaptive_mean, 3),
    "adaptive_max_pool2d.default": partial(_adaptive_max, 2),
    "adaptive_max_pool3d.default": partial(_adaptive_max, 3),
    "avg_pool2d.default": partial(_mean_pool, 2),
    "avg_pool3d.default": partial(_mean_pool, 3),
    "col2im.default": _fold,
    "convolution.default": _convolution,
    "max_pool2d_with_indices.default": partial(_max_pool, 2),
    "max_pool3d_with_indices.default": partial(_max_pool, 3),
}
