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
# Elements of a block of a long scan, and of the longest that is computed without blocks.  Blocks
# along the last dimension fill a vector; what is before an element of others is added up anew.
_BLOCK: Final = 16
_OUTER_BLOCK: Final = 8
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
    dimension, it is one of the elements before it in its block, and of all blocks before that: n
    elements take some 18 n additions, and not n^2.

    Args:
        data: numbers.
        function: "sum" or "prod".
        axis: dimension of the scan.
        exclusive: leave out element i itself.
        reverse: run from the end.
        name: of the stage.
    """
    dimension = axis % data.ndim
    block = _BLOCK if dimension == data.ndim - 1 else _OUTER_BLOCK
    scan = _Scan(function, dimension, block, exclusive, reverse)
    make = scan.short if data.shape[scan.dimension] <= _SHORT else scan.long
    return make(data, name)


@dataclass(frozen=True, slots=True)
class _Scan:
    """The arguments of ``cumulative``; ``dimension`` is not negative, ``block``: its elements."""

    function: ScanFunction
    dimension: int
    block: int
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
        blocks = -(-data.shape[at] // self.block)
        last = at == data.ndim - 1
        within = self._within(wide, blocks, f"{name}.within") if last else None
        if within is None or self.exclusive:
            totals = self._totals(wide, blocks, f"{name}.totals")
        else:
            totals = self._ends(within, f"{name}.totals")
        before = cumulative(totals, self.function, at, True, self.reverse, f"{name}.before")

        def element(axes: tuple[Axis, ...]) -> Expr:
            block, place = axes[at] // self.block, axes[at] % self.block
            earlier = before[self._at(axes, block)]
            if within is None:
                return self._joined(earlier, self._written_out(wide, axes, block, place))
            return self._joined(earlier, within[(*axes[:at], block, place, *axes[at + 1 :])])

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
        over = reduce_axis(self.block, "k")

        def element(axes: tuple[Axis, ...]) -> Expr:
            position = axes[self.dimension] * self.block + over
            return self._reduced(self._where(data, axes, position), over)

        return stage(self._at(data.shape, blocks), element, name)

    def _within(self, data: Tensor, blocks: int, name: str) -> Tensor:
        """[..., blocks, elements of a block, ...]: the scan of each block."""
        at, over = self.dimension, reduce_axis(self.block, "k")
        shape = (*data.shape[:at], blocks, self.block, *data.shape[at + 1 :])

        def element(axes: tuple[Axis, ...]) -> Expr:
            block, place = axes[at : at + 2]
            others = (*axes[: at + 1], *axes[at + 2 :])
            counts = self._counts(place, over)
            position = block * self.block + over
            return self._reduced(self._where(data, others, position, counts), over)

        return stage(shape, element, name)

    def _ends(self, within: Tensor, name: str) -> Tensor:
        """[..., blocks, ...]: of all elements of each block, whose scan has them at its end."""
        end, at = 0 if self.reverse else self.block - 1, self.dimension
        shape = (*within.shape[: at + 1], *within.shape[at + 2 :])

        def element(axes: tuple[Axis, ...]) -> Expr:
            return within[(*axes[: at + 1], end, *axes[at + 1 :])]

        return stage(shape, element, name)

    def _written_out(self, data: Tensor, axes: tuple[Axis, ...], block: Expr, place: Expr) -> Expr:
        """What ``_within`` has at a place, without a stage: one term for each element of the block.

        Where the place is known, only those that count are added, and the next place adds one more.
        """
        first, *others = range(self.block)[:: -1 if self.reverse else 1]
        total = self._counted(data, axes, block, place, first)
        for number in others:
            total = self._joined(total, self._counted(data, axes, block, place, number))
        return total

    def _counted(
        self, data: Tensor, axes: tuple[Axis, ...], block: Expr, place: Expr, number: int
    ) -> Expr:
        """Element ``number`` of a block, or what changes nothing where it does not count."""
        position = block * self.block + number
        return self._where(data, axes, position, self._counts(place, number))

    def _joined(self, first: Expr, second: Expr) -> Expr:
        return first + second if self.function == "sum" else first * second

    def _where(
        self, data: Tensor, axes: tuple[Axis, ...], position: Expr, *conditions: Expr
    ) -> Expr:
        """An element, or what changes nothing where it does not count or is behind the end."""
        extent = data.shape[self.dimension]
        if extent % self.block:
            conditions = (position < extent, *conditions)
        read = data[self._at(axes, position)]
        return select(all_of(*conditions), read, self._neutral(data)) if conditions else read

    def _counts(self, position: Any, element: Any) -> Expr:
        """Whether an element counts at a position."""
        first, second = (position, element) if self.reverse else (element, position)
        return first < second if self.exclusive else first <= second

    def _at(self, items: tuple[_T, ...], item: Any) -> tuple[Any, ...]:
        """``items`` with another one for the dimension of the scan."""
        return (*items[: self.dimension], item, *items[self.dimension + 1 :])

    def _neutral(self, data: Tensor) -> Const:
        """Of sums of floats the zero that leaves either zero as it is."""
        if is_float(data.dtype):
            return Const(-0.0 if self.function == "sum" else 1.0, data.dtype)
        return Const(0 if self.function == "sum" else 1, data.dtype)

    def _reduced(self, value: Expr, over: Axis) -> Reduce:
        return _REDUCERS[self.function](value, over)
