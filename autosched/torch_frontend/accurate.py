"""Functions that torch's exporter writes in a form that computes something else.

``log(1 + x)`` and ``exp(x) - 1`` round ``x`` away; the forms here are Kahan's, in which the same
rounding occurs twice and cancels.  Logarithms to other bases are divided by one that has float32's
digits; here they are integers where they should be.  ``log(exp(x) + exp(y))`` is infinite from 89
on.  Quotients that are rounded are computed in float32, also those of integers; those of floats are
Python's, whose ``1 // 0.1`` is 9.  Remainders of floats are what a rounded quotient leaves, which
is wrong from 2**24 divisors on, and next to their multiples.  The sign of NaN is 0 for torch, its
angle is NaN.  ``x ** 0.5`` is a root, which minus infinity does not have.  Attention with a mask is
0 for torch where a query sees no key; in ONNX it would be no number or the mean of all values.
Causal attention leaves hidden keys out, whatever they are; a mask that is added would let NaN
through.  Of nothing, none is true; the exporter takes the largest of no integers, which is another
number than 0.  What it shifts is signed afterwards, so that bytes from 128 on become negative.
Whether any or all bytes are true is a byte.  What is added to a product may be no number where its
factor is 0.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any, Final

from autosched.torch_frontend.bags import bag_functions
from autosched.torch_frontend.convolutions import convolution_functions
from autosched.torch_frontend.error_functions import erfc, erfcx
from autosched.torch_frontend.missing import missing_functions
from autosched.torch_frontend.paddings import padding_functions
from autosched.torch_frontend.scatters import scatter_functions
from autosched.torch_frontend.strided import strided_functions

_BYTE: Final = 8  # bits
_LOG_2: Final = math.log(2)


def decompositions() -> dict[Any, Any]:
    """ATen operators and the functions to trace in their place."""
    import torch

    aten = torch.ops.aten
    return {
        aten.log1p.default: _log1p,
        aten.expm1.default: _expm1,
        aten.log2.default: partial(_log, 2),
        aten.log10.default: partial(_log, 10),
        aten.logaddexp.default: _logaddexp,
        aten.logaddexp2.default: _logaddexp2,
        aten.erfc.default: erfc,
        aten.special_erfcx.default: erfcx,
        aten.sign.default: _sign,
        aten.sgn.default: _sign,
        aten.atan2.default: _atan2,
        aten.pow.Tensor_Scalar: _pow,
        aten.signbit.default: _signbit,
        aten.angle.default: _angle,
        aten.div.Tensor_mode: _div,
        aten.div.Scalar_mode: _div,
        aten.floor_divide.default: _floor_divide,
        aten.remainder.Tensor: _remainder,
        aten.remainder.Scalar: _remainder,
        aten.remainder.Scalar_Tensor: _remainder,
        aten.scaled_dot_product_attention.default: _attention,
        aten.any.default: _any,
        aten.any.dim: _any,
        aten.any.dims: _any_of_dims,
        aten.all.default: _all,
        aten.all.dim: _all,
        aten.all.dims: _all,
        aten._scaled_dot_product_flash_attention_for_cpu.default: _flash_attention,
        aten.addmv.default: partial(_product_and_addend, torch.mv),
        aten.addbmm.default: partial(_product_and_addend, _sum_of_products),
        aten.baddbmm.default: partial(_product_and_addend, torch.bmm),
        **_shifts(aten),
        **bag_functions(),
        **convolution_functions(),
        **padding_functions(),
        **scatter_functions(),
        **strided_functions(),
        **missing_functions(),
    }


def _shifts(aten: Any) -> dict[Any, Any]:
    """Those written as Python's signs are operators of their own for torch."""
    operators = aten.bitwise_left_shift, aten.bitwise_right_shift
    signs = aten.__lshift__, aten.__rshift__
    shifts: dict[Any, Any] = {}
    for operator, sign in zip(operators, signs, strict=True):
        overloads = operator.Tensor, operator.Tensor_Scalar, operator.Scalar_Tensor
        shifts |= dict.fromkeys(overloads, partial(_shift, operator))
        shifts |= {sign.Tensor: operator.Tensor, sign.Scalar: operator.Tensor_Scalar}
    return shifts


def _shift(operator: Any, x: Any, places: Any) -> Any:
    """Bytes are shifted as int32."""
    import torch

    if torch.result_type(x, places) != torch.uint8:
        return NotImplemented
    data = x.to(torch.int32) if isinstance(x, torch.Tensor) else x & 0xFF
    if isinstance(places, torch.Tensor):
        amount = places.to(torch.int32).clamp(max=_BYTE)
    else:
        amount = places if 0 <= places < _BYTE else _BYTE
    return (operator(data, amount) & 0xFF).to(torch.uint8)


def _log1p(x: Any) -> Any:
    import torch

    x = _as_float(x)
    above = x + 1
    log = above.log()
    accurate = log * (x / (above - 1))
    return torch.where(above == 1, x, torch.where(above.isinf(), log, accurate))


