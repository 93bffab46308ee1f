"""Find stages that slide a constant window over an image, whatever they are called."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from sketch.analysis.access import AffineForm, interval_of
from sketch.lang.expr import Axis
from sketch.lang.tensor import Compute, Placeholder, Tensor
from sketch.oracle.contraction import Factor, sum_of_products

_LEAST_AXES: Final = 3  # a batch, one dimension, channels


@dataclass(frozen=True, slots=True, eq=False)
class Correlation:
    """``out[n, h, w, o] = sum over p, q, c of data[n, y*h + p - top, x*w + q - left, c] *
    weight[p, q, c, o]``, where elements outside of the data count as zero; the same for any number
    of spatial dimensions.

    ``before``: (top, left).  ``taps``: the axes (p, q); None for a dimension with one tap.
    ``strides``: (y, x).
    """

    op: Compute
    data: Tensor
    weight: Tensor
    before: tuple[int, ...]
    taps: tuple[Axis | None, ...]
    strides: tuple[int, ...]


def correlation(op: Compute) -> Correlation | None:
    """``op`` as a correlation with a constant, or None if it is something else."""
    terms = sum_of_products(op)
    if terms is None or len(terms) != 1 or len(op.axes) < _LEAST_AXES:
        return None
    (term,) = terms
    if len(term.operands) != 2 or float(term.coefficient) != 1.0:
        return None
    first, second = term.operands
    return _matched(op, first, second) or _matched(op, second, first)


def _matched(op: Compute, data: Factor, weight: Factor) -> Correlation | None:
    kernel = weight.tensor.op
    if not isinstance(kernel, Placeholder) or not kernel.constant or kernel.prepared is not None:
        return None
    if not len(weight.forms) == len(data.forms) == len(op.axes):
        return None
    found = [_only_axis(form) for form in weight.forms]
    *taps, c, o = found
    n, *places, last = op.axes
    reduced = {id(axis) for axis in (*taps, c) if axis is not None}
    if o is not last or c is None or reduced != {id(axis) for axis in op.reduce_axes}:
        return None
    if any(tap is None and _nonzero(form) for tap, form in zip(taps, weight.forms, strict=False)):
        return None
    strides = [form[0].get(place, 0) for place, form in zip(places, data.forms[1:], strict=False)]
    spatial = [
        {place: stride} if tap is None else {place: stride, tap: 1}
        for place, tap, stride in zip(places, taps, strides, strict=True)
    ]
    wanted = ({n: 1}, *spatial, {c: 1})
    if min(strides) < 1 or any(
        _nonzero(form) != terms for form, terms in zip(data.forms, wanted, strict=True)
    ):
        return None
    shifts = [shift for _, shift in data.forms]
    if (
        shifts[0]
        or shifts[-1]
        or weight.tensor.shape != tuple(1 if axis is None else axis.extent for axis in found)
    ):
        return None
    if not _guarded(data) or any(limit != (None, None) for limit in weight.limits):
        return None
    before = tuple(-shift for shift in shifts[1:-1])
    return Correlation(op, data.tensor, weight.tensor, before, tuple(taps), tuple(strides))


def _only_axis(form: AffineForm) -> Axis | None:
    terms, shift = form
    if shift or list(terms.values()) != [1]:
        return None
    return next(iter(terms))


def _nonzero(form: AffineForm) -> dict[Axis, int]:
    return {axis: coefficient for axis, coefficient in form[0].items() if coefficient}


def _guarded(data: Factor) -> bool:
    """Whether the limits are those of the data, as far as an index may pass them."""
    for form, (low, high), extent in zip(data.forms, data.limits, data.tensor.shape, strict=True):
        least, most = interval_of(form)
        if (low if low is not None else least) != max(least, 0):
            return False
        if (high if high is not None else most) != min(most, extent - 1):
            return False
    return True
