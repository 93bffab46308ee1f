"""Importer of onnxruntime's MatMulNBits: products with matrices of narrow integers in blocks."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from autosched.graph.ops.elementwise import BinaryOp
from autosched.graph.ops.gather import Gather
from autosched.graph.ops.narrow import NarrowMatMul
from autosched.graph.ops.shape import Pad, Reshape
from autosched.onnx.importer.site import Site, UnsupportedError
from sketch.lang.dtypes import is_float
from sketch.operators.narrow import NARROW_BITS, WORD_BITS, NarrowFormat

_BYTE: Final = 8
_WEIGHT, _SCALE, _ZERO, _GROUP, _BIAS = 1, 2, 3, 4, 5


def import_matmul_nbits(site: Site) -> None:
    """MatMulNBits of constant weights.  Sums are of float32, whatever accuracy is enough."""
    for index, role in ((0, "data"), (_WEIGHT, "weights"), (_SCALE, "scales")):
        if not site.has(index):  # onnx's checker does not know the operator
            raise UnsupportedError(f"no {role}")
    k, n = int(site.attributes["K"]), int(site.attributes["N"])
    stored = _format(site)
    blocks = -(-k // stored.block)
    order = _order(site, k, stored.block)
    scale = _parameter(site, _SCALE, (n, blocks))
    zero = _zeros(site, (n, blocks), stored.bits)
    data = _data(site, k, stored, order)
    operands = [
        data,
        site.add_constant("words", _words(site, (n, blocks), k, stored, order)),
        site.add_constant("scale", scale.T),
    ]
    if zero is not None and zero.any():
        operands.append(site.add_constant("zero", zero.T))
    rows = site.builder.types[data].shape
    bias = site.has(_BIAS)
    if bias and site.type(_BIAS).shape != (n,):
        raise UnsupportedError(f"a bias {site.type(_BIAS)} for {n} columns")
    if not bias and len(rows) > 1 and site.rank(0) > 1:
        site.emit(NarrowMatMul(stored), operands)
        return
    value = site.step(NarrowMatMul(stored), operands)
    if bias and site.rank(0) > 1:
        site.emit(BinaryOp("add"), [value, site.input(_BIAS)])
        return
    if bias:
        value = site.step(BinaryOp("add"), [value, site.input(_BIAS)])
    site.emit(Reshape((n,)), [value])


def _format(site: Site) -> NarrowFormat:
    bits, block = int(site.attributes.get("bits", 4)), int(site.attributes["block_size"])
    if bits not in NARROW_BITS or block < 16 or block & (block - 1):
        raise UnsupportedError(f"blocks of {block} integers of {bits} bits")
    return NarrowFormat(bits, block)


def _order(site: Site, k: int, block: int) -> NDArray[np.int64] | None:
    """The rows, those of a block after those of the blocks before it; None: so they are.

    Raises:
        UnsupportedError: blocks have other numbers of rows than those of the format.
    """
    groups = site.constant(_GROUP)
    plain = np.arange(k) // block
    if groups is None or np.array_equal(groups.reshape(-1)[:k], plain):
        return None
    order = np.argsort(groups.reshape(-1)[:k], kind="stable").astype(np.int64)
    if not np.array_equal(groups.reshape(-1)[order], plain):
        raise UnsupportedError(f"g_idx with other numbers of rows than {block} in a block")
    return order


def _data(site: Site, k: int, stored: NarrowFormat, order: NDArray[np.int64] | None) -> str:
    """The rows of the data in the order of the weights' rows, with zeros up to a whole word."""
    value, shape = site.input(0), site.type(0).shape
    if not shape or shape[-1] != k:
        raise UnsupportedError(f"data {site.type(0)} with K = {k}")
    if len(shape) == 1:
        value = site.step(Reshape((1, k)), [value])
    if order is not None:
        axis = max(1, len(shape) - 1)
        value = site.step(Gather(axis), [value, site.add_constant("order", order)])
    missing = -k % stored.in_word
    if not missing:
        return value
    none = (0,) * max(1, len(shape) - 1)
    return site.step(Pad((*none, 0), (*none, missing)), [value])


def _words(
    site: Site,
    blocks: tuple[int, int],
    k: int,
    stored: NarrowFormat,
    order: NDArray[np.int64] | None,
) -> NDArray[np.int32]:
    """``[ceil(k / integers of a word), n]``: the file has all integers higher by half of their
    range, the format maybe not all.

    Args:
        site: the node.
        blocks: columns, and blocks of each.
        k: rows.
        stored: the format.
        order: of the rows; None: as they are.
    """
    array = site.constant(_WEIGHT)
    assert array is not None
    size = stored.block * stored.bits // _BYTE
    if array.dtype != np.uint8 or array.size != blocks[0] * blocks[1] * size:
        raise UnsupportedError(f"weights {site.type(_WEIGHT)}")
    packed = array.reshape(blocks[0], -1)
    if order is not None:
        packed = _reordered(packed, order, stored.bits)
    columns = np.ascontiguousarray(packed).view("<u4")
    last = 1 << (WORD_BITS - 1)
    lowered = (
        last if stored.raised else sum(last >> first for first in range(0, WORD_BITS, stored.bits))
    )
    rows = -(-k // stored.in_word)
    return np.ascontiguousarray((columns[:, :rows] ^ np.uint32(lowered)).T).view(np.int32)


def _reordered(packed: NDArray[np.uint8], order: NDArray[np.int64], bits: int) -> NDArray[np.uint8]:
    """The integers of each column in another order; those behind them stay where they are."""
    places = np.arange(_BYTE // bits, dtype=np.uint8) * bits
    each = (packed[..., None] >> places & ((1 << bits) - 1)).reshape(len(packed), -1)
    each[:, : len(order)] = each[:, order]
    split = each.reshape(len(packed), -1, len(places)).astype(np.uint8) << places
    result: NDArray[np.uint8] = np.bitwise_or.reduce(split, axis=-1)
    return result


def _parameter(site: Site, index: int, shape: tuple[int, int]) -> NDArray[Any]:
    """A float for each block, ``[n, blocks]``."""
    array = site.constant(index)
    assert array is not None
    if not is_float(str(array.dtype)) or array.size != shape[0] * shape[1]:
        raise UnsupportedError(f"scales or zero points {site.type(index)}")
    return array.reshape(shape)


def _zeros(site: Site, shape: tuple[int, int], bits: int) -> NDArray[Any] | None:
    """Zero points of the signed integers, ``[n, blocks]``: int8 or float32; None: zeros."""
    array = site.constant(_ZERO)
    if array is None:
        return None
    half = 1 << (bits - 1)
    if array.dtype != np.uint8:
        return _parameter(site, _ZERO, shape).astype(np.float32) - np.float32(half)
    in_byte = _BYTE // bits
    row = -(-shape[1] // in_byte)
    if array.size != shape[0] * row:
        raise UnsupportedError(f"zero points {site.type(_ZERO)}")
    packed = array.reshape(shape[0], row, 1).astype(np.int32)
    each = packed >> (np.arange(in_byte) * bits) & ((1 << bits) - 1)
    return (each.reshape(shape[0], -1)[:, : shape[1]] - half).astype(np.int8)