def _expm1(x: Any) -> Any:
    import torch

    x = _as_float(x)
    power = x.exp()
    less = power - 1
    accurate = less * (x / power.log())
    plain = torch.logical_or(power.isinf(), less == -1)
    return torch.where(power == 1, x, torch.where(plain, less, accurate))


def _log(base: int, x: Any) -> Any:
    """To a base: what is an integer but for roundings is one."""
    import torch

    x = _as_float(x)
    power = x.log() / math.log(base)
    whole = power.round()
    error = 2 * torch.finfo(x.dtype).eps * whole.abs()
    return torch.where((power - whole).abs() <= error, whole, power)


def _logaddexp(x: Any, y: Any) -> Any:
    import torch

    x, y = _promoted(x, y)
    difference = (x - y).abs()
    largest = torch.maximum(x, y)
    return torch.where(x == y, x + _LOG_2, largest + (-difference).exp().log1p())


def _logaddexp2(x: Any, y: Any) -> Any:
    """To base 2: no power of a large number."""
    import torch

    x, y = _promoted(x, y)
    more = ((x - y).abs() * -_LOG_2).exp().log1p() / _LOG_2
    return torch.where(x == y, x + 1, torch.maximum(x, y) + more)


def _product_and_addend(
    product: Any, addend: Any, x: Any, y: Any, *, beta: float = 1, alpha: float = 1
) -> Any:
    """``beta * addend + alpha * product(x, y)``, without the addend where its factor is 0."""
    result = product(x, y)
    result = result if alpha == 1 else result * alpha
    if beta == 0:
        return result
    return result + (addend if beta == 1 else addend * beta)


def _sum_of_products(x: Any, y: Any) -> Any:
    return (x @ y).sum(0)


def _sign(x: Any) -> Any:
    if not x.dtype.is_floating_point:
        return NotImplemented
    return (x > 0).to(x.dtype) - (x < 0).to(x.dtype)


def _signbit(x: Any) -> Any:
    """Also of -0, whose reciprocal is minus infinity."""
    return (x < 0) | ((x == 0) & (x.reciprocal() < 0)) if x.dtype.is_floating_point else x < 0


def _angle(x: Any) -> Any:
    """0 or pi."""
    import torch

    if x.dtype.is_complex:
        return NotImplemented
    x = _as_float(x)
    return torch.where(x.isnan(), x, torch.where(x < 0, torch.pi, 0.0).to(x.dtype))


def _atan2(y: Any, x: Any) -> Any:
    """The angle to the nearer axis, then the octant."""
    import torch

    y, x = map(_as_float, _promoted(y, x))
    long, short = torch.maximum(x.abs(), y.abs()), torch.minimum(x.abs(), y.abs())
    ratio = torch.where(long == short, torch.where(long == 0, 0.0, 1.0), short / long)
    ratio = torch.where(long.isnan(), long, ratio)
    angle = ratio.to(long.dtype).atan()
    angle = torch.where(y.abs() > x.abs(), torch.pi / 2 - angle, angle)
    angle = torch.where(_signbit(x), torch.pi - angle, angle)
    return torch.where(_signbit(y), -angle, angle)


def _pow(x: Any, exponent: Any) -> Any:
    if not is_root(exponent, str(x.dtype).removeprefix("torch.")):
        return NotImplemented
    return x.sqrt() if exponent == 0.5 else x.rsqrt()


def is_root(exponent: Any, dtype: str) -> bool:
    """Whether torch takes the root of a tensor in place of a power.

    Args:
        exponent: of the power; 0.5, or -0.5 for the reciprocal of the root.
        dtype: name of the tensor's; torch has powers of float16 alone.
    """
    return dtype in ("float32", "float64", "bfloat16") and exponent in (0.5, -0.5)


def _div(x: Any, y: Any, *, rounding_mode: str | None = None) -> Any:
    import torch

    if rounding_mode is None or (_are_floats(x, y) and rounding_mode == "trunc"):
        return NotImplemented
    below = torch.floor_divide(x, y)
    if rounding_mode == "floor":
        return below
    inexact = (below * y != x) & ((x < 0) != (y < 0))
    return below + inexact.to(below.dtype)


def _floor_divide(x: Any, y: Any) -> Any:
    """That of floats as Python has it: what is left after ``fmod`` is divided, and rounded."""
    import torch

    if not _are_floats(x, y):
        return NotImplemented
    y = y if isinstance(y, torch.Tensor) else torch.full((), y, dtype=torch.result_type(x, y))
    rest = torch.fmod(x, y)
    quotient = (x - rest) / y
    quotient = torch.where((rest != 0) & ((y < 0) != (rest < 0)), quotient - 1, quotient)
    below = quotient.floor()
    below = torch.where(quotient - below > 0.5, below + 1, below)
    return torch.where(y == 0, x / y, below)


def _remainder(x: Any, y: Any) -> Any:
    """That of ``fmod``, with the sign of the divisor."""
    import torch

    if not _are_floats(x, y):
        return NotImplemented
    x = x if isinstance(x, torch.Tensor) else torch.full((), x, dtype=torch.result_type(x, y))
    rest = torch.fmod(x, y)
    return torch.where((rest != 0) & ((y < 0) != (rest < 0)), rest + y, rest)


