"""Running sums and products along one dimension."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeVar

from sketch.lang import reducers
from sketch.lang.dtypes import is_float
from sketch.lang.expr import Axis, Const, Expr, Reduce, cast, select
from sketch.lang.functions import all_of
from sketch.lang.tensor import Tensor, reduce_axis
from sketch.operators.elementwise import map_elements
from sketch.operators.layout import stage
from sketch.operators.reduction import narrowed, widened

ScanFunction = Literal["sum", "prod"]

_T = TypeVar("_T")
_REDUCERS: Final[Mapping[ScanFunction, Callable[[Any, Axis], Reduce]]] = {
    "sum": reducers.sum,
    "prod": reducers.prod,
}
# Elements of a block of a long scan, and of the longest that is computed without blocks.
_BLOCK: Final = 16
_SHORT: Final = 24


def cumulative(
    data: Tensor,
    function: ScanFunction,
    axis: int,
    exclusive: bool = False,
    reverse: bool = False,
    name: str = "cumulative",
) -> Tensor:
    """Element i is the sum (product) of elements 0..i along ``axis``.

    Every element is a reduction of its own, so that all of them can be computed at once.  Of a long
    dimension, it is one of the elements before it in its block of 16, and of all blocks before
    that: n elements take some 18 n additions, and not n^2.

    Args:
        data: numbers.
        function: "sum" or "prod".
        axis: dimension of the scan.
        exclusive: leave out element i itself.
        reverse: run from the end.
        name: of the stage.
    """
    scan = _Scan(function, axis % data.ndim, exclusive, reverse)
    make = scan.short if data.shape[scan.dimension] <= _SHORT else scan.long
    return make(data, name)


@dataclass(frozen=True, slots=True)
class _Scan:
    """The arguments of ``cumulative``; ``dimension`` is not negative."""

    function: ScanFunction
    dimension: int
    exclusive: bool
    reverse: bool

    def short(self, data: Tensor, name: str) -> Tensor:
        """One stage: each element is a sum over the whole dimension."""
        over = reduce_axis(data.shape[self.dimension], "k")

        def element(axes: tuple[Axis, ...]) -> Expr:
            counts = self._counts(axes[self.dimension], over)
            read = data[self._at(axes, over)]
            return self._reduced(select(counts, read, self._neutral(data)), over)

        return narrowed(name, data.dtype, lambda label: stage(data.shape, element, label))

    def long(self, data: Tensor, name: str) -> Tensor:
        """Totals of blocks, those of all blocks before each, and what is before each element in its
        block; the last block may be shorter.
        """
        wide, at = self._widened(data, name), self.dimension
        blocks = -(-data.shape[at] // _BLOCK)
        totals = self._totals(wide, blocks, f"{name}.totals")
        before = cumulative(totals, self.function, at, True, self.reverse, f"{name}.before")
        within = self._within(wide, blocks, f"{name}.within")

        def element(axes: tuple[Axis, ...]) -> Expr:
            block, place = axes[at] // _BLOCK, axes[at] % _BLOCK
            earlier = before[self._at(axes, block)]
            own = within[(*axes[:at], block, place, *axes[at + 1 :])]
            return earlier + own if self.function == "sum" else earlier * own

        if wide.dtype == data.dtype:
            return stage(data.shape, element, name)
        found = stage(data.shape, element, f"{name}.wide")
        return map_elements(found, lambda x: cast(x, data.dtype), name)

    def _widened(self, data: Tensor, name: str) -> Tensor:
        """Products of floats as float64: that of a block may overflow, or be 0, where the one of
        all elements up to its end does not.
        """
        if self.function == "sum" or not is_float(data.dtype) or data.dtype == "float64":
            return widened(data, name)
        return map_elements(data, lambda x: cast(x, "float64"), f"{name}.input")

    def _totals(self, data: Tensor, blocks: int, name: str) -> Tensor:
        """[..., blocks, ...]: of all elements of each block."""
        over = reduce_axis(_BLOCK, "k")

        def element(axes: tuple[Axis, ...]) -> Expr:
            position = axes[self.dimension] * _BLOCK + over
            return self._reduced(self._where(data, axes, position), over)

        return stage(self._at(data.shape, blocks), element, name)

    def _within(self, data: Tensor, blocks: int, name: str) -> Tensor:
        """[..., blocks, elements of a block, ...]: the scan of each block."""
        at, over = self.dimension, reduce_axis(_BLOCK, "k")
        shape = (*data.shape[:at], blocks, _BLOCK, *data.shape[at + 1 :])

        def element(axes: tuple[Axis, ...]) -> Expr:
            block, place = axes[at : at + 2]
            others = (*axes[: at + 1], *axes[at + 2 :])
            counts = self._counts(place, over)
            return self._reduced(self._where(data, others, block * _BLOCK + over, counts), over)

        return stage(shape, element, name)

    def _where(
        self, data: Tensor, axes: tuple[Axis, ...], position: Expr, *conditions: Expr
    ) -> Expr:
        """An element, or what changes nothing where it does not count or is behind the end."""
        extent = data.shape[self.dimension]
        if extent % _BLOCK:
            conditions = (position < extent, *conditions)
        read = data[self._at(axes, position)]
        return select(all_of(*conditions), read, self._neutral(data)) if conditions else read

    def _counts(self, position: Axis, element: Axis) -> Expr:
        """Whether an element counts at a position."""
        first, second = (position, element) if self.reverse else (element, position)
        return first < second if self.exclusive else first <= second

    def _at(self, items: tuple[_T, ...], item: Any) -> tuple[Any, ...]:
        """``items`` with another one for the dimension of the scan."""
        return (*items[: self.dimension], item, *items[self.dimension + 1 :])

    def _neutral(self, data: Tensor) -> Const:
        neutral = 0 if self.function == "sum" else 1
        return Const(float(neutral) if is_float(data.dtype) else neutral, data.dtype)

    def _reduced(self, value: Expr, over: Axis) -> Reduce:
        return _REDUCERS[self.function](value, over)
