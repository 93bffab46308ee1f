"""Arrays of which data say where something is replaced or added.

Negative places count from the end; what is sent to places out of range is left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from autosched.graph.errors import GraphError
from autosched.graph.ops.base import Op, Pattern, TensorType, expect_inputs, normalize_axis
from sketch.lang.dtypes import BOOL, is_integer
from sketch.lang.tensor import Tensor
from sketch.operators import scatter
from sketch.operators.scatter import ScatterFunction


@dataclass(frozen=True, slots=True)
class SendAlong(Op):
    """The data, in whose places along ``axis`` (non-negative) the updates are, or with which they
    are reduced.

    Updates have the shape of the data but along the axis; places have their extents, or 1 along
    other dimensions.

    Attributes:
        extent: along the axis, where there are no data: what nothing is sent to is the identity of
            the reduction.  None: the data are the first input.
    """

    pattern: ClassVar[Pattern] = Pattern.REDUCTION
    roles: ClassVar[tuple[str, ...]] = ("data", "places", "updates")

    axis: int
    function: ScatterFunction
    extent: int | None = None

    @property
    def kind(self) -> str:
        return "scatter"

    def infer(self, inputs: Sequence[TensorType]) -> TensorType:
        expect_inputs(self, inputs, 3 if self.extent is None else 2)
        places, updates = inputs[-2:]
        axis = normalize_axis(self.axis, len(updates.shape))
        data = inputs[0] if self.extent is None else _along(updates, axis, self.extent)
        pairs = zip(places.shape, updates.shape, strict=False)
        fits = len(updates.shape) == len(data.shape) == len(places.shape)
        fits = fits and updates == _along(data, axis, updates.shape[axis])
        if not fits or any(n != m and (n != 1 or d == axis) for d, (n, m) in enumerate(pairs)):
            raise GraphError(f"places {places} and updates {updates} do not fit data {data}")
        if not is_integer(places.dtype):
            raise GraphError(f"places must be integers, got {places}")
        if self.function == "last" and self.extent is not None:
            raise GraphError("needs data to replace")
        if data.dtype == BOOL and self.function != "last":
            raise GraphError(f"needs numbers, got {data}")
        return data


def _along(value: TensorType, axis: int, extent: int) -> TensorType:
    """A type with another extent along an axis."""
    return TensorType((*value.shape[:axis], extent, *value.shape[axis + 1 :]), value.dtype)


def lower_scatter(op: SendAlong, inputs: Sequence[Tensor], name: str) -> tuple[Tensor, ...]:
    """What is sent to each element, and what it becomes: two stages, or one without data."""
    places, updates = inputs[-2:]
    if op.extent is None:
        return (scatter.scatter(inputs[0], places, updates, op.axis, op.function, name),)
    assert op.function != "last"
    return (scatter.received(places, updates, op.axis, op.extent, op.function, name),)
