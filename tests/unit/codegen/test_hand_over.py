"""What is done before a kernel is timed as in a network."""

from __future__ import annotations

import ctypes
import mmap

import numpy as np
import pytest

from codegen.hand_over import HAND_OVER_SYMBOL, build_hand_over
from codegen.host import host_target
from codegen.llvm.jit import load
from tests.support.teams import team_address

PAGES = 9
HAND_OVER = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)


def resident(address: int, pages: int) -> list[int]:
    """Which pages of memory are there: those that were touched."""
    found = (ctypes.c_ubyte * pages)()
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.mincore(ctypes.c_void_p(address), pages * mmap.PAGESIZE, found) == 0
    return [page for page in range(pages) if found[page] & 1]


@pytest.mark.parametrize("threads", [2, 3, 8])
def test_all_of_the_spans_is_touched_and_nothing_else(threads: int) -> None:
    target = host_target(threads)
    library = load([build_hand_over(target)])
    memory = mmap.mmap(-1, (PAGES + 1) * mmap.PAGESIZE, mmap.MAP_PRIVATE)
    memory.madvise(mmap.MADV_NOHUGEPAGE)
    mapped = np.frombuffer(memory, np.uint8)
    known = np.arange(3000, dtype=np.float32)
    before = known.copy()
    spans = (ctypes.c_int64 * 6)(
        known.ctypes.data, known.nbytes, mapped.ctypes.data, PAGES * mmap.PAGESIZE
    )
    hand_over = HAND_OVER(library.address(HAND_OVER_SYMBOL))
    hand_over(ctypes.addressof(spans), team_address(threads))
    assert resident(mapped.ctypes.data, PAGES + 1) == list(range(PAGES))
    np.testing.assert_array_equal(known, before)
    assert not mapped.any()
