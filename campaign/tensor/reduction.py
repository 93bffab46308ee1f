"""Reductions over the last axes of a grid."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from campaign.tensor.numbers import Array, Number, arithmetic, is_float, rounded

_SMALL: Final = 1e-30
_ROUNDING: Final = 2.0**-21


def reduce_numbers(kind: str, terms: Sequence[Number], depth: int) -> list[Number]:
    """Reduce a tuple of ``terms`` over the last ``depth`` axes with the reducer ``kind``."""
    flat = [_flattened(term, depth) for term in terms]
    match kind:
        case "sum" | "prod" | "max" | "min":
            return [_one(kind, flat[0])]
        case "argmax" | "argmin":
            return _position(kind, flat[0], flat[1])
        case "sum_max":
            return [_one("sum", flat[0]), _one("max", flat[1])]
        case "sum_sum":
            return [_one("sum", flat[0]), _one("sum", flat[1])]
        case "log_sum":
            return _log_sum(flat[0], flat[1])
    raise AssertionError(kind)


def _flattened(term: Number, depth: int) -> Number:
    """The reduce axes as one; 16-bit floats become float32."""
    shape = (*term.value.shape[: term.value.ndim - depth], -1)
    return Number(term.value.reshape(shape), term.error.reshape(shape), arithmetic(term.dtype))


def _one(kind: str, term: Number) -> Number:
    if is_float(term.dtype):
        if kind in ("max", "min"):
            return _extreme(kind, term)
        return _sum(term) if kind == "sum" else _prod(term)
    function: Any = {"sum": np.sum, "prod": np.prod, "max": np.max, "min": np.min}[kind]
    typed = {"dtype": term.value.dtype} if kind in ("sum", "prod") else {}
    value = function(term.value, axis=-1, **typed)
    return Number(np.asarray(value), np.max(term.error, axis=-1), term.dtype)


def _sum(term: Number) -> Number:
    """A chain of n additions, in any order.

    Their roundings are as good as random, but those of equal terms are alike; sums of more than
    1,024 terms consist of shorter ones.
    """
    count = term.value.shape[-1]
    roundoffs = 4 + max(2 * count**0.5, min(count, 1024) / 2)
    value, size = np.sum(term.value, axis=-1), np.sum(np.abs(term.value), axis=-1)
    chain = rounded(size, np.zeros_like(size), term.dtype, roundoffs).error
    return rounded(value, np.sum(term.error, axis=-1) + chain, term.dtype, 0)


def _prod(term: Number) -> Number:
    """Gives up where a partial product may leave the range."""
    count = term.value.shape[-1]
    size = np.abs(term.value)
    value, large = np.prod(term.value, axis=-1), np.prod(size + term.error, axis=-1)
    slack = large - np.prod(size, axis=-1)
    highest = np.prod(np.maximum(size, 1), axis=-1)
    lowest = np.prod(np.where(size > 0, np.minimum(size, 1), 1), axis=-1)
    slack = np.where((highest > 1 / _SMALL) | (lowest < _SMALL), np.inf, slack)
    return rounded(value, slack, term.dtype, 2.0 * count)


def _extreme(kind: str, term: Number) -> Number:
    function = np.max if kind == "max" else np.min
    return Number(function(term.value, axis=-1), np.max(term.error, axis=-1), term.dtype)


def _position(kind: str, position: Number, term: Number) -> list[Number]:
    """(position, value) of the best; the smallest position wins a tie, NaN is the best."""
    value, function = term.value, np.max if kind == "argmax" else np.min
    best: Array = np.asarray(function(value, axis=-1, keepdims=True))
    ties = (value == best) | (np.isnan(value) & np.isnan(best))
    far = np.iinfo(position.value.dtype).max
    found = np.min(np.where(ties, position.value, far), axis=-1)
    slack = np.max(term.error, axis=-1, keepdims=True)
    near = np.sum(~(np.abs(value - best) > 2 * slack), axis=-1)
    unclear = (slack[..., 0] > 0) & (near > 1)
    return [
        Number(found, np.where(unclear, np.inf, 0.0), position.dtype),
        _extreme("max" if kind == "argmax" else "min", term),
    ]


def _log_sum(top: Number, weight: Number) -> list[Number]:
    """(largest x, sum of w * exp(x - largest)): the running form of softmax."""
    count = top.value.shape[-1]
    best = np.max(top.value, axis=-1, keepdims=True)
    shift = np.exp(top.value - best)
    terms = weight.value * shift
    size = np.sum(np.abs(terms) * (1 + np.abs(top.value - best)), axis=-1)
    moved = np.sum(np.abs(terms) * (np.expm1(2 * np.max(top.error, axis=-1, keepdims=True))), -1)
    slack = moved + np.sum(weight.error * shift, axis=-1)
    chain = rounded(size, np.zeros_like(size), top.dtype, 20 + 4 * count).error
    return [
        _extreme("max", top),
        rounded(np.sum(terms, axis=-1), slack + chain, top.dtype, 2),
    ]


def widened(number: Number, growth: float, count: int) -> Number:
    """A sum as another algorithm may find it: its errors are relative to the largest of the array.

    Where windows are all padding it rounds sums of ``count`` products beside them, even beyond the
    array's end; the products are of order one and of either sign.
    """
    known = np.isfinite(number.error)
    beside = _ROUNDING * count**0.5
    largest = float(np.max(number.error, initial=beside, where=known))
    return number._replace(error=np.where(known, growth * largest, number.error))
