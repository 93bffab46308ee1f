"""Operators that move elements: transpose, pad, reshape, slice, concat."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from sketch.errors import ExpressionError
from sketch.lang.dtypes import BOOL, is_float
from sketch.lang.expr import Axis, Const, Expr, select
from sketch.lang.tensor import SharedBuffer, StoreMap, Tensor, compute
from sketch.nest.loopnest import row_major
from sketch.operators.window import inside


def stage(
    shape: Sequence[int], element: Callable[[tuple[Axis, ...]], Any], name: str,
    store: StoreMap | None = None,
) -> Tensor:  # fmt: skip
    """A one-output stage of any rank.

    Args:
        shape: extents.
        element: from the tuple of axes (i0, i1, ...) to an expression.
        name: of the stage.
        store: where elements go in a shared buffer; None: a buffer of its own.
    """
    result: Tensor = compute(shape, lambda *axes: element(axes), name=name, store=store)
    return result


def transpose(data: Tensor, order: Sequence[int], name: str = "transpose") -> Tensor:
    """Dimension d of the result is dimension ``order[d]`` of ``data``.

    Raises:
        ExpressionError: ``order`` is no permutation of the dimensions.
    """
    if sorted(order) != list(range(data.ndim)):
        raise ExpressionError(f"{tuple(order)} is no order of {data.ndim} dimensions", name)
    place = {dimension: position for position, dimension in enumerate(order)}
    shape = [data.shape[dimension] for dimension in order]
    return stage(shape, lambda axes: data[tuple(axes[place[d]] for d in range(data.ndim))], name)


def pad(
    data: Tensor,
    before: Sequence[int],
    after: Sequence[int],
    value: float | int | bool = 0,
    name: str = "pad",
) -> Tensor:
    """``data`` surrounded by a constant.

    Args:
        data: any dtype.
        before: elements added at the start of each dimension.
        after: elements added at the end of each dimension.
        value: what is added.
        name: of the stage.

    Raises:
        ExpressionError: a count is negative or missing.
    """
    if len(before) != data.ndim or len(after) != data.ndim or min(*before, *after, 0) < 0:
        raise ExpressionError(
            f"padding {tuple(before)}, {tuple(after)} does not fit shape {data.shape}", name
        )
    extents = zip(before, data.shape, after, strict=True)
    shape = [low + extent + high for low, extent, high in extents]
    kind = float if is_float(data.dtype) else bool if data.dtype == BOOL else int
    fill = Const(kind(value), data.dtype)

    def element(axes: tuple[Axis, ...]) -> Expr:
        indices = [axis - low for axis, low in zip(axes, before, strict=True)]
        condition = inside(*zip(indices, data.shape, strict=True))
        read = data[tuple(indices)]
        return read if condition is None else select(condition, read, fill)

    return stage(shape, element, name)


def reshape(data: Tensor, shape: Sequence[int], name: str = "reshape") -> Tensor:
    """The same elements in row-major order under another shape.

    Indices are affine where dimensions are only merged or split evenly with an axis of their own;
    else quasi-affine (floor division and remainder).

    Raises:
        ExpressionError: the shapes have different numbers of elements.
    """
    if math.prod(shape) != math.prod(data.shape):
        raise ExpressionError(f"cannot reshape {data.shape} to {tuple(shape)}", f"stage {name}")

    def element(axes: tuple[Axis, ...]) -> Expr:
        return data[_reshaped_index(axes, data.shape)]

    return stage(shape, element, name)


def _reshaped_index(axes: Sequence[Axis], shape: Sequence[int]) -> tuple[Expr, ...]:
    """Indices into ``shape`` of the element at ``axes``, group of dimensions by group.

    A group is a shortest run of dimensions on both sides with one product, so that untouched
    dimensions keep an index of their own.
    """
    indices: list[Expr] = []
    position, taken = 0, 0
    while position < len(shape):
        end, stop = position + 1, taken
        old, new = shape[position], 1
        if stop < len(axes) and axes[stop].extent == old:
            new, stop = old, stop + 1
        while old != new:
            if new < old:
                new *= axes[stop].extent
                stop += 1
            else:
                old *= shape[end]
                end += 1
        indices.extend(_split_group(axes[taken:stop], shape[position:end]))
        position, taken = end, stop
    return tuple(indices)


def _split_group(axes: Sequence[Axis], shape: Sequence[int]) -> list[Expr]:
    strides = row_major(tuple(axis.extent for axis in axes))
    flat: Expr = Const(0, "int64")
    for axis, step in zip(axes, strides, strict=True):
        flat = flat + axis * step if axis.extent > 1 else flat
    if len(axes) == len(shape) == 1:
        return [axes[0]]
    parts: list[Expr] = []
    for dimension, extent in enumerate(shape):
        inner = math.prod(shape[dimension + 1 :])
        index = flat // inner
        parts.append(index if dimension == 0 else index % extent)
    return [Const(0, "int64") if extent == 1 else p for p, extent in zip(parts, shape, strict=True)]


def strided_slice(
    data: Tensor, start: Sequence[int], stop: Sequence[int], step: Sequence[int],
    name: str = "slice",
) -> Tensor:  # fmt: skip
    """``data[start:stop:step]`` in every dimension, not empty.

    Either ``0 <= start < stop <= extent`` and ``step > 0``, or ``-1 <= stop < start < extent`` and
    ``step < 0``.

    Args:
        data: any dtype.
        start: first index in each dimension.
        stop: end of the range in each dimension, not included.
        step: distance of indices in each dimension, not 0.
        name: of the stage.

    Raises:
        ExpressionError: the bounds do not fit the shape, or nothing is left.
    """
    limits = list(zip(start, stop, step, data.shape, strict=True))
    shape = [slice_extent(a, b, s) for a, b, s, _ in limits]
    inner = all(0 <= a < extent and 0 <= a + (n - 1) * s < extent
                for (a, _, s, extent), n in zip(limits, shape, strict=True))  # fmt: skip
    if min(shape, default=1) < 1 or not inner:
        raise ExpressionError(
            f"slice {tuple(start)}:{tuple(stop)}:{tuple(step)} does not fit shape {data.shape}",
            f"stage {name}",
        )

    def element(axes: tuple[Axis, ...]) -> Expr:
        return data[tuple(axis * s + a for axis, a, s in zip(axes, start, step, strict=True))]

    return stage(shape, element, name)


def slice_extent(start: int, stop: int, step: int) -> int:
    """How many indices ``start, start + step, ...`` lie before ``stop``."""
    return -((start - stop) // step) if step else 0


@dataclass(frozen=True, slots=True)
class Run:
    """Positions up to ``stop`` (excluded) that read regularly: the n-th of them, counted from where
    the run before stopped, reads index ``first + n // repeat * step``.
    """

    stop: int
    first: int
    step: int
    repeat: int

    def last(self, start: int) -> int:
        """The index that the last position reads, where the first one is ``start``."""
        return self.first + (self.stop - start - 1) // self.repeat * self.step


def pick(data: Tensor, axis: int, runs: Sequence[Run], name: str = "pick") -> Tensor:
    """Slices of ``data`` along ``axis`` at indices that are known and regular.

    Where the last dimension has several runs, elements are selected, not indices: each run is read
    as it lies in memory.

    Args:
        data: any dtype.
        axis: dimension of ``data``, not negative.
        runs: in order; every index is inside of the dimension.
        name: of the stage.

    Raises:
        ExpressionError: an index is outside of the dimension.
    """
    starts = [0, *(run.stop for run in runs[:-1])]
    for run, start in zip(runs, starts, strict=True):
        if not all(0 <= index < data.shape[axis] for index in (run.first, run.last(start))):
            raise ExpressionError(f"{run} does not fit {data.shape}", f"stage {name}")
    shape = (*data.shape[:axis], runs[-1].stop, *data.shape[axis + 1 :])
    contiguous = axis == data.ndim - 1

    def element(axes: tuple[Axis, ...]) -> Expr:
        def read(index: Expr) -> Expr:
            return data[(*axes[:axis], index, *axes[axis + 1 :])]

        at = axes[axis]
        places = [_place(at - start, run) for run, start in zip(runs, starts, strict=True)]
        found = [read(place) for place in places] if contiguous else places
        chosen = found[-1]
        for run, value in zip(reversed(runs[:-1]), reversed(found[:-1]), strict=True):
            chosen = select(at < run.stop, value, chosen)
        return chosen if contiguous else read(chosen)

    return stage(shape, element, name)


def _place(n: Expr, run: Run) -> Expr:
    return (n // run.repeat if run.repeat > 1 else n) * run.step + run.first


def triangle(
    data: Tensor,
    upper: bool,
    diagonal: int = 0,
    name: str = "triangle",
    outside: float | None = None,
) -> Tensor:
    """The upper (or lower) triangle of every matrix of ``data [..., n, m]``, zero elsewhere.

    Element (i, j) is kept where ``j - i >= diagonal`` (``<=`` for the lower one).

    Args:
        data: any dtype.
        upper: whether the upper triangle is kept.
        diagonal: which diagonal bounds it; 0: the main one.
        name: of the stage.
        outside: what stands elsewhere, of floats; None: zero.

    Raises:
        ExpressionError: there are fewer than two dimensions.
    """
    if data.ndim < 2:
        raise ExpressionError(f"needs a matrix, got shape {data.shape}", f"stage {name}")
    zero = Const(_zero(data.dtype) if outside is None else outside, data.dtype)

    def element(axes: tuple[Axis, ...]) -> Expr:
        column = axes[-1] - diagonal
        keep = column >= axes[-2] if upper else column <= axes[-2]
        return select(keep, data[axes], zero)

    return stage(data.shape, element, name)


def _zero(dtype: str) -> float | int | bool:
    if dtype == BOOL:
        return False
    return 0.0 if is_float(dtype) else 0


def concat(parts: Sequence[Tensor], axis: int, name: str = "concat") -> tuple[Tensor, ...]:
    """Concatenation in place: one stage for each part, all writing the buffer ``name``.

    Returns the stages' tensors; list all of them as outputs of the DAG.
    """
    return concat_elements([(part.shape, part.__getitem__) for part in parts], axis, name)


Element = Callable[[tuple[Axis, ...]], Any]


def concat_elements(
    parts: Sequence[tuple[tuple[int, ...], Element]], axis: int, name: str = "concat"
) -> tuple[Tensor, ...]:
    """``concat`` of parts given as (shape, element of axes), so that a part computes as it writes.

    Raises ExpressionError where shapes differ in another dimension than ``axis``.
    """
    first = parts[0][0]
    if not -len(first) <= axis < len(first):
        raise ExpressionError(f"axis {axis} is not one of {len(first)} dimensions", name)
    axis %= len(first)
    for shape, _ in parts:
        if len(shape) != len(first) or any(
            a != b for d, (a, b) in enumerate(zip(shape, first, strict=True)) if d != axis
        ):
            raise ExpressionError(f"cannot concatenate {shape} and {first} on axis {axis}", name)
    total = sum(shape[axis] for shape, _ in parts)
    whole = (*first[:axis], total, *first[axis + 1 :])
    strides = tuple(int(s) for s in row_major(whole))
    buffer = SharedBuffer(name, whole)
    tensors: list[Tensor] = []
    start = 0
    for number, (shape, element) in enumerate(parts):
        store = StoreMap(buffer, start * strides[axis], strides)
        tensors.append(stage(shape, element, f"{name}.{number}", store))
        start += shape[axis]
    return tuple(tensors)
