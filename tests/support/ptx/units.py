"""Tensor units of warps: ``ldmatrix`` and ``mma.sync`` of PTX.

Which element is in which lane and register follows the tables of the PTX ISA, "Matrix Fragments for
mma.m16n8k..."; the order in which a unit sums floats is not known, here it is exact.
"""

from __future__ import annotations

import re
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tests.support.ptx.program import PtxError
from tests.support.ptx.values import as_type, is_float, type_of
from tests.support.ptx.warp import DivergenceError

Bits = NDArray[Any]
Mask = NDArray[np.bool_]
_WARP: Final = 32
_ROWS: Final = 8
_LANE: Final = np.arange(_WARP)


def whole_warps(mask: Mask, threads: int) -> NDArray[np.int64]:
    """The threads that take part, [warps, 32].

    Raises:
        DivergenceError: a warp of which some threads are elsewhere.
    """
    if threads % _WARP:
        raise DivergenceError(f"a block of {threads} threads has no whole warps")
    warps = mask.reshape(-1, _WARP)
    if (warps.any(axis=1) != warps.all(axis=1)).any():
        raise DivergenceError("some threads of a warp do not take part in what it does together")
    return np.flatnonzero(mask).reshape(-1, _WARP)


def matrices(rows: NDArray[np.uint8], count: int, turned: bool) -> list[Bits]:
    """``ldmatrix``: a register for each of ``count`` matrices.

    Args:
        rows: bytes of the row that each lane says, uint8 [warps, 32, 16].
        count: 1, 2 or 4.
        turned: whether the rows are columns.

    Returns:
        uint32 [warps, 32] each.
    """
    found = []
    for matrix in range(count):
        halves = np.ascontiguousarray(rows[:, _ROWS * matrix : _ROWS * (matrix + 1)])
        halves = halves.view(np.uint16)  # [warps, 8, 8]
        halves = np.swapaxes(halves, 1, 2) if turned else halves
        pair = np.stack([halves[:, _LANE // 4, _LANE % 4 * 2 + n] for n in range(2)], axis=-1)
        found.append(np.ascontiguousarray(pair).view(np.uint32)[..., 0])
    return found


def multiplied(modifiers: tuple[str, ...], operands: list[list[Bits]]) -> list[Bits]:
    """``mma.sync.aligned.m16n8k*.row.col`` of three operands; registers are [warps, 32].

    Raises:
        PtxError: another form of it.
    """
    name = ".".join(modifiers)
    form = re.fullmatch(r"sync\.aligned\.m16n8k(\d+)\.row\.col\.(\w+)\.(\w+)\.(\w+)\.(\w+)", name)
    if form is None or len(operands) != 3:
        raise PtxError(f"no instruction mma.{name} is known")
    total, first, second, again = form.groups()[1:]
    lhs, rhs, acc = operands
    terms, pack = int(form.group(1)), 4 // type_of(first).itemsize
    groups = terms // (4 * pack)
    if (len(lhs), len(rhs), len(acc)) != (2 * groups, groups, 4) or total != again:
        raise PtxError(f"mma.{name} has other registers")
    warps = len(acc[0])
    kind: type = np.float64 if is_float(total) else np.int64
    a = np.zeros((warps, 16, terms), kind)
    b = np.zeros((warps, terms, 8), kind)
    c = np.zeros((warps, 16, 8), kind)
    group, place = _LANE // 4, _LANE % 4
    for register, word in enumerate(lhs):
        for n, values in enumerate(_elements(word, first, pack)):
            row = group + 8 * (register % 2)
            a[:, row, place * pack + n + 4 * pack * (register // 2)] = values
    for register, word in enumerate(rhs):
        for n, values in enumerate(_elements(word, second, pack)):
            b[:, place * pack + n + 4 * pack * register, group] = values
    where = [(group + 8 * (r // 2), place * 2 + r % 2) for r in range(4)]
    for register, (row, column) in zip(acc, where, strict=True):
        c[:, row, column] = as_type(register, total)
    result = c + a @ b
    if not is_float(total):
        result = (result + (1 << 31)) % (1 << 32) - (1 << 31)
    return [
        np.ascontiguousarray(result[:, row, column].astype(type_of(total))).view(np.uint32)
        for row, column in where
    ]


def _elements(word: Bits, kind: str, pack: int) -> list[NDArray[Any]]:
    bits = np.ascontiguousarray(as_type(word, "b32"))
    if kind == "tf32":  # the bits behind those of tf32 are ignored
        bits = bits & np.uint32(0xFFFFE000)
    values = bits.view(type_of(kind))
    values = values.reshape(*word.shape, pack)
    return [values[..., n].astype(np.float64 if is_float(kind) else np.int64) for n in range(pack)]
