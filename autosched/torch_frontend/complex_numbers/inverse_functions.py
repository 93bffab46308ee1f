"""Tangents, hyperbolic functions and their inverses, of complex numbers.

The inverses are Kahan's (Branch Cuts for Complex Elementary Functions, 1987): on a branch cut the
sign of zero says which side a number is on, and next to a branch point no digits are lost.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from autosched.torch_frontend.complex_numbers.pair import pair_of, parts_of


def inverse_functions() -> Mapping[Any, Callable[..., Any]]:
    """ATen operators and what they are for pairs."""
    import torch

    aten = torch.ops.aten
    return {
        aten.tan.default: lambda z: _turned_back(torch.tanh(_turned(z))),
        aten.sinh.default: lambda z: _turned_back(torch.sin(_turned(z))),
        aten.cosh.default: lambda z: torch.cos(_turned(z)),
        aten.acos.default: _acos,
        aten.asin.default: _asin,
        aten.atan.default: lambda z: _turned_back(_atanh(_turned(z))),
        aten.acosh.default: _acosh,
        aten.asinh.default: lambda z: _turned_back(_asin(_turned(z))),
        aten.atanh.default: _atanh,
    }


def _turned(z: Any) -> Any:
    """``i z``, also where a part is infinite."""
    a, b = parts_of(z)
    return pair_of(-b, a)


def _turned_back(z: Any) -> Any:
    """``-i z``."""
    a, b = parts_of(z)
    return pair_of(b, -a)


def _roots(z: Any) -> tuple[Any, Any, Any, Any]:
    """Parts of the roots of ``1 - z`` and of ``1 + z``."""
    import torch

    a, b = parts_of(z)
    below, above = (torch.sqrt(pair_of(*parts)) for parts in ((1 - a, -b), (1 + a, b)))
    return (*parts_of(below), *parts_of(above))


def _acos(z: Any) -> Any:
    import torch

    a, b, c, d = _roots(z)
    return pair_of(2 * torch.atan2(a, c), (c * b - d * a).asinh())


def _asin(z: Any) -> Any:
    import torch

    a, b, c, d = _roots(z)
    return pair_of(torch.atan2(parts_of(z)[0], a * c - b * d), (a * d - b * c).asinh())


def _acosh(z: Any) -> Any:
    import torch

    real, imaginary = parts_of(z)
    below, above = (torch.sqrt(pair_of(real + shift, imaginary)) for shift in (-1, 1))
    (a, b), (c, d) = parts_of(below), parts_of(above)
    return pair_of((a * c + b * d).asinh(), 2 * torch.atan2(b, c))


def _atanh(z: Any) -> Any:
    """Next to a branch point the real part is large, and a difference of logarithms has it."""
    import torch

    a, b = parts_of(z)
    size = a.abs()
    near, far = (1 - size).hypot(b), (1 + size).hypot(b)
    close = (far.log() - near.log()) / 2
    real = torch.where(near < 0.5, close, (4 * size / (near * near)).log1p() / 4)
    angle = torch.atan2(2 * b, (1 - a) * (1 + a) - b * b)
    return pair_of(torch.where(a < 0, -real, real), angle / 2)
