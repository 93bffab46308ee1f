"""The registers of all threads of a launch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tests.support.ptx.program import Operand, PtxError
from tests.support.ptx.values import POISON, as_type, constant, resized, type_of

Mask = NDArray[np.bool_]
Bits = NDArray[Any]
WARP: Final = 32


class Registers:
    """Bits by name, one value a lane; reads special registers, symbols and immediate values too."""

    def __init__(
        self,
        declared: Mapping[str, str],
        count: int,
        special: Mapping[str, NDArray[np.uint32]],
        symbols: Mapping[str, int],
    ) -> None:
        """``declared``: types by name or stem; ``symbols``: addresses of variables."""
        self._declarations = declared
        self._count = count
        self._special = special
        self._symbols = symbols
        self._registers: dict[str, Bits] = {}
        self._constants: dict[tuple[str, str], Bits] = {}  # read-only
        # When each lane has changed a register, and when it has ordered what it changed.
        self._changed: dict[str, NDArray[np.int64]] = {}
        self._ordered = np.full(count, -1, np.int64)
        self._clock = 0

    def pack(self, destination: Operand, source: Operand, kind: str, mask: Mask) -> None:
        """``mov`` between a register and the registers that make it up."""
        if isinstance(source, tuple):
            assert isinstance(destination, str)
            part = 8 * type_of(kind).itemsize // len(source)
            total = np.zeros(self._count, f"u{type_of(kind).itemsize}")
            for number, name in enumerate(source):
                piece = as_type(self.value(name, f"b{part}"), f"b{part}").astype(total.dtype)
                total |= piece << total.dtype.type(part * number)
            self.assign(destination, total, mask)
            return
        assert isinstance(destination, tuple)
        value = as_type(self.value(source, kind), kind)
        part = 8 * value.dtype.itemsize // len(destination)
        for number, name in enumerate(destination):
            piece = value >> value.dtype.type(part * number)
            self.assign(name, piece.astype(f"u{part // 8}"), mask)

    def value(self, name: str, kind: str) -> Bits:
        """An operand's bits; ``kind`` is the type by which an immediate value is read."""
        if name in self._special:
            return self._special[name]
        if name.startswith("%") or self._declared(name) is not None:
            if name not in self._registers:
                self._registers[name] = self._poison(name)
            return self._registers[name]
        if name in self._symbols:
            return np.full(self._count, self._symbols[name], np.uint64)
        known = self._constants.get((name, kind))
        if known is None:
            known = np.broadcast_to(constant(name, kind), (self._count,))
            self._constants[name, kind] = known
        return known

    def _declared(self, name: str) -> str | None:
        found = self._declarations.get(name)
        return found or self._declarations.get(name.rstrip("0123456789"))

    def _poison(self, name: str) -> Bits:
        kind = self._declared(name)
        if kind is None:
            raise PtxError(f"register {name} is not declared")
        return resized(np.full(self._count, POISON), kind)

    def order(self, mask: Mask) -> None:
        """``wgmma.fence``: products that follow come after all changes of these lanes."""
        self._clock += 1
        self._ordered[mask] = self._clock

    def ordered(self, name: str) -> Mask:
        """The lanes that have not changed a register since they ordered their changes."""
        changed = self._changed.get(name)
        return (self._ordered >= 0) if changed is None else self._ordered > changed

    def assign(self, name: str, bits: Bits, mask: Mask) -> None:
        """Change the lanes of a mask.  Raises PtxError for a register without a declaration."""
        if name == "_":
            return
        self.assign_result(name, bits, mask)
        if name not in self._changed:
            self._changed[name] = np.full(self._count, -1, np.int64)
        self._changed[name][mask] = self._clock

    def assign_result(self, name: str, bits: Bits, mask: Mask) -> None:
        """The same by an instruction that orders its results itself."""
        kind = self._declared(name)
        if kind is None:
            raise PtxError(f"register {name} is not declared")
        if bits.shape != (self._count,):
            bits = np.broadcast_to(bits, (self._count,))
        bits = resized(bits, kind)
        if not mask.all():
            bits = np.where(mask, bits, self.value(name, kind))
        self._registers[name] = bits


def special_registers(
    lanes: NDArray[np.int64], grid: int, block: int
) -> dict[str, NDArray[np.uint32]]:
    """Indices and extents of threads and blocks, one value a lane; all but x are trivial."""
    first, one = np.zeros_like(lanes), np.ones_like(lanes)
    values = {
        "%tid.x": lanes % block,
        "%ntid.x": one * block,
        "%ctaid.x": lanes // block,
        "%nctaid.x": one * grid,
        "%laneid": lanes % block % WARP,
    }
    for axis in "yz":
        values |= {f"%tid.{axis}": first, f"%ctaid.{axis}": first}
        values |= {f"%ntid.{axis}": one, f"%nctaid.{axis}": one}
    return {name: value.astype(np.uint32) for name, value in values.items()}
