"""Just enough of a forward pass, in NumPy float32 and NCHW, to calibrate random weights."""

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

Float32 = NDArray[np.float32]


def _windows(data: Float32, kernel: int, stride: int, padding: int, fill: float) -> Float32:
    """All windows: ``[n, c, oh, ow, kernel, kernel]``."""
    margins = ((0, 0), (0, 0), (padding, padding), (padding, padding))
    padded = np.pad(data, margins, constant_values=fill)
    windows = sliding_window_view(padded, (kernel, kernel), axis=(2, 3))
    return windows[:, :, ::stride, ::stride]


def conv2d(data: Float32, weight: Float32, stride: int, padding: int) -> Float32:
    """Convolution of ``[n, c, h, w]`` with ``[oc, c, k, k]``."""
    windows = _windows(data, weight.shape[2], stride, padding, 0.0)
    result = np.tensordot(windows, weight, axes=((1, 4, 5), (1, 2, 3)))
    return np.ascontiguousarray(result.transpose(0, 3, 1, 2))


def max_pool(data: Float32, kernel: int, stride: int, padding: int) -> Float32:
    """Maximum over square windows of ``[n, c, h, w]``."""
    return _windows(data, kernel, stride, padding, -np.inf).max(axis=(4, 5))


def channel_statistics(data: Float32) -> tuple[Float32, Float32]:
    """Mean and variance per channel, ``[c]`` each, as a batch-norm would have learnt them.

    A channel of a deep layer has only a few elements here, so its variance is averaged with that
    of the whole layer.  Both are rounded to multiples of 1/1024, which hides the last bits of the
    BLAS: the same seed gives the same network everywhere.
    """
    mean = data.mean(axis=(0, 2, 3))
    centred = data - mean[:, None, None]
    variance = (centred**2).mean(axis=(0, 2, 3))
    blended = 0.5 * variance + 0.5 * variance.mean() + 1e-2
    return _rounded(mean), _rounded(blended)


def _rounded(values: Float32) -> Float32:
    return (np.round(values * 1024) / 1024).astype(np.float32)
