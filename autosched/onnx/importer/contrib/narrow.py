"""Importer of onnxruntime's MatMulNBits: products with matrices of narrow integers in blocks."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from autosched.graph.ops.elementwise import BinaryOp
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
    if site.has(_GROUP) and not _is_plain(site, k, stored.block):
        raise UnsupportedError("g_idx that reorders the rows")
    blocks = -(-k // stored.block)
    scale = _parameter(site, _SCALE, (n, blocks))
    zero = _zeros(site, (n, blocks), stored.bits)
    data = _data(site, k, stored)
    operands = [
        data,
        site.add_constant("words", _words(site, (n, blocks), k, stored)),
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


def _is_plain(site: Site, k: int, block: int) -> bool:
    """Whether the group of a row is that of its block."""
    groups = site.constant(_GROUP)
    assert groups is not None
    return np.array_equal(groups.reshape(-1)[:k], np.arange(k) // block)


def _data(site: Site, k: int, stored: NarrowFormat) -> str:
    """The rows of the data, with zeros up to a whole word."""
    value, shape = site.input(0), site.type(0).shape
    if not shape or shape[-1] != k:
        raise UnsupportedError(f"data {site.type(0)} with K = {k}")
    if len(shape) == 1:
        value = site.step(Reshape((1, k)), [value])
    missing = -k % stored.in_word
    if not missing:
        return value
    none = (0,) * max(1, len(shape) - 1)
    return site.step(Pad((*none, 0), (*none, missing)), [value])


def _words(site: Site, blocks: tuple[int, int], k: int, stored: NarrowFormat) -> NDArray[np.int32]:
    """``[ceil(k / integers of a word), n]``: the file has all integers higher by half of their
    range, the format maybe not all.
    """
    array = site.constant(_WEIGHT)
    assert array is not None
    size = stored.block * stored.bits // _BYTE
    if array.dtype != np.uint8 or array.size != blocks[0] * blocks[1] * size:
        raise UnsupportedError(f"weights {site.type(_WEIGHT)}")
    columns = np.ascontiguousarray(array.reshape(blocks[0], -1)).view("<u4")
    last = 1 << (WORD_BITS - 1)
    lowered = (
        last if stored.raised else sum(last >> first for first in range(0, WORD_BITS, stored.bits))
    )
    rows = -(-k // stored.in_word)
    return np.ascontiguousarray((columns[:, :rows] ^ np.uint32(lowered)).T).view(np.int32)


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
