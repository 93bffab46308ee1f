"""Running sums and products along one dimension."""

from __future__ import annotations

from typing import Literal

from sketch.lang import reducers
from sketch.lang.dtypes import is_float
from sketch.lang.expr import Axis, Const, Expr, select
from sketch.lang.tensor import Tensor, reduce_axis
from sketch.operators.layout import stage
from sketch.operators.reduction import narrowed

ScanFunction = Literal["sum", "prod"]


def cumulative(
    data: Tensor,
    function: ScanFunction,
    axis: int,
    exclusive: bool = False,
    reverse: bool = False,
    name: str = "cumulative",
) -> Tensor:
    """Element i is the sum (product) of elements 0..i along ``axis``.

    Every element is a reduction of its own, so that all of them can be computed at once.

    Args:
        data: numbers.
        function: "sum" or "prod".
        axis: dimension of the scan.
        exclusive: leave out element i itself.
        reverse: run from the end.
        name: of the stage.
    """
    dimension = axis % data.ndim
    over = reduce_axis(data.shape[dimension], "k")
    neutral = 0 if function == "sum" else 1
    fill = Const(float(neutral) if is_float(data.dtype) else neutral, data.dtype)
    reduce = reducers.sum if function == "sum" else reducers.prod

    def element(axes: tuple[Axis, ...]) -> Expr:
        position = axes[dimension]
        first, second = (position, over) if reverse else (over, position)
        counts = first < second if exclusive else first <= second
        read = data[(*axes[:dimension], over, *axes[dimension + 1 :])]
        return reduce(select(counts, read, fill), over)

    return narrowed(name, data.dtype, lambda label: stage(data.shape, element, label))
