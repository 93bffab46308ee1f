"""The first few elements of long rows, in order, composed of other operators.

    rows [r, n]  ->  blocks [r, b, l] of about sqrt(n) elements each

Every element has a key, an int64: its place in the order of its dtype, then its position in the
row, the first one in front.  So no two keys of a row are equal.  The head of a block is its largest
key.  A loop takes the largest of all heads, and looks only in that block for the key below it: a
round reads about 2 sqrt(n) elements of a row where a search would read all n.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isqrt, prod
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from autosched.graph.appends import Appends
from autosched.graph.builder import GraphBuilder
from autosched.graph.ir import Result, Value
from autosched.graph.ops.base import Op, TensorType
from autosched.graph.ops.elementwise import BinaryFunction, BinaryOp, CastOp, UnaryOp, Where
from autosched.graph.ops.gather import Gather
from autosched.graph.ops.reduce import ReduceOp
from autosched.graph.ops.scan import Scan, ScanFunction
from autosched.graph.ops.shape import Pad, Reshape, Transpose
from sketch.lang.dtypes import is_float

_KEY: Final = "int64"
_LEAST: Final = np.iinfo(np.int64).min  # below the keys of all elements
# Positions have as many bits of a key.
_POSITION_BITS: Final = 24
# Of dtypes that have more elements there are more than keys.
_WIDE: Final = ("float64", "int64", "uint64")
# Blocks may be longer or shorter than the square root by this factor where rows consist of them.
_UNEVEN: Final = 2
# More rounds than one for so many elements of a row take longer than a sort of it.
_SHARE: Final = 8
_MOST_ROUNDS: Final = 512


def has_leading_elements(kind: TensorType, axis: int, count: int) -> bool:
    """Whether the first ``count`` elements along ``axis`` (non-negative) can be found in rounds."""
    extent = kind.shape[axis]
    few = count <= min(_MOST_ROUNDS, max(1, extent // _SHARE))
    return few and kind.dtype not in ("bool", *_WIDE) and extent < 1 << _POSITION_BITS


def leading_positions(make: Appends, rows: str, count: int, descending: bool) -> str:
    """Positions of the first elements of each row, int64 ``[..., count]``.

    Of equal elements the first one comes first; NaN is larger than all numbers.

    Args:
        make: adds operators.
        rows: ``[..., n]``, of which ``has_leading_elements`` holds.
        count: elements that are wanted of each row.
        descending: whether the largest elements come first.
    """
    kind = make.type_of(rows)
    *rest, extent = kind.shape
    blocks = _Blocks.of(prod(rest), extent, kind.dtype, descending)
    data = make.add(Reshape((blocks.rows, extent)), rows)
    if blocks.filled:
        data = make.add(Pad((0, 0), (0, blocks.filled)), data)
    data = make.add(Reshape((blocks.rows, blocks.number, blocks.length)), data)
    heads = make.add(Scan(_heads(blocks), 0), data)
    heads = make.add(Reshape((blocks.rows, blocks.number)), heads)
    keys = make.add(Scan(_rounds(blocks, count), 1), heads, data)
    turned = make.add(Transpose((1, 0)), blocks.positions(make, keys))
    return make.add(Reshape((*rest, count)), turned)


@dataclass(frozen=True, slots=True)
class _Blocks:
    """Rows as blocks.

    Attributes:
        rows, number, length: extents; ``number`` blocks of a row, ``length`` elements of a block.
        extent: elements of a row; the last block may be filled up behind them.
        dtype: of the elements.
        descending: whether the largest elements come first.
    """

    rows: int
    number: int
    length: int
    extent: int
    dtype: str
    descending: bool

    @classmethod
    def of(cls, rows: int, extent: int, dtype: str, descending: bool) -> _Blocks:
        """Blocks of one length without a rest, where there are some of about the square root."""
        root = isqrt(extent)
        near = range(max(1, root // _UNEVEN), _UNEVEN * root + 1)
        even = [length for length in near if extent % length == 0]
        length = min(even, key=lambda n: abs(n - root)) if even else root
        return cls(rows, -(-extent // length), length, extent, dtype, descending)

    @property
    def filled(self) -> int:
        """Elements behind the end of a row."""
        return self.number * self.length - self.extent

    def keys(self, make: Appends, data: str, block: str) -> str:
        """Keys of elements ``[..., length]`` of the blocks with the numbers ``block`` ``[..., 1]``,
        int64; the smallest there is for elements behind the end of a row.
        """
        place = make.add(UnaryOp("ordinal"), data) if is_float(self.dtype) else data
        place = make.add(CastOp(_KEY), place)
        if not self.descending:
            place = make.add(UnaryOp("bit_not"), place)
        high = _with(make, "shift_left", place, _POSITION_BITS)
        # Positions count from the end, so that those in front have larger keys.
        last = make.array((1 << _POSITION_BITS) - 1 - np.arange(self.length, dtype=np.int64))
        start = _with(make, "mul", block, self.length)
        position = make.add(BinaryOp("sub"), last, start)
        key = make.add(BinaryOp("bit_or"), high, position)
        if not self.filled:
            return key
        first_behind = (1 << _POSITION_BITS) - 1 - self.extent
        inside = _with(make, "gt", position, first_behind)
        return make.add(Where(), inside, key, _number(make, _LEAST))

    def positions(self, make: Appends, keys: str) -> str:
        """Where the elements of these keys are in their rows."""
        most = (1 << _POSITION_BITS) - 1
        return _with(make, "bit_xor", _with(make, "bit_and", keys, most), most)


@dataclass(frozen=True, slots=True)
class _Parts:
    """Adds operators to a body."""

    builder: GraphBuilder

    def type_of(self, value: str) -> TensorType:
        """Type of a value of the body."""
        return self.builder.types[value]

    def add(self, op: Op, *inputs: str) -> str:
        """Append ``op``; returns the name of its result."""
        return self.builder.add(op, inputs)

    def array(self, array: NDArray[Any]) -> str:
        """A constant."""
        return self.builder.constant(self.builder.unique("numbers"), array)


def _heads(blocks: _Blocks) -> ScanFunction:
    """The heads of all blocks, ``[rows, number]``.

    A loop of one round, because keys must be those of what memory has: a kernel that also
    computes the data could round them otherwise than the kernel next to it.
    """
    builder = GraphBuilder("heads of blocks")
    body = _Parts(builder)
    shape = (blocks.rows, blocks.number, blocks.length)
    data = builder.input(Value("data", shape, blocks.dtype))
    numbers = body.array(np.arange(blocks.number, dtype=np.int64)[:, None])
    heads = _largest(body, blocks.keys(body, data, numbers), keepdims=False)
    return ScanFunction(builder.finish([Result("heads", heads)]), 1, 0, 0)


def _rounds(blocks: _Blocks, count: int) -> ScanFunction:
    """The loop: its state are the heads, what it stacks are the largest keys, ``[rows]``."""
    builder = GraphBuilder("first of heads")
    body = _Parts(builder)
    shape = (blocks.rows, blocks.number)
    heads = builder.input(Value("heads", shape, _KEY))
    data = builder.input(Value("data", (*shape, blocks.length), blocks.dtype))
    first = _largest(body, heads, keepdims=True)
    block = _with(body, "div", blocks.positions(body, first), blocks.length)
    # The block's number among those of all rows.
    row = body.array(np.arange(blocks.rows, dtype=np.int64)[:, None] * blocks.number)
    place = body.add(Reshape((blocks.rows,)), body.add(BinaryOp("add"), block, row))
    flat = body.add(Reshape((blocks.rows * blocks.number, blocks.length)), data)
    keys = blocks.keys(body, body.add(Gather(0), flat, place), block)
    after = body.add(BinaryOp("lt"), keys, first)
    following = _largest(body, body.add(Where(), after, keys, _number(body, _LEAST)), keepdims=True)
    taken = body.add(BinaryOp("eq"), heads, first)
    results = [
        Result("heads", body.add(Where(), taken, following, heads)),
        Result("first", body.add(Reshape((blocks.rows,)), first)),
    ]
    return ScanFunction(builder.finish(results), count, 1, 0)


def _largest(make: Appends, value: str, keepdims: bool) -> str:
    """Along the last dimension."""
    return make.add(ReduceOp("max", (len(make.type_of(value).shape) - 1,), keepdims), value)


def _with(make: Appends, function: BinaryFunction, value: str, number: int) -> str:
    """``function`` of an int64 value and a number."""
    return make.add(BinaryOp(function), value, _number(make, number))


def _number(make: Appends, value: int) -> str:
    return make.array(np.asarray(value, np.int64))
