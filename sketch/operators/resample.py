"""Dimensions read through tables: resizing, and padding by elements of the data itself."""

from __future__ import annotations

from collections.abc import Sequence

from sketch import expr, reducers
from sketch.errors import ExpressionError
from sketch.expr import Axis, Expr
from sketch.operators.layout import stage
from sketch.operators.reduction import narrowed
from sketch.tensor import Tensor, reduce_axis


def take(data: Tensor, axis: int, positions: Tensor, name: str = "take") -> Tensor:
    """Element i along ``axis`` is element ``positions[i]`` of ``data``.

    ``positions`` ``[m]``: integers from 0 on and below the extent of the dimension.
    """
    dimension = axis % data.ndim
    _check_tables(data, dimension, [positions], 1, name)
    shape = (*data.shape[:dimension], positions.shape[0], *data.shape[dimension + 1 :])

    def element(axes: tuple[Axis, ...]) -> Expr:
        source = positions[axes[dimension]]
        return data[(*axes[:dimension], source, *axes[dimension + 1 :])]

    return stage(shape, element, name)


def resample(
    data: Tensor, axis: int, positions: Tensor, weights: Tensor, name: str = "resample"
) -> Tensor:
    """Element i along ``axis`` is the sum over t of ``weights[i, t] * data[positions[i, t]]``.

    ``positions`` and ``weights`` have one shape ``[m, taps]``.
    """
    dimension = axis % data.ndim
    _check_tables(data, dimension, [positions, weights], 2, name)
    taps = reduce_axis(positions.shape[1], "t")
    shape = (*data.shape[:dimension], positions.shape[0], *data.shape[dimension + 1 :])

    def element(axes: tuple[Axis, ...]) -> Expr:
        point = axes[dimension]
        read = data[(*axes[:dimension], positions[point, taps], *axes[dimension + 1 :])]
        return reducers.sum(expr.cast(read, weights.dtype) * weights[point, taps], taps)

    return narrowed(name, data.dtype, lambda label: stage(shape, element, label))


def _check_tables(
    data: Tensor, dimension: int, tables: Sequence[Tensor], rank: int, name: str
) -> None:
    shapes = {table.shape for table in tables}
    if len(shapes) != 1 or len(next(iter(shapes))) != rank:
        raise ExpressionError(
            f"tables of shapes {sorted(shapes)} for dimension {dimension} of {data.shape} must "
            f"have {rank} dimensions each and be equal",
            f"stage {name}",
        )
