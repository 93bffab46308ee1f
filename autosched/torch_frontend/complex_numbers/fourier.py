"""Fourier transforms of pairs: one dimension after the other, as operators of our own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import prod, sqrt
from typing import Any

from autosched.torch_frontend.complex_numbers.pair import both_of, pair_of_source
from autosched.torch_frontend.complex_numbers.sources import Lines, Spectrum, padded_of


def fourier_functions() -> Mapping[Any, Callable[..., Any]]:
    """ATen operators and what they are for pairs."""
    import torch

    aten = torch.ops.aten
    return {
        aten._fft_r2c.default: _of_real,
        aten._fft_c2c.default: _of_complex,
        aten._fft_c2r.default: _to_real,
    }


def _of_real(x: Any, dim: Sequence[int], normalization: int, onesided: bool) -> Any:
    """The last dimension has half of the spectrum."""
    *others, last = (axis % x.dim() for axis in dim)
    scale = _scale(normalization, [x.shape[axis] for axis in (*others, last)])
    length = x.shape[last]
    half = Lines(last, length, length // 2 + 1 if onesided else length, scale=scale)
    lines = (half, *(Lines(axis, x.shape[axis], x.shape[axis]) for axis in others))
    return pair_of_source(Spectrum(x.unsqueeze(-1), lines))


def _of_complex(x: Any, dim: Sequence[int], normalization: int, forward: bool) -> Any:
    axes = [axis % x.dim() for axis in dim]
    scale = _scale(normalization, [x.shape[axis] for axis in axes])
    return _along(x, axes, not forward, scale)


def _to_real(x: Any, dim: Sequence[int], normalization: int, last_dim_size: int) -> Any:
    *others, last = (axis % x.dim() for axis in dim)
    scale = _scale(normalization, [last_dim_size, *(x.shape[axis] for axis in others)])
    x = _along(x, others, inverse=True)
    padded = padded_of(x)
    apart = any(padded.is_padded(axis) for axis in range(x.dim()) if axis != last)
    core = x if apart or padded.starts[last] else padded.core
    found = Lines(last, last_dim_size, last_dim_size, True, scale, real=True).of(both_of(core))
    return found.squeeze(-1)


def _along(x: Any, axes: Sequence[int], inverse: bool, scale: float = 1.0) -> Any:
    """One dimension after the other; the scale is part of the first transform.

    Zeros are not read, and those along other dimensions stay zeros.
    """
    if not axes:
        return x
    padded = padded_of(x)
    if padded.core is None:
        return x
    lines = tuple(
        Lines(
            axis,
            x.shape[axis],
            x.shape[axis],
            inverse,
            1.0 if place else scale,
            start=padded.starts[axis],
        )
        for place, axis in enumerate(axes)
    )
    found = pair_of_source(Spectrum(both_of(padded.core), lines))
    rest = [axis not in axes and padded.is_padded(axis) for axis in range(x.dim())]
    if not any(rest):
        return found
    starts = [start if rest[axis] else 0 for axis, start in enumerate(padded.starts)]
    return pair_of_source(replace(padded, core=found, starts=tuple(starts)))


def _scale(normalization: int, extents: Sequence[int]) -> float:
    """Of torch's numbers: nothing, by the root of the elements, by the elements."""
    count = prod(extents)
    return (1.0, 1 / sqrt(count), 1 / count)[normalization]
