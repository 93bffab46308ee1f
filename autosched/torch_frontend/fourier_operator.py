"""An operator of our own: discrete Fourier transforms along one dimension."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from numpy.typing import NDArray

FOURIER: Final = "fourier"
"""Its name, among ours."""

_SCHEMA: Final = (
    "(Tensor x, int dim, int length, int results, float scale, bool inverse, bool real, "
    "int start=0, int first=0) -> Tensor"
)


def fourier_operator() -> Any:
    """The operator: ``[..., 1 or 2]``, a last dimension of parts, to such a tensor.

    Its arguments are the dimension, counted from the front; the length of the transform, for which
    what ``x`` lacks is zero; how many results are wanted; what they are multiplied with; whether
    the transform is the inverse one; whether the results are real, where half of the spectrum is
    given; the place of the first number of ``x`` in the signal, and that of the first result in the
    spectrum: both repeat themselves.
    """
    import torch

    _library()
    return getattr(torch.ops.autosched, FOURIER).default


@cache
def _library() -> Any:
    """What defines the operator, as long as it lives."""
    import torch

    library = torch.library.Library("autosched", "FRAGMENT")
    library.define(FOURIER + _SCHEMA)
    library.impl(FOURIER, _computed, "CPU")
    library.impl(FOURIER, _without_elements, "Meta")
    return library


def _computed(
    x: Any,
    dim: int,
    length: int,
    results: int,
    scale: float,
    inverse: bool,
    real: bool,
    start: int = 0,
    first: int = 0,
) -> Any:
    import torch

    numbers = torch.view_as_complex(x.contiguous()) if x.shape[-1] == 2 else x.squeeze(-1)
    if real:
        return torch.fft.irfft(numbers, length, dim, "forward").unsqueeze(-1) * scale
    whole = list(numbers.shape)
    whole[dim] = length
    signal = numbers.new_zeros(whole)
    signal.narrow(dim, 0, numbers.shape[dim]).copy_(numbers)
    transform = torch.fft.ifft if inverse else torch.fft.fft
    norm = "forward" if inverse else "backward"
    found = transform(signal.roll(start, dim), dim=dim, norm=norm).roll(-first, dim)
    return torch.view_as_real(found.narrow(dim, 0, results) * scale)


def _without_elements(x: Any, dim: int, length: int, results: int, *how: Any) -> Any:
    real = how[2]
    shape = list(x.shape)
    shape[dim], shape[-1] = results, 1 if real else 2
    return x.new_empty(shape)


def fourier_translation() -> dict[Any, Callable[..., Any]]:
    """How torch's exporter shall translate the operator."""
    return {fourier_operator(): _translated}


def _translated(
    x: Any,
    dim: int,
    length: int,
    results: int,
    scale: float,
    inverse: bool,
    real: bool,
    start: int = 0,
    first: int = 0,
) -> Any:
    """``DFT``, whose inverse is divided by the length, and which knows no real results."""
    from onnxscript import opset18 as op

    dtype = x.dtype.numpy()
    if real:  # what is missing of the spectrum has the same real part
        shape = [-1 if axis == dim else 1 for axis in range(len(x.shape))]
        factors = half_spectrum_factors(x.shape[dim], length).reshape(shape)
        x = op.Mul(x, op.Constant(value=_tensor(factors, dtype)))
    if start:
        x = _placed(x, dim, length, start)
    found = op.DFT(x, op.Constant(value_int=length), axis=dim, inverse=int(inverse), onesided=0)
    found = op.Concat(found, found, axis=dim) if first else found
    found = op.Slice(found, [first], [first + results], [dim])
    if real:
        found = op.Slice(found, [0], [1], [-1])
    factor = scale * length if inverse else scale
    return op.Mul(found, op.Constant(value=_tensor(factor, dtype)))


def _placed(x: Any, dim: int, length: int, start: int) -> Any:
    """A whole signal, some numbers of which are given: those that its end has no place for are at
    its beginning.
    """
    import numpy as np
    from onnxscript import opset18 as op

    shape, read = list(x.shape), x.shape[dim]
    shape[dim] = length - read
    zeros = op.Constant(value=_tensor(np.zeros(shape), x.dtype.numpy()))
    whole = op.Concat(x, zeros, axis=dim)
    last = op.Slice(whole, [length - start], [length], [dim])
    return op.Concat(last, op.Slice(whole, [0], [length - start], [dim]), axis=dim)


def half_spectrum_factors(read: int, length: int) -> NDArray[Any]:
    """How often numbers of half of a spectrum occur in the whole one; beyond it 0 times."""
    import numpy as np

    places = np.arange(read)
    factors = np.where((places == 0) | (2 * places == length), 1.0, 2.0)
    return np.where(2 * places > length, 0.0, factors)


def _tensor(value: Any, dtype: Any) -> Any:
    import numpy as np
    from onnxscript import ir

    return ir.tensor(np.asarray(value).astype(dtype))
