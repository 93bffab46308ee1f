"""Just enough of a forward pass, in NumPy float32 and channels first, to calibrate random weights.

Data are ``[n, c, ...]`` with any number of spatial dimensions; kernels, strides and padding (the
same on both sides) have one number for each of them.
"""

from __future__ import annotations

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

Float32 = NDArray[np.float32]
Extents = tuple[int, ...]


def _windows(
    data: Float32, kernel: Extents, strides: Extents, padding: Extents, fill: float = 0.0
) -> Float32:
    """All windows: ``[n, c, *outputs, *kernel]``."""
    rank = len(kernel)
    margins = ((0, 0), (0, 0), *((pad, pad) for pad in padding))
    padded = np.pad(data, margins, constant_values=fill)
    windows = sliding_window_view(padded, kernel, axis=tuple(range(2, 2 + rank)))
    return windows[(slice(None), slice(None), *(slice(None, None, stride) for stride in strides))]


def _over_windows(windows: Float32) -> Extents:
    """The dimensions of ``_windows`` that run within one window."""
    rank = (windows.ndim - 2) // 2
    return tuple(range(2 + rank, 2 + 2 * rank))


def conv(
    data: Float32, weight: Float32, strides: Extents, padding: Extents, groups: int = 1
) -> Float32:
    """Convolution of ``[n, c, ...]`` with ``[oc, c / groups, *kernel]``.

    Args:
        data: ``[n, c, ...]``.
        weight: in the layout above.
        strides: of the windows, one for each spatial dimension.
        padding: on both sides of each spatial dimension.
        groups: number of groups.
    """
    kernel = weight.shape[2:]
    windows = _windows(data, kernel, strides, padding)
    batch, outputs = windows.shape[0], windows.shape[2 : 2 + len(kernel)]
    grouped = windows.reshape(batch, groups, -1, *windows.shape[2:])
    spatial = tuple(range(3, 3 + len(outputs)))
    taps = tuple(range(3 + len(outputs), grouped.ndim))
    rows = grouped.transpose(1, 0, *spatial, 2, *taps).reshape(groups, batch * np.prod(outputs), -1)
    columns = weight.reshape(groups, weight.shape[0] // groups, -1).transpose(0, 2, 1)
    product = (rows @ columns).reshape(groups, batch, *outputs, -1)
    channels_first = np.moveaxis(np.moveaxis(product, 0, 1), -1, 2)
    return np.ascontiguousarray(channels_first.reshape(batch, -1, *outputs))


def conv_transpose(
    data: Float32, weight: Float32, strides: Extents, padding: Extents, groups: int = 1
) -> Float32:
    """Transposed convolution of ``[n, c, ...]`` with ``[c, oc / groups, *kernel]``.

    A convolution of the data, spread out with zeros between them, with the mirrored kernel.

    Args:
        data: ``[n, c, ...]``.
        weight: in the layout above.
        strides: of the windows, one for each spatial dimension.
        padding: on both sides of each spatial dimension.
        groups: number of groups.
    """
    kernel = weight.shape[2:]
    extents = [(e - 1) * s + 1 for e, s in zip(data.shape[2:], strides, strict=True)]
    spread = np.zeros((*data.shape[:2], *extents), np.float32)
    everything = slice(None)
    spread[(everything, everything, *(slice(None, None, s) for s in strides))] = data
    grouped = weight.reshape(groups, -1, *weight.shape[1:]).swapaxes(1, 2)
    mirrored = np.flip(grouped, axis=tuple(range(3, grouped.ndim)))
    margins = tuple(k - 1 - pad for k, pad in zip(kernel, padding, strict=True))
    per_output = mirrored.reshape(-1, *mirrored.shape[2:])
    return conv(spread, per_output, (1,) * len(kernel), margins, groups)


def max_pool(data: Float32, kernel: Extents, strides: Extents, padding: Extents) -> Float32:
    """Maximum over the windows that fit.

    Args:
        data: ``[n, c, ...]``.
        kernel: extent of the window: one number or (height, width).
        strides: of the windows, one for each spatial dimension.
        padding: on both sides of each spatial dimension.
    """
    windows = _windows(data, kernel, strides, padding, -np.inf)
    return windows.max(axis=_over_windows(windows))


def average_pool(data: Float32, kernel: Extents, strides: Extents, padding: Extents) -> Float32:
    """Average over the windows that fit; padding counts as zeros.

    Args:
        data: ``[n, c, ...]``.
        kernel: extent of the window: one number or (height, width).
        strides: of the windows, one for each spatial dimension.
        padding: on both sides of each spatial dimension.
    """
    windows = _windows(data, kernel, strides, padding)
    return windows.mean(axis=_over_windows(windows))


def channel_statistics(data: Float32) -> tuple[Float32, Float32]:
    """Mean and variance per channel, ``[c]`` each, as a batch-norm would have learnt them.

    A channel of a deep layer has only a few elements here, so its variance is averaged with that
    of the whole layer.  Both are rounded to multiples of 1/1024, which hides the last bits of the
    BLAS: the same seed gives the same network everywhere.
    """
    others = (0, *range(2, data.ndim))
    mean = data.mean(axis=others, keepdims=True)
    variance = ((data - mean) ** 2).mean(axis=others)
    blended = 0.5 * variance + 0.5 * variance.mean() + 1e-2
    return _rounded(mean.reshape(-1)), _rounded(blended)


def normalizing_scale(data: Float32) -> np.float32:
    """The power of two that brings the standard deviation of a whole layer closest to 1.

    Layer-sequential unit variance (Mishkin and Matas, 2016), for layers that no batch-norm follows.
    A power of two changes no bit of a weight but its exponent.
    """
    return np.float32(2.0 ** -np.round(np.log2(data.std(dtype=np.float64))))


def _rounded(values: Float32) -> Float32:
    return (np.round(values * 1024) / 1024).astype(np.float32)
