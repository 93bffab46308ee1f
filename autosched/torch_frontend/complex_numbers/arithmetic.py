"""Operators that compute each element of a complex tensor from elements."""

from __future__ import annotations

import cmath
import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from autosched.torch_frontend.complex_numbers.pair import is_complex, pair_of, parts_of

_MOST_FACTORS: Final = 9  # of a power


def arithmetic_functions() -> Mapping[Any, Callable[..., Any]]:
    """ATen operators and what they are for pairs."""
    import torch

    aten = torch.ops.aten
    return {
        aten.complex.default: pair_of,
        aten.polar.default: _polar,
        aten.add.Tensor: _add,
        aten.add.Scalar: _add,
        aten.sub.Tensor: _subtract,
        aten.sub.Scalar: _subtract,
        aten.rsub.Tensor: _subtract_from,
        aten.rsub.Scalar: _subtract_from,
        aten.mul.Tensor: multiply,
        aten.mul.Scalar: multiply,
        aten.div.Tensor: _divide,
        aten.div.Scalar: _divide,
        aten.reciprocal.default: partial(_divide, 1),
        aten.pow.Tensor_Scalar: _power,
        aten.pow.Tensor_Tensor: _power,
        aten.pow.Scalar: _power,
        aten.conj_physical.default: _conjugate,
        aten._conj_physical.default: _conjugate,
        aten._conj.default: _conjugate,
        aten.abs.default: _size,
        aten.angle.default: _angle,
        aten.linalg_vector_norm.default: _norm,
        aten.sgn.default: _direction,
        aten.exp.default: _exp,
        aten.exp2.default: lambda x: _exp(multiply(x, math.log(2))),
        aten.expm1.default: _exp_less_one,
        aten.log.default: _log,
        aten.log1p.default: _log_of_one_more,
        aten.log2.default: lambda x: multiply(_log(x), 1 / math.log(2)),
        aten.log10.default: lambda x: multiply(_log(x), 1 / math.log(10)),
        aten.sqrt.default: _sqrt,
        aten.rsqrt.default: lambda x: _divide(1, _sqrt(x)),
        aten.cos.default: _cos,
        aten.sin.default: _sin,
        aten.tanh.default: _tanh,
        aten.sigmoid.default: _sigmoid,
        aten.eq.Tensor: _are_equal,
        aten.eq.Scalar: _are_equal,
        aten.ne.Tensor: lambda x, y: ~_are_equal(x, y),
        aten.ne.Scalar: lambda x, y: ~_are_equal(x, y),
        aten.isnan.default: partial(_any_part, torch.isnan),
        aten.isinf.default: partial(_any_part, torch.isinf),
    }


def _polar(size: Any, angle: Any) -> Any:
    return pair_of(size * angle.cos(), size * angle.sin())


def _add(x: Any, y: Any, *, alpha: Any = 1) -> Any:
    import torch

    if alpha != 1:
        y = multiply(y, alpha) if isinstance(y, torch.Tensor) and is_complex(alpha) else y * alpha
    (a, b), (c, d) = parts_of(x), parts_of(y)
    return pair_of(a + c, b + d)


def _subtract(x: Any, y: Any, *, alpha: Any = 1) -> Any:
    return _add(x, y, alpha=-alpha)


def _subtract_from(x: Any, y: Any, alpha: Any = 1) -> Any:
    return _add(y, x, alpha=-alpha)


def multiply(x: Any, y: Any) -> Any:
    """The product of two tensors or numbers, one of which is complex."""
    (a, b), (c, d) = parts_of(x), parts_of(y)
    if not is_complex(x):
        return pair_of(a * c, a * d)
    if not is_complex(y):
        return pair_of(a * c, b * c)
    return pair_of(a * c - b * d, a * d + b * c)


def _divide(x: Any, y: Any) -> Any:
    """The divisor is scaled, so that no square of it is too large or too small."""
    import torch

    (a, b), (c, d) = parts_of(x), parts_of(y)
    if not is_complex(y):
        return pair_of(a / c, b / c)
    if isinstance(y, complex):
        return multiply(x, 1 / y)
    scale = torch.maximum(c.abs(), d.abs())
    c, d = c / scale, d / scale
    square = (c * c + d * d) * scale
    if not is_complex(x):
        return pair_of(a * c / square, -a * d / square)
    return pair_of((a * c + b * d) / square, (b * c - a * d) / square)


def _power(x: Any, exponent: Any) -> Any:
    """Small integers by products, roots as such, others by logarithms."""
    import torch

    if not isinstance(x, torch.Tensor):
        if x == 0:
            return _power_of_zero(exponent)
        return _exp(multiply(exponent, cmath.log(x)))
    if not isinstance(exponent, int | float):
        return _power_by_logarithm(x, exponent)
    if exponent in (0.5, -0.5):
        return _sqrt(x) if exponent > 0 else _divide(1, _sqrt(x))
    if exponent not in range(1, _MOST_FACTORS):
        return _power_by_logarithm(x, exponent)
    result = x
    for _ in range(int(exponent) - 1):
        result = multiply(result, x)
    return result


