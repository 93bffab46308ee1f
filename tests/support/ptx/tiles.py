"""Tiles in shared memory that matrix descriptors describe, and the results of ``wgmma``.

PTX ISA, "Asynchronous wgmma instructions": "Matrix descriptor format", "Strides", "Swizzling
modes" and "Register fragments", all for operands whose terms lie in order.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tests.support.ptx.program import PtxError
from tests.support.ptx.values import is_float, type_of

GROUP: Final = 128  # threads
ROWS: Final = 64
_PIECE: Final = 16  # bytes
# Bytes of a row, and how many pieces change places, by the swizzling mode.
_MODES: Final = {1: (128, 8), 2: (64, 4), 3: (32, 2)}


def addresses(descriptor: int, rows: int, size: int) -> NDArray[np.int64]:
    """Where the bytes of an operand are in shared memory, [rows, size].

    Args:
        descriptor: of the tile.
        rows: of the operand.
        size: bytes of a row that are read.

    Raises:
        PtxError: a descriptor that is not known.
    """
    start, leading, stride = (_field(descriptor, place, 14) << 4 for place in (0, 16, 32))
    if _field(descriptor, 49, 3):
        raise PtxError("a matrix descriptor with a base offset is not modelled")
    row, byte = np.arange(rows)[:, None], np.arange(size)[None, :]
    mode = _field(descriptor, 62, 2)
    if mode == 0:
        within = row % 8 * _PIECE + byte // _PIECE * leading + byte % _PIECE
        return start + row // 8 * stride + within
    pitch, pieces = _MODES[mode]
    place = start + row // 8 * stride + row % 8 * pitch + byte
    return place ^ (place >> 7) % pieces * _PIECE


def _field(descriptor: int, place: int, bits: int) -> int:
    return descriptor >> place & (1 << bits) - 1


def elements(data: NDArray[np.uint8], kind: str) -> NDArray[Any]:
    """The elements of bytes [groups, rows, size], exactly; of tf32 without what it has not."""
    if kind == "tf32":
        data = (np.ascontiguousarray(data).view(np.uint32) & np.uint32(0xFFFFE000)).view(np.uint8)
    values = np.ascontiguousarray(data).view(type_of(kind))
    return values.astype(np.float64 if is_float(kind) else np.int64)


def results(columns: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Row and column of each result, [registers, threads]."""
    register, thread = np.arange(columns // 2)[:, None], np.arange(GROUP)[None, :]
    row = thread // 32 * 16 + register // 2 % 2 * 8 + thread % 32 // 4
    return row, register // 4 * 8 + thread % 4 * 2 + register % 2
