"""Importer of onnxruntime's GatherBlockQuantized: rows of a table of narrow integers in blocks.

The integers stay in words of 32 bits; those of the rows that are taken are taken apart.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from autosched.graph.ops.base import normalize_axis
from autosched.graph.ops.elementwise import BinaryOp, CastOp
from autosched.graph.ops.gather import Gather
from autosched.graph.ops.shape import Reshape
from autosched.onnx.importer.site import Site, UnsupportedError
from sketch.operators.narrow import WORD_BITS

_TABLE, _PLACES, _SCALE, _ZERO = range(4)
_FLOAT: Final = "float32"
_BYTE: Final = 8
_FOUR: Final = ("int4", "uint4")


@dataclass(frozen=True, slots=True)
class _Table:
    """Integers ``[rows, ..., n]`` that are not negative, and the parameters of their blocks.

    Attributes:
        integers: uint8.
        bits: of each.
        scale: floats ``[rows, ..., n / block]``.
        zero: of the same shape, float32.
        block: elements of the last dimension with parameters in common.
    """

    integers: NDArray[np.uint8]
    bits: int
    scale: NDArray[Any]
    zero: NDArray[np.float32]
    block: int


def import_gather_block_quantized(site: Site) -> None:
    """GatherBlockQuantized of a constant table, quantised along its last dimension."""
    table = _table(site)
    axis = normalize_axis(int(site.attributes.get("gather_axis", 0)), table.integers.ndim)
    if axis:
        site.emit(Gather(axis), [site.add_constant("table", _written_out(table)), site.input(1)])
        return
    width, blocks = table.integers.shape[-1], table.scale.shape[-1]
    words = _words(table)
    taken = site.step(Gather(0), [site.add_constant("words", words), site.input(_PLACES)])
    lead = site.builder.types[taken].shape[:-1]
    each = WORD_BITS // table.bits
    value = site.step(Reshape((*lead, words.shape[-1], 1)), [taken])
    places = np.arange(each, dtype=np.int32) * table.bits
    value = site.step(BinaryOp("shift_right"), [value, site.add_constant("places", places)])
    mask = np.asarray((1 << table.bits) - 1, np.int32)
    value = site.step(BinaryOp("bit_and"), [value, site.add_constant("mask", mask)])
    value = site.step(CastOp(_FLOAT), [value])
    value = site.step(Reshape((*lead, blocks, table.block)), [value])
    value = _scaled(site, value, table, (*lead, blocks, 1))
    dtype = str(table.scale.dtype)
    if dtype != _FLOAT:
        value = site.step(CastOp(dtype), [value])
    site.emit(Reshape((*lead, width)), [value])


def _scaled(site: Site, value: str, table: _Table, shape: tuple[int, ...]) -> str:
    """``(value - zero) * scale`` of the rows that are taken; ``shape``: of both."""
    for role, array, function in (
        ("zero", table.zero, BinaryOp("sub")),
        ("scale", table.scale.astype(np.float32), BinaryOp("mul")),
    ):
        if (array == array.flat[0]).all():
            other = site.scalar(role, float(array.flat[0]), _FLOAT)
        else:
            rows = site.step(Gather(0), [site.add_constant(role, array), site.input(_PLACES)])
            other = site.step(Reshape(shape), [rows])
        value = site.step(function, [value, other])
    return value


def _table(site: Site) -> _Table:
    scale = site.constant(_SCALE)
    given = site.constant(_TABLE)
    if scale is None or given is None:
        raise UnsupportedError("no table or no scales")
    integers, bits = _integers(site, given)
    block = int(site.attributes.get("block_size", 128))
    axis = normalize_axis(int(site.attributes.get("quantize_axis", 1)), integers.ndim)
    if axis != integers.ndim - 1:
        raise UnsupportedError(f"blocks along dimension {axis} of {integers.ndim}")
    width = integers.shape[-1]
    if width % block or scale.shape != (*integers.shape[:-1], width // block):
        raise UnsupportedError(f"scales {scale.shape} of blocks of {block} in {integers.shape}")
    zeros = site.constant(_ZERO)
    if zeros is None:
        zero = np.full(scale.shape, _default_zero(given, bits), np.float32)
    else:
        zero = _integers(site, zeros)[0][..., : scale.shape[-1]].astype(np.float32)
    if zero.shape != scale.shape:
        raise UnsupportedError(f"zero points {zero.shape} of scales {scale.shape}")
    return _Table(integers, bits, scale, zero, block)


def _integers(site: Site, array: NDArray[Any]) -> tuple[NDArray[np.uint8], int]:
    """Integers that are not negative, and their bits: int4 are higher by 8."""
    dtype = str(array.dtype)
    if dtype in _FOUR:
        wide = array.astype(np.int16) + (8 if dtype == "int4" else 0)
        return wide.astype(np.uint8), 4
    bits = int(site.attributes.get("bits", 4))
    if dtype != "uint8" or bits not in (2, 4, _BYTE):
        raise UnsupportedError(f"integers of {bits} bits in {dtype}")
    each = array[..., None] >> (np.arange(_BYTE // bits, dtype=np.uint8) * bits)
    whole = each.reshape(*array.shape[:-1], -1) & ((1 << bits) - 1)
    return whole.astype(np.uint8), bits


def _default_zero(given: NDArray[Any], bits: int) -> int:
    """Of the integers that are not negative: 0 for uint4, half of the range for the others."""
    return 0 if str(given.dtype) == "uint4" else 1 << (bits - 1)


def _words(table: _Table) -> NDArray[np.int32]:
    """The integers, the first in the lowest bits: ``[rows, ..., n * bits / 32]``."""
    each = WORD_BITS // table.bits
    if table.integers.shape[-1] % each:
        raise UnsupportedError(f"{table.integers.shape[-1]} integers of {table.bits} bits in a row")
    split = table.integers.reshape(*table.integers.shape[:-1], -1, each).astype(np.uint32)
    places = np.arange(each, dtype=np.uint32) * table.bits
    words: NDArray[np.uint32] = np.bitwise_or.reduce(split << places, axis=-1)
    return words.view(np.int32)


def _written_out(table: _Table) -> NDArray[Any]:
    scale, zero = (np.repeat(a, table.block, axis=-1) for a in (table.scale, table.zero))
    matrix = (table.integers - zero) * scale.astype(np.float32)
    return np.asarray(matrix.astype(table.scale.dtype))
