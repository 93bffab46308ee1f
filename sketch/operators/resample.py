"""Dimensions read through a table of positions and weights."""

from __future__ import annotations

from sketch.errors import ExpressionError
from sketch.lang import expr, reducers
from sketch.lang.expr import Axis, Expr
from sketch.lang.tensor import Tensor, reduce_axis
from sketch.operators.gather import inside_dimension
from sketch.operators.layout import stage
from sketch.operators.reduction import narrowed


def resample(
    data: Tensor, axis: int, positions: Tensor, weights: Tensor, name: str = "resample"
) -> Tensor:
    """Element i along ``axis`` is the sum over t of ``weights[i, t] * data[positions[i, t]]``.

    Args:
        data: floats.
        axis: dimension that is resampled.
        positions: integers ``[m, taps]``; out of range they are clamped.
        weights: floats ``[m, taps]``.
        name: of the stage.

    Raises:
        ExpressionError: positions and weights are no matrices of one shape.
    """
    dimension = axis % data.ndim
    if positions.ndim != 2 or weights.shape != positions.shape:
        raise ExpressionError(
            f"positions {positions.shape} and weights {weights.shape} must have two dimensions and "
            f"be equal",
            f"stage {name}",
        )
    taps = reduce_axis(positions.shape[1], "t")
    shape = (*data.shape[:dimension], positions.shape[0], *data.shape[dimension + 1 :])

    def element(axes: tuple[Axis, ...]) -> Expr:
        point = axes[dimension]
        source = inside_dimension(positions[point, taps], data.shape[dimension])
        read = data[(*axes[:dimension], source, *axes[dimension + 1 :])]
        return reducers.sum(expr.cast(read, weights.dtype) * weights[point, taps], taps)

    return narrowed(name, data.dtype, lambda label: stage(shape, element, label))
