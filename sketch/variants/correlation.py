"""Find stages that slide a constant window over an image, whatever they are called."""

from __future__ import annotations

from dataclasses import dataclass

from sketch.analysis.access import AffineForm, interval_of
from sketch.lang.expr import Axis
from sketch.lang.tensor import Compute, Placeholder, Tensor
from sketch.oracle.contraction import Factor, sum_of_products


@dataclass(frozen=True, slots=True, eq=False)
class Correlation:
    """``out[n, h, w, o] = sum over p, q, c of data[n, h + p - top, w + q - left, c] *
    weight[p, q, c, o]``, where elements outside of the data count as zero.

    ``before``: (top, left).
    """

    op: Compute
    data: Tensor
    weight: Tensor
    before: tuple[int, int]


def correlation(op: Compute) -> Correlation | None:
    """``op`` as a correlation with a constant, or None if it is something else."""
    terms = sum_of_products(op)
    if terms is None or len(terms) != 1 or len(op.axes) != 4 or len(op.reduce_axes) != 3:
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
    taps = [axis for form in weight.forms if (axis := _only_axis(form)) is not None]
    if len(taps) != 4 or len(weight.forms) != 4 or len(data.forms) != 4:
        return None
    p, q, c, o = taps
    n, h, w, last = op.axes
    if o is not last or {id(p), id(q), id(c)} != {id(axis) for axis in op.reduce_axes}:
        return None
    wanted = ({n: 1}, {h: 1, p: 1}, {w: 1, q: 1}, {c: 1})
    if any(_nonzero(form) != terms for form, terms in zip(data.forms, wanted, strict=True)):
        return None
    shifts = [shift for _, shift in data.forms]
    if shifts[0] or shifts[3] or weight.tensor.shape != tuple(axis.extent for axis in taps):
        return None
    if not _guarded(data) or any(limit != (None, None) for limit in weight.limits):
        return None
    return Correlation(op, data.tensor, weight.tensor, (-shifts[1], -shifts[2]))


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