def _power_by_logarithm(x: Any, exponent: Any) -> Any:
    """0 has no logarithm; its powers are 0, but the one by 0 is 1."""
    import torch

    real, imaginary = parts_of(_exp(multiply(_log(x), exponent)))
    (a, b), (c, d) = parts_of(x), parts_of(exponent)
    one = torch.as_tensor((c == 0) & (d == 0)).to(real.dtype)
    none = (a == 0) & (b == 0)
    return pair_of(torch.where(none, one, real), torch.where(none, 0.0, imaginary))


def _power_of_zero(exponent: Any) -> Any:
    """1 where the exponent is 0, 0 where its real part is positive, else no number."""
    import torch

    a, b = parts_of(exponent)
    none = torch.where(a > 0, 0.0, torch.nan).to(a.dtype)
    is_zero = (a == 0) & (b == 0)
    return pair_of(torch.where(is_zero, 1.0, none), torch.where(is_zero, 0.0, none))


def _negate(x: Any) -> Any:
    a, b = parts_of(x)
    return pair_of(-a, -b)


def _conjugate(x: Any) -> Any:
    a, b = parts_of(x)
    return pair_of(a, -b)


def _size(x: Any) -> Any:
    """No square is too large or too small."""
    a, b = parts_of(x)
    return a.hypot(b)


def _norm(x: Any, *how: Any, dtype: Any = None, **more: Any) -> Any:
    import torch

    real = None if dtype is None else dtype.to_real()
    return torch.ops.aten.linalg_vector_norm.default(_size(x), *how, dtype=real, **more)


def _angle(x: Any) -> Any:
    a, b = parts_of(x)
    return b.atan2(a)


def _direction(x: Any) -> Any:
    """A number of size 1; 0 has none."""
    import torch

    (a, b), size = parts_of(x), _size(x)
    size = torch.where(size == 0, 1.0, size)
    return pair_of(a / size, b / size)


def _exp(x: Any) -> Any:
    a, b = parts_of(x)
    return _polar(a.exp(), b)


def _exp_less_one(x: Any) -> Any:
    """``exp(a) cos(b) - 1 = (exp(a) - 1) cos(b) - 2 sin(b / 2)**2``: no digits are lost."""
    a, b = parts_of(x)
    half = (b / 2).sin()
    return pair_of(a.expm1() * b.cos() - 2 * half * half, a.exp() * b.sin())


def _log(x: Any) -> Any:
    if not is_complex(x):
        x = pair_of(x, 0)
    return pair_of(_size(x).log(), _angle(x))


def _log_of_one_more(x: Any) -> Any:
    """Of small numbers, ``|1 + x|**2 - 1`` has the digits that ``1 + x`` loses."""
    import torch

    a, b = parts_of(x)
    plain = pair_of(a + 1, b)
    small = (a * (a + 2) + b * b).log1p() / 2
    return pair_of(torch.where(_size(x) < 0.5, small, _size(plain).log()), _angle(plain))


def _sqrt(x: Any) -> Any:
    """The root with a real part that is not negative: of the larger part first."""
    import torch

    (a, b), size = parts_of(x), _size(x)
    large = ((a.abs() + size) / 2).sqrt()
    small = b.abs() / (2 * torch.where(large == 0, 1.0, large))
    real, imaginary = torch.where(a < 0, small, large), torch.where(a < 0, large, small)
    return pair_of(real, torch.where(b.signbit(), -imaginary, imaginary))


def _cos(x: Any) -> Any:
    a, b = parts_of(x)
    return pair_of(a.cos() * b.cosh(), -a.sin() * b.sinh())


def _sin(x: Any) -> Any:
    a, b = parts_of(x)
    return pair_of(a.sin() * b.cosh(), a.cos() * b.sinh())


def _tanh(x: Any) -> Any:
    """Of tangents alone, which are never too large along the real axis."""
    a, b = parts_of(x)
    t, s, c = a.tanh(), b.sin(), b.cos()
    # 1 / cosh(a)**2, which vanishes where a is large
    rest = 1 - t * t
    square = c * c + t * t * s * s
    return pair_of(t / square, s * c * rest / square)


def _sigmoid(x: Any) -> Any:
    """Of powers that are never too large."""
    import torch

    a, b = parts_of(x)
    is_left = a < 0
    power = _polar((-a.abs()).exp(), torch.where(is_left, b, -b))
    c, d = parts_of(power)
    return _divide(pair_of(torch.where(is_left, c, 1.0), torch.where(is_left, d, 0.0)), power + 1)


def _are_equal(x: Any, y: Any) -> Any:
    (a, b), (c, d) = parts_of(x), parts_of(y)
    return (a == c) & (b == d)


def _any_part(truth: Callable[[Any], Any], x: Any) -> Any:
    a, b = parts_of(x)
    return truth(a) | truth(b)
