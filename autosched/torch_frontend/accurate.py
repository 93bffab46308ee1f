"""Functions that torch's exporter writes in a form that loses the digits of small numbers.

``log(1 + x)`` and ``exp(x) - 1`` round ``x`` away; the forms here are Kahan's, in which the same
rounding occurs twice and cancels.
"""

from __future__ import annotations

from typing import Any


def decompositions() -> dict[Any, Any]:
    """ATen operators and the functions to trace in their place."""
    import torch

    return {torch.ops.aten.log1p.default: _log1p, torch.ops.aten.expm1.default: _expm1}


def _log1p(x: Any) -> Any:
    import torch

    x = _as_float(x)
    above = x + 1
    accurate = above.log() * (x / (above - 1))
    return torch.where(above == 1, x, torch.where(above.isinf(), above, accurate))


def _expm1(x: Any) -> Any:
    import torch

    x = _as_float(x)
    power = x.exp()
    less = power - 1
    accurate = less * (x / power.log())
    plain = torch.logical_or(power.isinf(), less == -1)
    return torch.where(power == 1, x, torch.where(plain, less, accurate))


def _as_float(x: Any) -> Any:
    import torch

    return x if x.dtype.is_floating_point else x.to(torch.get_default_dtype())
