"""Operators that read and write parts of complex tensors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from autosched.torch_frontend.complex_numbers.each_part import as_type, of_each_part
from autosched.torch_frontend.complex_numbers.pair import (
    is_pair,
    pair_of,
    pair_of_source,
    parts_of,
    same_pair,
)
from autosched.torch_frontend.complex_numbers.sources import written


def region_functions() -> Mapping[Any, Callable[..., Any]]:
    """ATen operators and what they are for pairs."""
    import torch

    aten = torch.ops.aten
    return {
        aten.slice.Tensor: _slice,
        aten.roll.default: _roll,
        aten.slice_scatter.default: _written,
    }


def _slice(
    x: Any, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> Any:
    import torch

    axis = dim % x.dim()
    first, last, _ = slice(start, end).indices(x.shape[axis])
    if step == 1 and last - first == x.shape[axis]:
        return same_pair(x)
    if step == 1 and x.source is not None and last > first:
        source = x.source.narrowed(axis, first, last - first)
        if source is not None:
            return pair_of_source(source)
    return of_each_part(torch.ops.aten.slice.Tensor, x, axis, first, last, step)


def _roll(x: Any, shifts: Sequence[int], dims: Sequence[int] = ()) -> Any:
    import torch

    source = x.source if dims else None
    for shift, dim in zip(shifts, dims, strict=False):
        source = None if source is None else source.rolled(dim % x.dim(), shift)
    if source is not None:
        return pair_of_source(source)
    return of_each_part(torch.ops.aten.roll.default, x, shifts, dims)


def _written(
    x: Any,
    src: Any,
    dim: int = 0,
    start: int | None = None,
    end: int | None = None,
    step: int = 1,
) -> Any:
    """What lies before, what is written, what lies after it."""
    axis = dim % x.dim()
    first, last, _ = slice(start, end).indices(x.shape[axis])
    src = src if src.dtype == x.dtype else as_type(src, dtype=x.dtype)
    if step != 1:
        return _written_apart(x, src, axis, range(first, last, step))
    if last - first == x.shape[axis]:
        return src
    found = written(x, src, axis, first) if is_pair(x) else None
    return _joined(x, src, axis, first, last) if found is None else found


def _written_apart(x: Any, src: Any, axis: int, places: range) -> Any:
    import torch

    every = torch.arange(x.shape[axis]) - places.start
    spread = src.index_select(axis, (every // places.step).clamp(0, src.shape[axis] - 1))
    chosen = (every >= 0) & (every < places.stop - places.start) & (every % places.step == 0)
    return torch.where(chosen.reshape(-1, *[1] * (x.dim() - 1 - axis)), spread, x)


def _joined(x: Any, src: Any, axis: int, first: int, last: int) -> Any:
    import torch

    results = []
    for index in (0, 1) if is_pair(x) else (0,):
        own, new = parts_of(x)[index], parts_of(src)[index]
        after = own.narrow(axis, last, x.shape[axis] - last)
        pieces = [own.narrow(axis, 0, first), new, after]
        results.append(torch.cat([piece for piece in pieces if piece.shape[axis]], axis))
    return pair_of(*results) if is_pair(x) else results[0]
