"""Running a kernel on arrays: memory, native timing, cache states."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from autosched.measure.result import CacheState
from codegen.driver import build_driver
from codegen.kernel import Kernel
from codegen.llvm.jit import Library, load
from sketch.target import Target

Array = NDArray[Any]
ALIGNMENT: Final = 64


def aligned_empty(shape: Sequence[int], dtype: str, alignment: int = ALIGNMENT) -> Array:
    """An uninitialised C-contiguous array whose data starts at a multiple of ``alignment``."""
    size = int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
    block = np.empty(size + alignment, dtype=np.uint8)
    start = -block.ctypes.data % alignment
    return block[start : start + size].view(dtype).reshape(shape)


def aligned_copy(array: Array) -> Array:
    """A copy of ``array`` in aligned memory."""
    copy = aligned_empty(array.shape, str(array.dtype))
    copy[...] = array
    return copy


class LoadedKernel:
    """A kernel in memory with its arguments; keeps the arrays alive.

    Attributes:
        arrays: one per argument of the kernel, in its order, then the workspace.
        constants: the arrays among them that are constants.
        outputs: how many of them are outputs; they are the last before the workspace.
    """

    def __init__(self, kernel: Kernel, arrays: Sequence[Array], constants: Sequence[Array]) -> None:
        self.library: Library = load([kernel])
        self.address = self.library.address(kernel.symbol)
        self.arrays = tuple(arrays)
        self.constants = tuple(constants)
        self.outputs = sum(argument.scope == "output" for argument in kernel.arguments)
        pointers = [array.ctypes.data for array in self.arrays]
        self.pointers = (ctypes.c_void_p * len(pointers))(*pointers)


class Harness:
    """Native timing loop and cache helpers, loaded once per process."""

    def __init__(self, target: Target) -> None:
        driver = build_driver(target)
        self._library = load([driver])
        signature = ctypes.CFUNCTYPE(
            None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p
        )
        on_memory = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)
        self._time = signature(self._library.address("time_kernel"))
        self._flush = on_memory(self._library.address("flush_lines"))
        self._stream = on_memory(self._library.address("stream_l2"))
        # Twice L2, so that nothing older survives an imperfect replacement policy.  Not zeros:
        # pages that were never written are all one physical page.
        self._evict = np.ones(2 * target.l2_bytes, dtype=np.uint8)

    def run(self, kernel: LoadedKernel, runs: int, state: CacheState) -> float:
        """Mean seconds of ``runs`` executions one after another, after preparing the caches."""
        if state == "l2_cold":
            self._stream(self._evict.ctypes.data, self._evict.nbytes)
        elif state == "dram_cold":
            for array in kernel.constants:
                self._flush(array.ctypes.data, array.nbytes)
        nanoseconds = np.zeros(1, dtype=np.int64)
        self._time(kernel.address, ctypes.addressof(kernel.pointers), runs, nanoseconds.ctypes.data)
        return max(float(nanoseconds[0]), 1.0) * 1e-9 / runs
