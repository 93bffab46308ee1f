"""Operators whose indices are data: gathers, one-hot, sequence reversal.

Negative indices count from the end.  Every index is clamped into its dimension, so that no value
of an index tensor can lead outside the data.
"""

from __future__ import annotations

from collections.abc import Sequence

from sketch.errors import ExpressionError
from sketch.lang.expr import Axis, Expr, select
from sketch.lang.functions import equal, maximum, minimum
from sketch.lang.tensor import Tensor
from sketch.operators.layout import stage


def inside_dimension(index: Expr, extent: int) -> Expr:
    """``index`` counted from the front, clamped to ``0 .. extent - 1``."""
    counted = select(index < 0, index + extent, index)
    return maximum(minimum(counted, extent - 1), 0)


def take(data: Tensor, indices: Tensor, axis: int, name: str = "take") -> Tensor:
    """Slices of ``data`` along ``axis``: ``data.take(indices, axis)`` of NumPy.

    Args:
        data: any dtype.
        indices: integers; negative ones count from the end.
        axis: dimension of ``data``, not negative.
        name: of the stage.
    """
    _check_axis(data, axis, name)
    shape = (*data.shape[:axis], *indices.shape, *data.shape[axis + 1 :])

    def element(axes: tuple[Axis, ...]) -> Expr:
        point = indices[axes[axis : axis + indices.ndim]]
        index = inside_dimension(point, data.shape[axis])
        return data[(*axes[:axis], index, *axes[axis + indices.ndim :])]

    return stage(shape, element, name)


def take_along(data: Tensor, indices: Tensor, axis: int, name: str = "take_along") -> Tensor:
    """``[..., i, ...] -> data[..., indices[..., i, ...], ...]``: the index replaces that of
    ``axis``.  The other extents of ``indices`` are at most those of ``data``.

    Args:
        data: any dtype.
        indices: integers; negative ones count from the end.
        axis: dimension of ``data`` that is indexed.
        name: of the stage.

    Raises:
        ExpressionError: ranks differ, or an extent of ``indices`` is larger than that of ``data``.
    """
    _check_axis(data, axis, name)
    pairs = list(zip(indices.shape, data.shape, strict=False))
    fits = indices.ndim == data.ndim and all(
        own <= extent for d, (own, extent) in enumerate(pairs) if d != axis
    )
    if not fits:
        raise ExpressionError(
            f"indices {indices.shape} do not fit data {data.shape} along axis {axis}",
            f"stage {name}",
        )

    def element(axes: tuple[Axis, ...]) -> Expr:
        index = inside_dimension(indices[axes], data.shape[axis])
        return data[(*axes[:axis], index, *axes[axis + 1 :])]

    return stage(indices.shape, element, name)


def take_points(data: Tensor, indices: Tensor, batch: int = 0, name: str = "take_points") -> Tensor:
    """Slices at points: the last dimension of ``indices`` is an index tuple into ``data``.

    ``[b..., i..., rest...] -> data[b..., *indices[b..., i..., :], rest...]``.

    Args:
        data: any dtype.
        indices: integers; negative ones count from the end.
        batch: number of leading dimensions that both share and that stay.
        name: of the stage.

    Raises:
        ExpressionError: batch dimensions differ, or index tuples are longer than the rank of
            ``data``.
    """
    count = indices.shape[-1] if indices.ndim else 0
    fits = batch < indices.ndim and batch + count <= data.ndim
    if not fits or indices.shape[:batch] != data.shape[:batch]:
        raise ExpressionError(
            f"indices {indices.shape} do not fit data {data.shape} with {batch} batch dimensions",
            f"stage {name}",
        )
    outer = indices.ndim - 1
    shape = (*indices.shape[:-1], *data.shape[batch + count :])

    def element(axes: tuple[Axis, ...]) -> Expr:
        point = [
            inside_dimension(indices[(*axes[:outer], d)], data.shape[batch + d])
            for d in range(count)
        ]
        return data[(*axes[:batch], *point, *axes[outer:])]

    return stage(shape, element, name)


def one_hot(
    indices: Tensor, values: Tensor, depth: int, axis: int, name: str = "one_hot"
) -> Tensor:
    """``values[1]`` where the position along the new ``axis`` is the index, else ``values[0]``.

    Args:
        indices: integers; those outside ``-depth .. depth - 1`` give no ``values[1]``.
        values: shape (2,): off, on.
        depth: extent of the new axis.
        axis: where the new axis goes in the result.
        name: of the stage.
    """
    shape = (*indices.shape[:axis], depth, *indices.shape[axis:])

    def element(axes: tuple[Axis, ...]) -> Expr:
        index = indices[(*axes[:axis], *axes[axis + 1 :])]
        counted = select(index < 0, index + depth, index)
        return select(equal(counted, axes[axis]), values[1], values[0])

    return stage(shape, element, name)


def reverse_sequences(
    data: Tensor, lengths: Tensor, batch_axis: int, time_axis: int, name: str = "reverse_sequences"
) -> Tensor:
    """The first ``lengths[b]`` steps along ``time_axis`` of batch element ``b`` in reverse.

    Args:
        data: any dtype.
        lengths: integers, one for each batch element.
        batch_axis: dimension of the batch.
        time_axis: dimension that is reversed.
        name: of the stage.

    Raises:
        ExpressionError: there is not one length for each batch element.
    """
    if lengths.shape != (data.shape[batch_axis],):
        raise ExpressionError(
            f"lengths {lengths.shape} do not fit data {data.shape}", f"stage {name}"
        )

    def element(axes: Sequence[Axis]) -> Expr:
        length, time = lengths[axes[batch_axis]], axes[time_axis]
        mirrored = inside_dimension(length - 1 - time, data.shape[time_axis])
        index = select(time < length, mirrored, time)
        return data[(*axes[:time_axis], index, *axes[time_axis + 1 :])]

    return stage(data.shape, element, name)


def _check_axis(data: Tensor, axis: int, name: str) -> None:
    if not 0 <= axis < data.ndim:
        raise ExpressionError(f"axis {axis} is not one of {data.ndim} dimensions", f"stage {name}")
