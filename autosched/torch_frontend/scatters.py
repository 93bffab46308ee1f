"""Scatters that torch's exporter refuses or gets wrong, as others.

ONNX wants no elements beyond the index, knows no means, and torch calls sums and products by other
names where it reduces in its older operator.  The exporter knows masks of the first dimensions
alone, and nothing of slices that are reduced, nor of places among all elements.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Final

_REDUCTIONS: Final = {"add": "sum", "multiply": "prod"}


def scatter_functions() -> dict[Any, Any]:
    """ATen operators and the functions to trace in their place."""
    import torch

    aten = torch.ops.aten
    return {
        aten.scatter.src: partial(_scatter, aten.scatter.src),
        aten.scatter.reduce: _reducing,
        aten.scatter.value_reduce: _reducing_number,
        aten.scatter_add.default: partial(_scatter, aten.scatter_add.default),
        aten.scatter_reduce.two: _scatter_reduce,
        aten.index_reduce.default: _index_reduce,
        aten.put.default: _put,
        aten.index_put.default: _masked_behind_others,
    }


def _scatter(operator: Any, x: Any, dim: int, index: Any, src: Any, *how: Any, **more: Any) -> Any:
    """Elements of ``src`` beyond the index are not read."""
    if src.shape == index.shape:
        return NotImplemented
    return operator(x, dim, index, _read_part(src, index), *how, **more)


def _read_part(src: Any, index: Any) -> Any:
    for axis, extent in enumerate(index.shape):
        src = src.narrow(axis, 0, extent)
    return src


def _reducing(x: Any, dim: int, index: Any, src: Any, *, reduce: str) -> Any:
    return x.scatter_reduce(dim, index, src, _REDUCTIONS[reduce])


def _reducing_number(x: Any, dim: int, index: Any, value: float, *, reduce: str) -> Any:
    import torch

    src = torch.full(index.shape, value, dtype=x.dtype)
    return x.scatter_reduce(dim, index, src, _REDUCTIONS[reduce])


def _scatter_reduce(
    x: Any, dim: int, index: Any, src: Any, reduce: str, *, include_self: bool = True
) -> Any:
    """A mean is the sum over the number of addends; what is not written stays."""
    import torch

    if reduce != "mean" or not x.dtype.is_floating_point:
        scatter = torch.ops.aten.scatter_reduce.two
        return _scatter(scatter, x, dim, index, src, reduce, include_self=include_self)
    src = _read_part(src, index)
    total = x.scatter_reduce(dim, index, src, "sum", include_self=include_self)
    own = torch.full(x.shape, int(include_self), dtype=x.dtype)
    count = own.scatter_add(dim, index, torch.ones(index.shape, dtype=x.dtype))
    return total / count.clamp(min=1)


def _index_reduce(
    x: Any, dim: int, index: Any, source: Any, reduce: str, *, include_self: bool = True
) -> Any:
    """Slices at places, as elements at places."""
    if not x.dim():
        return NotImplemented
    shape = [-1 if axis == dim % x.dim() else 1 for axis in range(x.dim())]
    places = index.reshape(shape).expand(source.shape)
    return x.scatter_reduce(dim, places, source, reduce, include_self=include_self)


def _put(x: Any, index: Any, source: Any, accumulate: bool = False) -> Any:
    """Elements at places among all."""
    flat = x.reshape(-1)
    return flat.index_put([index.reshape(-1)], source.reshape(-1), accumulate).reshape(x.shape)


def _masked_behind_others(x: Any, indices: Any, values: Any, accumulate: bool = False) -> Any:
    """A mask of the first dimensions, once its own are these."""
    import torch

    given = [(axis, index) for axis, index in enumerate(indices) if index is not None]
    if len(given) != 1:
        return NotImplemented
    axis, mask = given[0]
    if not axis or mask.dtype != torch.bool:
        return NotImplemented
    masked = range(axis, axis + mask.dim())
    lacking = x.dim() - mask.dim() + 1 - values.dim()  # dimensions that are broadcast
    values = values[(None,) * lacking].movedim(axis, 0)
    first = range(mask.dim())
    written = x.movedim(tuple(masked), tuple(first)).index_put([mask], values, accumulate)
    return written.movedim(tuple(first), tuple(masked))
