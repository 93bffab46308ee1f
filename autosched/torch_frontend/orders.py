"""Sorts and first elements, as functions that torch's exporter writes and ONNX has.

Sorts are stable in ONNX, and none takes bfloat16: its numbers are sorted as float32, which has all
of them.
"""

from __future__ import annotations

from functools import partial
from typing import Any


def order_functions() -> dict[Any, Any]:
    """ATen operators and the functions to trace in their place."""
    import torch

    aten = torch.ops.aten
    return {
        aten.argsort.default: _order,
        aten.argsort.stable: _stable_order,
        aten.sort.stable: _stable_sort,
        aten.sort.default: partial(_as_floats, aten.sort.default),
        aten.topk.default: partial(_as_floats, aten.topk.default),
        aten.kthvalue.default: _kth,
    }


def _as_floats(operator: Any, x: Any, *more: Any, **named: Any) -> Any:
    """Elements and their positions; of bfloat16."""
    import torch

    if x.dtype != torch.bfloat16:
        return NotImplemented
    values, places = operator(x.to(torch.float32), *more, **named)
    return values.to(x.dtype), places


def _order(x: Any, dim: int = -1, descending: bool = False) -> Any:
    return _stable_sort(x, dim=dim, descending=descending)[1]


def _stable_sort(
    x: Any, *, stable: bool | None = None, dim: int = -1, descending: bool = False
) -> Any:
    import torch

    return torch.ops.aten.sort.default(x, dim, descending)


def _stable_order(x: Any, **more: Any) -> Any:
    return _stable_sort(x, **more)[1]


def _kth(x: Any, k: int, dim: int = -1, keepdim: bool = False) -> Any:
    """The last of the first k, from the end that is nearer."""
    if not x.dim():
        return NotImplemented
    from_end = x.shape[dim] - k + 1
    count = min(k, from_end)
    ordered = x.topk(count, dim, largest=from_end < k)
    parts = (part.narrow(dim, count - 1, 1) for part in ordered)
    return tuple(part if keepdim else part.squeeze(dim) for part in parts)
