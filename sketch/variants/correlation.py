"""Find stages that slide a constant window over an image, whatever they are called."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from sketch.analysis.access import AffineForm, interval_of
from sketch.lang.expr import Axis
from sketch.lang.tensor import Compute, Placeholder, Tensor
from sketch.oracle.contraction import Factor, sum_of_products

_LEAST_AXES: Final = 3  # a batch, one dimension, channels
_LEAST_RANK: Final = 2  # of a weight: channels and filters


@dataclass(frozen=True, slots=True)
class KernelIndex:
    """``start + step * tap + turn * phase``: which element of the weight is read in a dimension.

    Attributes:
        extent: of the weight.
        phase: position of the axis of the phase among the axes between the batch and the filters;
            None where there is one phase.
        phases: how many there are.
        slope: by how much a phase moves the data.
    """

    extent: int
    start: int = 0
    step: int = 1
    turn: int = 0
    phase: int | None = None
    phases: int = 1
    slope: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Correlation:
    """``out[n, h, w, o] = sum over p, q, c of data[n, y*h + p - top, x*w + q - left, c] *
    weight[p, q, c, o]``, where elements outside of the data count as zero; the same for any number
    of spatial dimensions.

    The phases of a transposed convolution are such, too: an axis of the phase f moves both, so that
    the data are read at ``h + slope*f + p - top`` and the weight at ``start + step*p + turn*f``.
    Taps of a dilated convolution meet every d-th element: ``h + d*p - top``.

    ``before``: (top, left).  ``taps``: the axes (p, q); None for a dimension with one tap.
    ``strides``: (y, x).  ``kernel``: where the weight is read, by dimension.  ``places``: positions
    of (h, w) among the axes between the batch and the filters; the others are phases.
    ``spacings``: the d of every dimension.
    """

    op: Compute
    data: Tensor
    weight: Tensor
    before: tuple[int, ...]
    taps: tuple[Axis | None, ...]
    strides: tuple[int, ...]
    kernel: tuple[KernelIndex, ...]
    places: tuple[int, ...]
    spacings: tuple[int, ...]


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
    if not zero_outside(data) or any(limit != (None, None) for limit in weight.limits):
        return None
    if len(weight.forms) != len(data.forms) or len(weight.forms) < _LEAST_RANK:
        return None
    (n, *between, last), c = op.axes, _only_axis(weight.forms[-2])
    ends = _only_axis(data.forms[0]) is n and _only_axis(data.forms[-1]) is c
    channels = 1 if c is None else c.extent
    single = weight.tensor.shape[-2] == data.tensor.shape[-1] == 1  # no axis walks them
    if not ends or (c is None and not single) or _only_axis(weight.forms[-1]) is not last:
        return None
    sides = zip(data.forms[1:-1], weight.forms[:-2], weight.tensor.shape, strict=False)
    dims = [_dimension(between, moves, turns, extent) for moves, turns, extent in sides]
    found = [dim for dim in dims if dim is not None]
    used = [axis for dim in found for axis in dim.axes]
    if len(found) < len(dims) or {id(a) for a in used} != {id(a) for a in between}:
        return None
    reduced = {id(axis) for axis in (c, *(dim.tap for dim in found)) if axis is not None}
    if len(used) != len(between) or reduced != {id(axis) for axis in op.reduce_axes}:
        return None
    if weight.tensor.shape[-2:] != (channels, last.extent) or data.tensor.shape[-1] != channels:
        return None  # of the data all channels are read
    return Correlation(
        op,
        data.tensor,
        weight.tensor,
        tuple(dim.before for dim in found),
        tuple(dim.tap for dim in found),
        tuple(dim.stride for dim in found),
        tuple(dim.kernel for dim in found),
        tuple(between.index(dim.axes[0]) for dim in found),
        tuple(dim.spacing for dim in found),
    )


class _Dimension(NamedTuple):
    """A dimension of a correlation; ``axes``: its place, and its phase where there are some."""

    axes: tuple[Axis, ...]
    tap: Axis | None
    stride: int
    before: int
    kernel: KernelIndex
    spacing: int


def _dimension(
    between: Sequence[Axis], data: AffineForm, weight: AffineForm, extent: int
) -> _Dimension | None:
    """A dimension from how data and weight are indexed in it, if it is one of a correlation."""
    moves, turns = _nonzero(data), _nonzero(weight)
    taps = [axis for axis in moves if axis.kind == "reduce"]
    phases = [axis for axis in turns if axis.kind != "reduce"]
    places = [axis for axis in moves if axis.kind != "reduce" and axis not in phases]
    if len(places) != 1 or len(taps) > 1 or len(phases) > 1 or not set(turns) <= {*taps, *phases}:
        return None
    if not {id(axis) for axis in (*places, *phases)} <= {id(axis) for axis in between}:
        return None  # such as a weight for each element of a batch
    (place,), tap, phase = places, next(iter(taps), None), next(iter(phases), None)
    spacing = 1 if tap is None else moves[tap]
    if min(moves[place], spacing) < 1 or (tap is not None and tap not in turns):
        return None
    if spacing > 1 and (phase is not None or moves[place] > 1):
        return None
    index = KernelIndex(extent, weight[1], 1 if tap is None else turns[tap])
    if phase is not None:
        which = [axis is phase for axis in between].index(True)
        slope = moves.get(phase, 0)
        index = replace(index, turn=turns[phase], phase=which, phases=phase.extent, slope=slope)
    elif (index.start, index.step, 1 if tap is None else tap.extent) != (0, 1, extent):
        return None
    return _Dimension((place, *phases), tap, moves[place], -data[1], index, spacing)


def _only_axis(form: AffineForm) -> Axis | None:
    terms = _nonzero(form)
    if form[1] or list(terms.values()) != [1]:
        return None
    return next(iter(terms))


def _nonzero(form: AffineForm) -> dict[Axis, int]:
    return {axis: coefficient for axis, coefficient in form[0].items() if coefficient}


def zero_outside(data: Factor) -> bool:
    """Whether a factor counts as zero exactly where an index leaves its tensor."""
    for form, (low, high), extent in zip(data.forms, data.limits, data.tensor.shape, strict=True):
        least, most = interval_of(form)
        if (low if low is not None else least) != max(least, 0):
            return False
        if (high if high is not None else most) != min(most, extent - 1):
            return False
    return True
