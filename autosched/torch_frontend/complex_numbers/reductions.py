"""Products, spreads and truth of complex tensors along dimensions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from autosched.torch_frontend.complex_numbers.pair import parts_of


def reduction_functions() -> Mapping[Any, Callable[..., Any]]:
    """ATen operators and what they are for pairs."""
    import torch

    aten = torch.ops.aten
    of_truth = (aten.any, aten.all)
    overloads = [getattr(o, name) for o in of_truth for name in ("default", "dim", "dims")]
    return {
        aten.prod.default: _product_of_all,
        aten.prod.dim_int: _product,
        aten.cumprod.default: _running_product,
        aten.var.correction: _variance,
        aten.std.correction: lambda *args, **more: _variance(*args, **more).sqrt(),
        aten.logical_not.default: lambda x: ~_is_other_than_zero(x),
        **{overload: partial(_of_truth, overload) for overload in overloads},
    }


def _product_of_all(x: Any, *, dtype: Any = None) -> Any:
    return _product(x.reshape(-1), 0, dtype=dtype)


def _product(x: Any, dim: int, keepdim: bool = False, *, dtype: Any = None) -> Any:
    """Each step multiplies one half of what is left with the other."""
    import torch

    x = x if dtype is None else x.to(dtype)
    if not x.dim():
        return x.clone()
    if not x.shape[dim]:
        shape = [1 if axis == dim % x.dim() else n for axis, n in enumerate(x.shape)]
        whole = torch.ones(shape, dtype=x.dtype)
        return whole if keepdim else whole.squeeze(dim)
    while x.shape[dim] > 1:
        count = x.shape[dim]
        half = count // 2
        pairs = x.narrow(dim, 0, half) * x.narrow(dim, half, half)
        x = pairs if count == 2 * half else torch.cat([pairs, x.narrow(dim, 2 * half, 1)], dim)
    return x if keepdim else x.squeeze(dim)


def _running_product(x: Any, dim: int, *, dtype: Any = None) -> Any:
    """After each step an element stands for twice as many before it."""
    import torch

    x = x if dtype is None else x.to(dtype)
    if not x.dim():
        return x.clone()
    count, step = x.shape[dim], 1
    while step < count:
        later = x.narrow(dim, step, count - step) * x.narrow(dim, 0, count - step)
        x = torch.cat([x.narrow(dim, 0, step), later], dim)
        step *= 2
    return x


def _variance(x: Any, *how: Any, **more: Any) -> Any:
    """That of both parts: squares of distances to the mean are sums of two squares."""
    import torch

    a, b = (torch.ops.aten.var.correction(part, *how, **more) for part in parts_of(x))
    return a + b


def _is_other_than_zero(x: Any) -> Any:
    a, b = parts_of(x)
    return (a != 0) | (b != 0)


def _of_truth(operator: Any, x: Any, *how: Any, **more: Any) -> Any:
    return operator(_is_other_than_zero(x), *how, **more)
