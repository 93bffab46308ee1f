"""Functions that torch's exporter does not know, and torch does not take apart, as others.

Of equal elements of a median, torch does not say which is found.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import prod
from typing import Any, Final

from autosched.torch_frontend.experts import expert_functions
from autosched.torch_frontend.orders import order_functions

_MOST_BOUNDS: Final = 128  # each number is compared with all of them


def missing_functions() -> dict[Any, Any]:
    """ATen operators and the functions to trace in their place."""
    import torch

    aten = torch.ops.aten
    return {
        aten._neg_view.default: torch.neg,  # imaginary parts of what is conjugated
        aten.hypot.default: _hypot,
        aten.fmax.default: partial(_of_numbers, aten.maximum.default),
        aten.fmin.default: partial(_of_numbers, aten.minimum.default),
        aten.copysign.Tensor: _copysign,
        aten.copysign.Scalar: _copysign,
        aten.logcumsumexp.default: _running_log_of_sum,
        aten.cdist.default: _distances,
        aten._cdist_forward.default: _distances,
        aten._trilinear.default: _trilinear,
        aten.bucketize.Tensor: _buckets,
        aten.searchsorted.Tensor: _searched,
        aten.dist.default: _distance,
        aten.exp2.default: _power_of_two,
        aten.median.default: _whole_median,
        aten.median.dim: _median,
        aten.cummax.default: partial(_running_extreme, aten.lt.Tensor),
        aten.cummin.default: partial(_running_extreme, aten.gt.Tensor),
        aten._adaptive_avg_pool2d.default: _adaptive_mean_pool,
        aten._adaptive_avg_pool3d.default: _adaptive_mean_pool,
        aten.adaptive_max_pool2d.default: _adaptive_max_pool,
        aten.adaptive_max_pool3d.default: _adaptive_max_pool,
        **expert_functions(),
        **order_functions(),
    }


def _hypot(x: Any, y: Any) -> Any:
    """No square is too large; an infinite side wins over NaN."""
    import torch

    x, y = x.abs(), y.abs()
    long, short = torch.maximum(x, y), torch.minimum(x, y)
    ratio = torch.where(long == 0, 0.0, short / long)
    length = long * (1 + ratio * ratio).sqrt()
    return torch.where(x.isinf() | y.isinf(), torch.inf, length).to(long.dtype)


def _of_numbers(extreme: Any, x: Any, y: Any) -> Any:
    """An extreme that leaves out what is no number."""
    import torch

    return torch.where(x.isnan(), y, torch.where(y.isnan(), x, extreme(x, y)))


def _copysign(x: Any, y: Any) -> Any:
    import torch

    sign = y if isinstance(y, torch.Tensor) else torch.full((), float(y))
    dtype = torch.result_type(x, y)
    size = x.to(dtype if dtype.is_floating_point else torch.get_default_dtype()).abs()
    return torch.where(sign.signbit(), -size, size)


def _median(x: Any, dim: int, keepdim: bool = False) -> Any:
    """The lower one of two; the first NaN, which are sorted last, if there is one."""
    import torch

    if not x.dim():
        return NotImplemented
    parts, last = x.sort(dim), x.shape[dim] - 1
    found = [part.narrow(dim, last // 2, 1) for part in parts]
    if x.dtype.is_floating_point:
        numbers = (~x.isnan()).sum(dim, keepdim=True)
        first = numbers.clamp(max=last)
        pairs = zip(parts, found, strict=True)
        found = [
            torch.where(numbers <= last, part.gather(dim, first), middle) for part, middle in pairs
        ]
    return tuple(part if keepdim else part.squeeze(dim) for part in found)


def _whole_median(x: Any) -> Any:
    return _median(x.reshape(-1), 0)[0] if x.numel() else NotImplemented


def _running_extreme(loses: Any, x: Any, dim: int) -> Any:
    """Extremes so far, and where the last one of equal elements is.

    After each step an element knows twice as many before it.
    """
    import torch

    if not x.dim():
        return NotImplemented
    count = x.shape[dim]
    shape = [count if axis == dim % x.dim() else 1 for axis in range(x.dim())]
    values, places = x, torch.arange(count).reshape(shape).expand(x.shape)
    step = 1
    while step < count:
        now, before = values.narrow(dim, step, count - step), values.narrow(dim, 0, count - step)
        earlier = loses(now, before)
        if x.dtype.is_floating_point:
            earlier = (before.isnan() | earlier) & ~now.isnan()
        merged = []
        for part in (values, places):
            own, other = part.narrow(dim, step, count - step), part.narrow(dim, 0, count - step)
            later = torch.where(earlier, other, own)
            merged.append(torch.cat([part.narrow(dim, 0, step), later], dim))
        values, places = merged
        step *= 2
    return values, places


def _running_log_of_sum(x: Any, dim: int) -> Any:
    """After each step an element stands for twice as many before it; no sum is too large."""
    import torch

    if not x.dim():
        return NotImplemented
    count, step = x.shape[dim], 1
    while step < count:
        now, before = x.narrow(dim, step, count - step), x.narrow(dim, 0, count - step)
        x = torch.cat([x.narrow(dim, 0, step), torch.logaddexp(now, before)], dim)
        step *= 2
    return x


def _distances(x: Any, y: Any, p: float = 2, compute_mode: int | None = None) -> Any:
    """Norms of all differences, which no product of matrices rounds away."""
    import torch

    return torch.linalg.vector_norm(x.unsqueeze(-2) - y.unsqueeze(-3), p, dim=-1)


def _distance(x: Any, y: Any, p: float = 2) -> Any:
    import torch

    return torch.linalg.vector_norm(x - y, p)


def _power_of_two(x: Any) -> Any:
    import torch

    return torch.pow(torch.full((), 2.0), x)


def _buckets(x: Any, bounds: Any, *, out_int32: bool = False, right: bool = False) -> Any:
    return _searched(bounds, x, out_int32=out_int32, right=right)


def _searched(
    rows: Any,
    x: Any,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Any = None,
) -> Any:
    """How many elements of its sorted row come before each; NaN is behind all numbers."""
    import torch

    if sorter is not None or rows.shape[-1] > _MOST_BOUNDS:
        return NotImplemented
    each, bounds = x.unsqueeze(-1), rows if rows.dim() == 1 else rows.unsqueeze(-2)
    behind = each < bounds if right or side == "right" else each <= bounds
    return (~behind).sum(-1, dtype=torch.int32 if out_int32 else torch.int64)


def _trilinear(x: Any, y: Any, z: Any, *axes: Sequence[int], **_: int) -> Any:
    """A sum of products of three; ``axes``: dimensions that each one lacks, then those summed."""
    product: Any = 1
    for part, lacking in zip((x, y, z), axes, strict=False):
        for axis in lacking:
            part = part.unsqueeze(axis)
        product = product * part
    return product.sum(axes[3])


def _is_uneven(spatial: Sequence[int], output_size: Sequence[int]) -> bool:
    """Whether windows have several sizes; those of one size have operators."""
    return any(extent % size for extent, size in zip(spatial, output_size, strict=True))


def _adaptive_mean_pool(x: Any, output_size: Sequence[int]) -> Any:
    """Windows of several sizes: one dimension after the other, in float32 at least."""
    import torch

    rank = len(output_size)
    if not _is_uneven(x.shape[-rank:], output_size):
        return NotImplemented
    means = x if x.dtype == torch.float64 else x.to(torch.float32)
    for axis, size in enumerate(output_size, x.dim() - rank):
        means = _means(means, axis, size)
    return means.to(x.dtype)


def _means(x: Any, axis: int, size: int) -> Any:
    """Means of windows along one dimension: each is a row, with zeros where it is shorter."""
    import torch

    extent, number = x.shape[axis], torch.arange(size)[:, None]
    start = torch.div(number * extent, size, rounding_mode="floor")
    stop = torch.div((number + 1) * extent + size - 1, size, rounding_mode="floor")
    longest = max(-(-(w + 1) * extent // size) - w * extent // size for w in range(size))
    places = start + torch.arange(longest)
    rows = x.index_select(axis, places.clamp(max=extent - 1).reshape(-1))
    rows = rows.reshape(*x.shape[:axis], size, longest, *x.shape[axis + 1 :])
    after = [1] * (x.dim() - axis - 1)
    inside = (places < stop).reshape(size, longest, *after)
    count = (stop - start).reshape(size, *after)
    return torch.where(inside, rows, 0.0).sum(axis + 1) / count


def _adaptive_max_pool(x: Any, output_size: Sequence[int]) -> Any:
    """Windows of several sizes: one dimension after the other, and where the maxima are."""
    rank = len(output_size)
    spatial = x.shape[-rank:]
    if not _is_uneven(spatial, output_size):
        return NotImplemented
    values, places = x, None
    for axis in range(-1, -rank - 1, -1):
        inner = prod(spatial[axis + 1 :]) if axis < -1 else 1
        values, places = _pooled(values, places, (axis, output_size[axis], inner))
    return values, places


def _pooled(values: Any, places: Any, how: tuple[int, int, int]) -> tuple[Any, Any]:
    """Maxima along one dimension.

    Args:
        values: maxima along the dimensions after it.
        places: where these are; None: there is no dimension after it.
        how: the dimension, its extent in the result, and how many elements are after it.
    """
    import torch

    axis, size, inner = how
    extent, found = values.shape[axis], []
    for window in range(size):
        start, stop = window * extent // size, -(-(window + 1) * extent // size)
        largest, place = values.narrow(axis, start, stop - start).max(axis, keepdim=True)
        whole = (place + start) * inner
        if places is not None:
            whole = whole + places.narrow(axis, start, stop - start).gather(axis, place)
        found.append((largest, whole))
    joined = (torch.cat(list(parts), axis) for parts in zip(*found, strict=True))
    return next(joined), next(joined)
