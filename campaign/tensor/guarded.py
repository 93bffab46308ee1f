"""Memory that ends, or begins, at a page that nobody may touch."""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Sequence
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

Side = Literal["start", "end"]
_PAGE: Final = mmap.PAGESIZE
_GUARD: Final = 16 * _PAGE
_CANARY: Final = 0xCB
_NO_ACCESS, _READ, _READ_WRITE = 0, 1, 3
_PRIVATE_ANONYMOUS: Final = 0x22
_LIBC: Final = ctypes.CDLL(None, use_errno=True)
_LIBC.mmap.restype = ctypes.c_void_p
_LIBC.mmap.argtypes = [
    ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long
]  # fmt: skip
_LIBC.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
_LIBC.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]


class Guarded:
    """``size`` bytes between pages without access; the slack of the last page holds canaries.

    Attributes:
        address: of the first byte.
    """

    def __init__(self, size: int, side: Side) -> None:
        self._size = size
        self._body = max(_PAGE, -(-size // _PAGE) * _PAGE)
        self._total = self._body + 2 * _GUARD
        base = _LIBC.mmap(None, self._total, _NO_ACCESS, _PRIVATE_ANONYMOUS, -1, 0)
        if base in (None, ctypes.c_void_p(-1).value):
            raise MemoryError("mmap")
        self._base: int = base
        self._protect(_READ_WRITE)
        self._offset = self._body - size if side == "end" else 0
        self.address = self._base + _GUARD + self._offset
        memory: Any = (ctypes.c_uint8 * self._body).from_address(self._base + _GUARD)
        self._whole: NDArray[Any] = np.frombuffer(memory, np.uint8)
        self._whole[:] = _CANARY

    def array(self, dtype: Any, shape: Sequence[int]) -> NDArray[Any]:
        """The bytes as an array."""
        inner = self._whole[self._offset : self._offset + self._size]
        return inner.view(dtype).reshape(shape)

    def read_only(self) -> None:
        """From now on a write faults."""
        self._protect(_READ)

    def intact(self) -> bool:
        """Whether the canaries around the bytes are untouched."""
        before, after = self._whole[: self._offset], self._whole[self._offset + self._size :]
        return bool((before == _CANARY).all() and (after == _CANARY).all())

    def free(self) -> None:
        """Unmap; arrays of it must not be used any more."""
        del self._whole
        _LIBC.munmap(self._base, self._total)

    def _protect(self, access: int) -> None:
        if _LIBC.mprotect(self._base + _GUARD, self._body, access) != 0:
            raise MemoryError("mprotect")
