"""Memory that kernels work in: private, anonymous, in huge pages; or a file's, shared."""

from __future__ import annotations

import ctypes
import mmap
from typing import Any, BinaryIO, Final

import numpy as np
from numpy.typing import NDArray

from autosched.system.element_types import element_type
from autosched.system.memory_limit import room_for

HUGE_PAGE_BYTES: Final = 2 * 1024 * 1024


def allocate(size_bytes: int) -> NDArray[np.uint8]:
    """Zeroed bytes, uint8 ``[size_bytes]``, that start at a multiple of 2 MB.

    The kernel is asked for huge pages, which it grants to private mappings only; where it knows
    none the memory is ordinary.  The array owns the mapping.

    Raises:
        OutOfMemoryError: there is no room for that many.
    """
    total = size_bytes + 2 * HUGE_PAGE_BYTES
    with room_for("the values of a module", size_bytes):
        mapping = _mapping(total)
    _advise(mapping)
    whole = np.frombuffer(mapping, dtype=np.uint8)
    start = -whole.ctypes.data % HUGE_PAGE_BYTES
    return whole[start : start + size_bytes]


def mapped(stream: BinaryIO, begin: int, size_bytes: int) -> NDArray[np.uint8]:
    """Bytes of an open file, uint8 ``[size_bytes]``, read-only, where the system keeps them.

    All processes that map a file share its pages, and the system may drop and read them again.
    The array owns the mapping, which outlives the file's name.

    Args:
        stream: of the file, opened for reading.
        begin: of the first byte.
        size_bytes: at least 1.
    """
    first = begin - begin % mmap.ALLOCATIONGRANULARITY
    mapping = mmap.mmap(
        stream.fileno(), begin - first + size_bytes, access=mmap.ACCESS_READ, offset=first
    )
    _advise(mapping)
    return np.frombuffer(mapping, dtype=np.uint8)[begin - first :]


def _mapping(size_bytes: int) -> mmap.mmap:
    try:
        return mmap.mmap(-1, size_bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    except (OSError, ValueError, OverflowError) as error:
        raise MemoryError(str(error)) from error


def _advise(mapping: mmap.mmap) -> None:
    if not hasattr(mmap, "MADV_HUGEPAGE"):
        return
    try:
        mapping.madvise(mmap.MADV_HUGEPAGE)
    except OSError:
        return  # a kernel built without transparent huge pages: only slower


def address_of(array: NDArray[Any]) -> int:
    """Where the first element of a dense array lies.

    NumPy's own way runs through Python code that the caches have lost after a network: with cold
    caches it takes four times as long as this.
    """
    try:
        # NumPy's types do not say before Python 3.12 that arrays are buffers.
        return ctypes.addressof(ctypes.c_char.from_buffer(array))  # type: ignore[arg-type]
    except (TypeError, ValueError, BufferError):  # read-only, empty, or a type without a buffer
        return array.ctypes.data


def view(
    memory: NDArray[np.uint8], offset: int, dtype: str, shape: tuple[int, ...]
) -> NDArray[Any]:
    """Bytes of ``memory`` as an array.

    Args:
        memory: one block.
        offset: of the first byte.
        dtype: of the array.
        shape: of the array.
    """
    count = int(np.prod(shape, dtype=np.int64))
    kind = element_type(dtype)
    return memory[offset : offset + count * kind.itemsize].view(kind).reshape(shape)
