"""Products with matrices of narrow integers, several of them in a word of 32 bits.

The words are what is read from memory; lanes take the integers apart in registers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sketch.errors import ExpressionError
from sketch.lang import reducers
from sketch.lang.dtypes import arithmetic_dtype, is_float
from sketch.lang.expr import Axis, Expr, cast
from sketch.lang.tensor import Tensor, compute, reduce_axis

WORD_BITS: Final = 32
NARROW_BITS: Final = (2, 4, 8)
LEAST_BLOCK: Final = 16
_BYTE: Final = 8


@dataclass(frozen=True, slots=True)
class NarrowFormat:
    """How a matrix ``[k, n]`` is kept: as ``scale * (integer - zero)``.

    Attributes:
        bits: of an integer.  A word holds integers of neighbouring rows of a column, the first in
            the lowest bits: bytes as they are; of others the last as it is, and the others higher
            by half of their range, so that one instruction takes each of them out.
        block: rows with a scale and a zero in common: a power of two, 16 at least.
    """

    bits: int
    block: int

    def __post_init__(self) -> None:
        if self.bits not in NARROW_BITS:
            raise ExpressionError(f"integers of {self.bits} bits", hint="2, 4 or 8")
        if self.block < LEAST_BLOCK or self.block & (self.block - 1):
            raise ExpressionError(f"blocks of {self.block}", hint="a power of two, 16 or more")

    @property
    def in_word(self) -> int:
        """Integers in a word."""
        return WORD_BITS // self.bits

    @property
    def raised(self) -> int:
        """How much higher than they are all integers but the last of a word are stored."""
        return 0 if self.bits == _BYTE else 1 << (self.bits - 1)


def words_of(integers: NDArray[np.int8], stored: NarrowFormat) -> NDArray[np.int32]:
    """The words of ``integers [k, n]``, all of them numbers of the format: ``[k / in_word, n]``."""
    rows, columns = integers.shape
    count = stored.in_word
    each = integers.reshape(rows // count, count, columns).astype(np.int32)
    each[:, : count - 1] += stored.raised
    unsigned = each.astype(np.uint32) & ((1 << stored.bits) - 1)
    places = np.arange(count, dtype=np.uint32)[:, None] * stored.bits
    words: NDArray[np.uint32] = np.bitwise_or.reduce(unsigned << places, axis=1)
    return words.view(np.int32)


def integers_of(words: NDArray[np.int32], stored: NarrowFormat) -> NDArray[np.int8]:
    """The integers in ``words``, ``[k, n]``."""
    count, high = stored.in_word, WORD_BITS - stored.bits
    places = np.arange(count, dtype=np.int32)[:, None] * stored.bits
    each = (words[:, None] << (high - places)) >> high
    if stored.raised:
        each[:, : count - 1] &= (1 << stored.bits) - 1
        each[:, : count - 1] -= stored.raised
    return each.astype(np.int8).reshape(-1, words.shape[1])


def narrow_matmul(
    data: Tensor,
    words: Tensor,
    scale: Tensor,
    zero: Tensor | None,
    stored: NarrowFormat,
    name: str = "narrow_matmul",
) -> Tensor:
    """``[..., k] x [k, n] -> [..., n]``, sums in float32 (float64 for data of float64).

    Data are multiplied by powers of two down to ``2**-28``: numbers below 1e-29 count as zeros.

    Args:
        data: floats; k is a multiple of ``stored.in_word``.
        words: ``[k / stored.in_word, n]`` int32.
        scale: ``[ceil(k / stored.block), n]`` floats.
        zero: integers or floats of the shape of ``scale``; None: zeros.
        stored: how words are read.
        name: of the stage.

    Raises:
        ExpressionError: shapes or dtypes do not fit.
    """
    _check(data, words, (scale, *(() if zero is None else (zero,))), stored, f"stage {name}")
    count = stored.in_word
    word = reduce_axis(words.shape[0], "k")

    def element(*axes: Axis) -> Expr:
        *rows, column = axes
        block = word // (stored.block // count)
        given = [_wide(data[(*rows, word * count + i)]) for i in range(count)]
        read = words[word, column]  # one node: what is read in one way can be packed
        total = _total([_product(read, x, i, stored) for i, x in enumerate(given)])
        others = _total(given[:-1])
        if stored.raised:
            total = total - others * float(stored.raised)
        if zero is not None:
            total = total - cast(zero[block, column], total.dtype) * (others + given[-1])
        return reducers.sum(total * _wide(scale[block, column]), axis=word)

    names = (*(f"i{d}" for d in range(data.ndim - 1)), "j")
    shape = (*data.shape[:-1], words.shape[1])
    result: Tensor = compute(shape, element, name, axis_names=names)
    return result


def _product(word: Expr, factor: Expr, position: int, stored: NarrowFormat) -> Expr:
    """``factor`` times what a word holds at a position.

    Raised integers stay where they are in the word: the factor is so much smaller.
    """
    high, place = WORD_BITS - stored.bits, stored.bits * position
    if position == stored.in_word - 1:
        return factor * cast(word >> high, factor.dtype)
    if not stored.raised:
        return factor * cast((word << (high - place)) >> high, factor.dtype)
    mask = ((1 << stored.bits) - 1) << place
    return (factor * 2.0**-place) * cast(word & mask, factor.dtype)


def _total(values: Sequence[Expr]) -> Expr:
    return reduce(lambda total, value: total + value, values)


def _wide(value: Expr) -> Expr:
    return cast(value, arithmetic_dtype(value.dtype))


def _check(
    data: Tensor,
    words: Tensor,
    parameters: Sequence[Tensor],
    stored: NarrowFormat,
    where: str,
) -> None:
    if not is_float(data.dtype) or words.dtype != "int32" or not is_float(parameters[0].dtype):
        kinds = ", ".join(t.dtype for t in (data, words, parameters[0]))
        raise ExpressionError(f"floats, int32 and floats are needed, got {kinds}", where)
    k = data.shape[-1] if data.ndim else 0
    if not k or k % stored.in_word:
        raise ExpressionError(
            f"{k} rows are no multiple of {stored.in_word}", where, "pad with zeros"
        )
    if words.ndim != 2 or words.shape[0] != k // stored.in_word:
        raise ExpressionError(
            f"words of shape {words.shape} do not hold {k} rows of {stored.bits} bits", where
        )
    wanted = (-(-k // stored.block), words.shape[1])
    for tensor in parameters:
        if tensor.shape != wanted:
            raise ExpressionError(f"shape {tensor.shape} of a scale or zero, not {wanted}", where)