def _are_floats(x: Any, y: Any) -> bool:
    import torch

    return bool(torch.result_type(x, y).is_floating_point)


def _promoted(x: Any, y: Any) -> tuple[Any, Any]:
    """Both in the dtype that torch computes in."""
    import torch

    dtype = torch.result_type(x, y)
    return x.to(dtype), y.to(dtype)


def _as_float(x: Any) -> Any:
    import torch

    return x if x.dtype.is_floating_point else x.to(torch.get_default_dtype())


def _any(x: Any, dim: int | None = None, keepdim: bool = False) -> Any:
    """That of nothing and of bytes; the exporter does the others right."""
    import torch

    if x.dtype == torch.uint8:
        truth = x.bool()
        return (truth.any() if dim is None else truth.any(dim, keepdim)).to(x.dtype)
    reduced = range(x.dim()) if dim is None or not x.dim() else (dim % x.dim(),)
    if not any(_is_empty(x.shape[axis]) for axis in reduced):
        return NotImplemented
    shape = [1 if axis in reduced else n for axis, n in enumerate(x.shape)]
    kept = shape if keepdim else [n for axis, n in enumerate(x.shape) if axis not in reduced]
    return torch.full(kept, 0, dtype=torch.bool)


def _truth(x: Any) -> Any:
    """Of each element: no dimensions are none, and not all as in other reductions."""
    import torch

    return x.bool() if x.dtype != torch.uint8 else x.bool().to(x.dtype)


def _all(x: Any, dim: Any = None, keepdim: bool = False) -> Any:
    """Of bytes it is a byte."""
    import torch

    if dim is not None and not isinstance(dim, int) and not dim:
        return _truth(x)
    if x.dtype != torch.uint8:
        return NotImplemented
    truth = x.bool()
    return (truth.all() if dim is None else truth.all(dim, keepdim)).to(x.dtype)


def _any_of_dims(x: Any, dim: Sequence[int] | None = None, keepdim: bool = False) -> Any:
    """One dimension after the other."""
    reduced = tuple(range(x.dim())) if dim is None else tuple(dim)
    if not reduced:
        return NotImplemented if dim is None else _truth(x)
    for axis in reduced:
        x = x.any(axis, True)
    return x if keepdim else x.squeeze(reduced)


def _is_empty(extent: Any) -> bool:
    """Whether it is known to be 0."""
    return isinstance(extent, int) and extent == 0


def _attention(
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    **more: Any,
) -> Any:
    """``softmax(query @ key^T * scale + mask) @ value``; rows that see no key are 0."""
    import torch

    empty = any(map(_is_empty, (*query.shape, *key.shape, *value.shape)))
    if _is_empty(key.shape[-2]):
        return query.new_zeros((*query.shape[:-1], value.shape[-1]))
    alone = (attn_mask is None) == is_causal or empty  # the exporter writes 0 for "as before"
    alone = alone or more.get("enable_gqa", False)  # in ONNX, keys share heads as values do
    if not alone or dropout_p:
        return NotImplemented  # torch's exporter does it right, or says that it cannot
    key, value = (_of_each_head(shared, query) for shared in (key, value))
    scale = more.get("scale")
    scale = max(query.shape[-1], 1) ** -0.5 if scale is None else scale
    scores = (query * scale) @ key.mT
    if is_causal:
        seen = torch.ones(scores.shape[-2:], dtype=torch.bool).tril()
        return torch.where(seen, scores, -torch.inf).softmax(-1) @ value
    if attn_mask is None:
        return scores.softmax(-1) @ value
    mask = attn_mask
    if mask.dtype == torch.bool:
        mask = torch.where(mask, 0.0, -torch.inf).to(query.dtype)
    unseen = mask.amax(-1, keepdim=True) == -torch.inf
    return torch.where(unseen, 0.0, (scores + mask).softmax(-1)) @ value


def _of_each_head(shared: Any, query: Any) -> Any:
    """Keys or values, repeated for the heads of queries that share them."""
    heads = query.shape[-3] if query.dim() > 2 else 1
    if shared.dim() < 3 or shared.shape[-3] == heads:
        return shared
    own = shared.shape[-3]
    repeated = shared.unsqueeze(-3).expand(*shared.shape[:-2], heads // own, *shared.shape[-2:])
    return repeated.reshape(*shared.shape[:-3], heads, *shared.shape[-2:])


def _flash_attention(
    query: Any, key: Any, value: Any, dropout_p: float = 0.0, is_causal: bool = False, **more: Any
) -> Any:
    """``_attention`` as torch calls it for CPUs; nobody reads the second result.

    The first one lies in memory as ``[batch, length, heads, size]``, which views of it rely on.
    """
    mask = more.pop("attn_mask", None)
    result = _attention(query, key, value, mask, dropout_p, is_causal, **more)
    if result is NotImplemented:
        return result
    return result.transpose(1, 2).contiguous().transpose(1, 2), query[..., 0]
