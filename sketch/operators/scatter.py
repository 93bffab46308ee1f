"""Arrays of which data say where something is replaced or added.

    for m: out[.., places[m], ..] = updates[.., m, ..]      (or += , *= , max= , min=)

Every element looks for the updates that are its own, of which code needs no loop: see
``analysis.scattering``.  Negative places count from the end; what is sent to places out of range is
left out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, Literal

from sketch.errors import ExpressionError
from sketch.lang import reducers
from sketch.lang.dtypes import integer_limits
from sketch.lang.expr import Axis, Const, Expr, Reduce, cast, select, widen
from sketch.lang.functions import equal, maximum, minimum
from sketch.lang.reducers import lowest
from sketch.lang.tensor import Tensor, reduce_axis
from sketch.operators.layout import stage
from sketch.operators.reduction import narrowed

Reduction = Literal["sum", "prod", "max", "min"]
ScatterFunction = Literal["last", "sum", "prod", "max", "min"]

_REDUCERS: Final[Mapping[Reduction, Callable[[Any, Axis], Reduce]]] = {
    "sum": reducers.sum,
    "prod": reducers.prod,
    "max": reducers.max,
    "min": reducers.min,
}
# The data, and what the updates of a place come to.
_COMBINES: Final[Mapping[Reduction, Callable[[Expr, Expr], Expr]]] = {
    "sum": lambda x, y: x + y,
    "prod": lambda x, y: x * y,
    "max": maximum,
    "min": minimum,
}
_NUMBER: Final = "int32"  # of an update


def scatter(
    data: Tensor,
    places: Tensor,
    updates: Tensor,
    axis: int,
    function: ScatterFunction,
    name: str = "scatter",
) -> Tensor:
    """``data`` with the updates in their places along ``axis``.

    Args:
        data: any dtype; numbers, where they are reduced.
        places: integers of the rank of ``updates``, whose extents are those of ``updates``, or 1
            along other dimensions than the axis.
        updates: of the shape of ``data`` but along the axis.
        axis: the dimension that the places are about.
        function: "last": the last update of a place replaces the element; else how element and
            updates are reduced, those of 16 bits in float32.
        name: of the last stage.

    Raises:
        ExpressionError: the shapes do not fit.
    """
    sent = _Sent(places, updates, axis, data.shape[axis], name)
    if sent.result != data.shape:
        raise ExpressionError(
            f"updates {updates.shape} do not fit data {data.shape} along axis {axis}",
            f"stage {name}",
        )
    if function == "last":
        return _replaced(data, sent, name)
    found = _received(sent, function, f"{name}.received")

    def combined(axes: tuple[Axis, ...]) -> Expr:
        return cast(_COMBINES[function](widen(data[axes]), found[axes]), data.dtype)

    return stage(data.shape, combined, name)


def received(
    places: Tensor,
    updates: Tensor,
    axis: int,
    extent: int,
    function: Reduction,
    name: str = "received",
) -> Tensor:
    """What is sent to each place along ``axis``, reduced; where that is nothing, the identity.

    Args:
        places: integers of the rank of ``updates``, whose extents are those of ``updates``, or 1
            along other dimensions than the axis.
        updates: numbers.
        axis: the dimension that the places are about.
        extent: of the result along it.
        function: how the updates of one place are reduced, those of 16 bits in float32.
        name: of the last stage.

    Raises:
        ExpressionError: the shapes do not fit.
    """
    sent = _Sent(places, updates, axis, extent, name)
    return narrowed(name, updates.dtype, lambda label: _received(sent, function, label))


def _received(sent: _Sent, function: Reduction, name: str) -> Tensor:
    reducer = _REDUCERS[function]

    def element(axes: tuple[Axis, ...]) -> Reduce:
        term = widen(sent.update(axes, sent.number))
        (nothing,) = reducer(term, sent.number).reducer.identity
        return reducer(select(sent.meets(axes), term, nothing), sent.number)

    return stage(sent.result, element, name)


def _replaced(data: Tensor, sent: _Sent, name: str) -> Tensor:
    """Each element finds the number of the last update that is its own; -2**31: none is."""
    nothing = Const(lowest(_NUMBER), _NUMBER)

    def last(axes: tuple[Axis, ...]) -> Reduce:
        number = cast(sent.number, _NUMBER)
        return reducers.max(select(sent.meets(axes), number, nothing), sent.number)

    found = stage(sent.along(sent.places.shape), last, f"{name}.last")

    def element(axes: tuple[Axis, ...]) -> Expr:
        number = found[sent.shared(axes)]
        own = minimum(maximum(number, 0), sent.number.extent - 1)
        return select(number >= 0, sent.update(axes, own), data[axes])

    return stage(data.shape, element, name)


class _Sent:
    """Which updates an element looks at, and which of them are its own.

    Attributes:
        places: where they go.
        number: of an update along the axis.
        result: shape of the elements.
    """

    def __init__(self, places: Tensor, updates: Tensor, axis: int, extent: int, name: str) -> None:
        whole = tuple(n if d == axis else 1 for d, n in enumerate(updates.shape))
        pairs = zip(places.shape, updates.shape, whole, strict=False)
        if places.ndim != updates.ndim or any(own not in (n, least) for own, n, least in pairs):
            raise ExpressionError(
                f"places {places.shape} do not fit updates {updates.shape}", f"stage {name}"
            )
        self.places, self._updates, self._axis, self._extent = places, updates, axis, extent
        self.number = reduce_axis(updates.shape[axis], "sent")
        self.result = self.along(updates.shape)

    def along(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """A shape with elements along the axis."""
        return (*shape[: self._axis], self._extent, *shape[self._axis + 1 :])

    def update(self, axes: tuple[Axis, ...], number: Expr) -> Expr:
        """An update that an element looks at."""
        return self._updates[self._at(axes, number)]

    def meets(self, axes: tuple[Axis, ...]) -> Expr:
        """Whether the element is where the update goes."""
        place = self.places[self.shared(self._at(axes, self.number))]
        if self._extent > integer_limits(place.dtype)[1]:
            place = cast(place, "int64")
        return equal(select(place < 0, place + self._extent, place), axes[self._axis])

    def shared(self, at: tuple[Expr, ...]) -> tuple[Expr | int, ...]:
        """``at`` in an array that has the extents of the places but along the axis."""
        extents = enumerate(self.places.shape)
        return tuple(
            x if d == self._axis or n > 1 else 0 for x, (d, n) in zip(at, extents, strict=True)
        )

    def _at(self, axes: tuple[Axis, ...], number: Expr) -> tuple[Expr, ...]:
        return (*axes[: self._axis], number, *axes[self._axis + 1 :])
