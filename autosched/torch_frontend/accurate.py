"""Functions that torch's exporter writes in a form that computes something else.

``log(1 + x)`` and ``exp(x) - 1`` round ``x`` away; the forms here are Kahan's, in which the same
rounding occurs twice and cancels.  Attention with a mask is 0 for torch where a query sees no key;
in ONNX it would be no number or the mean of all values.
"""

from __future__ import annotations

from typing import Any


def decompositions() -> dict[Any, Any]:
    """ATen operators and the functions to trace in their place."""
    import torch

    aten = torch.ops.aten
    return {
        aten.log1p.default: _log1p,
        aten.expm1.default: _expm1,
        aten.scaled_dot_product_attention.default: _attention,
        aten._scaled_dot_product_flash_attention_for_cpu.default: _flash_attention,
    }


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

    if attn_mask is None or dropout_p or more.get("enable_gqa") or is_causal:
        return NotImplemented  # torch's exporter does it right, or says that it cannot
    mask = attn_mask
    if mask.dtype == torch.bool:
        mask = torch.where(mask, 0.0, -torch.inf).to(query.dtype)
    scale = more.get("scale")
    scores = (query * (query.shape[-1] ** -0.5 if scale is None else scale)) @ key.mT
    unseen = mask.amax(-1, keepdim=True) == -torch.inf
    return torch.where(unseen, 0.0, (scores + mask).softmax(-1)) @ value


def _flash_attention(
    query: Any, key: Any, value: Any, dropout_p: float = 0.0, is_causal: bool = False, **more: Any
) -> Any:
    """``_attention`` as torch calls it for CPUs; nobody reads the second result."""
    mask = more.pop("attn_mask", None)
    result = _attention(query, key, value, mask, dropout_p, is_causal, **more)
    return result if result is NotImplemented else (result, query[..., 0])
