"""The largest elements of rows, in order, composed of other operators.

In short rows each element counts those that come before it: its rank.  Where the ranks are known,
so are the positions of the first ones, and elements are picked there.  The first few elements of
long rows are found one after the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Final

import numpy as np

from autosched.graph.appends import Appends
from autosched.graph.leading_elements import has_leading_elements, leading_positions
from autosched.graph.ops.base import TensorType
from autosched.graph.ops.elementwise import BinaryFunction, BinaryOp, CastOp, UnaryOp, Where
from autosched.graph.ops.gather import GatherElements
from autosched.graph.ops.reduce import ReduceOp
from autosched.graph.ops.shape import Reshape, Transpose
from sketch.lang.dtypes import is_float

MOST_ELEMENTS: Final = 128
"""Of rows that are sorted by counting, unless there are few."""

# Each element of a row is compared with each, where a sort compares it with a few: so many
# comparisons take 0.3 ms on two cores, 0.2 ms more than a sort.
_MOST_PAIRS: Final = 1 << 21
# Few rows may be longer: below so many comparisons, a call of the host takes as long by itself.
_LONG_ROW: Final = 512
_PAIRS_OF_LONG_ROWS: Final = 1 << 18

_COUNT: Final = "int32"
_POSITION: Final = "int64"


def has_top_elements(kind: TensorType, axis: int, count: int) -> bool:
    """Whether kernels find the first ``count`` elements along ``axis`` (non-negative)."""
    return _are_few(kind.shape, axis) or has_leading_elements(kind, axis, count)


def _are_few(shape: Sequence[int], axis: int) -> bool:
    """Whether rows are short and not too many."""
    extent = shape[axis]
    pairs = prod(shape) * extent
    if extent <= MOST_ELEMENTS:
        return pairs <= _MOST_PAIRS
    return extent <= _LONG_ROW and pairs <= _PAIRS_OF_LONG_ROWS


def top_elements(
    make: Appends, data: str, count: int, axis: int, descending: bool
) -> tuple[str, str]:
    """The first elements along a dimension and their positions, int64.

    Of equal elements the first one comes first; NaN is larger than all numbers.

    Args:
        make: adds operators.
        data: a value, of which ``has_top_elements`` holds.
        count: elements that are wanted of each row.
        axis: which dimension has the rows (non-negative).
        descending: whether the largest elements come first.
    """
    last = len(make.type_of(data).shape) - 1
    turned = [*(n for n in range(last + 1) if n != axis), axis]
    back = [*range(axis), last, *range(axis, last)]
    rows = _turned(make, data, turned)
    if _are_few(make.type_of(data).shape, axis):
        positions = _positions(make, _ranks(make, rows, descending), count)
    else:
        positions = leading_positions(make, rows, count, descending)
    found = make.add(GatherElements(last), rows, positions)
    return _turned(make, found, back), _turned(make, positions, back)


def _turned(make: Appends, data: str, order: list[int]) -> str:
    return data if order == sorted(order) else make.add(Transpose(tuple(order)), data)


@dataclass(frozen=True, slots=True)
class _Order:
    """Which of two elements comes first; ``floats``: there may be NaN."""

    make: Appends
    descending: bool
    floats: bool

    def before(self, first: str, second: str) -> str:
        """Whether ``first`` comes before ``second`` and is not its equal."""
        make, function = self.make, self._function()
        compared = make.add(BinaryOp(function), first, second)
        if not self.floats:
            return compared
        other = make.add(UnaryOp("is_nan"), second if self.descending else first)
        return make.add(BinaryOp("and"), _not(make, compared), _not(make, other))

    def _function(self) -> BinaryFunction:
        """Of whole numbers the order itself, of others what it excludes, which NaN never is."""
        if self.floats:
            return "le" if self.descending else "ge"
        return "gt" if self.descending else "lt"


def _not(make: Appends, value: str) -> str:
    return make.add(UnaryOp("not"), value)


def _ranks(make: Appends, data: str, descending: bool) -> str:
    """How many elements of its row come before each: [..., n]."""
    kind = make.type_of(data)
    *rest, count = kind.shape
    order = _Order(make, descending, is_float(kind.dtype))
    own = make.add(Reshape((*rest, count, 1)), data)
    other = make.add(Reshape((*rest, 1, count)), data)
    places = np.arange(count)
    earlier = make.array(places[None, :] < places[:, None])
    ahead = _not(make, order.before(own, other)), order.before(other, own)
    return _sum(make, make.add(Where(), earlier, *ahead))


def _positions(make: Appends, ranks: str, wanted: int) -> str:
    """Where the elements of the first ranks are: [..., wanted]."""
    *rest, count = make.type_of(ranks).shape
    rows = make.add(Reshape((*rest, 1, count)), ranks)
    numbers = make.array(np.arange(wanted, dtype=_COUNT)[:, None])
    here = make.add(BinaryOp("eq"), rows, numbers)
    places, none = make.array(np.arange(count, dtype=_COUNT)), make.array(np.zeros((), _COUNT))
    place = make.add(Where(), here, places, none)
    return make.add(CastOp(_POSITION), _sum(make, place))


def _sum(make: Appends, value: str) -> str:
    """Along the last dimension, in int32."""
    kind = make.type_of(value)
    numbers = value if kind.dtype == _COUNT else make.add(CastOp(_COUNT), value)
    return make.add(ReduceOp("sum", (len(kind.shape) - 1,), False), numbers)
