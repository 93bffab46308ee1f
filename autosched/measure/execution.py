"""Running a kernel on arrays: memory, native timing, cache states."""

from __future__ import annotations

import ctypes
import resource
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from autosched.measure.result import CacheState, constant_state, of_network
from codegen.denormals import Denormals, flush_flag
from codegen.driver import build_driver
from codegen.hand_over import HAND_OVER_SYMBOL, build_hand_over
from codegen.kernel import BUFFER_ALIGNMENT, Kernel
from codegen.llvm.jit import Library, load
from codegen.team import Team
from sketch.lang.prepared import Allocator
from sketch.target.target import Target

Array = NDArray[Any]


def aligned_empty(shape: Sequence[int], dtype: str, alignment: int = BUFFER_ALIGNMENT) -> Array:
    """An uninitialised C-contiguous array whose data starts at a multiple of ``alignment``."""
    return _empty_behind(0, shape, dtype, alignment)


def array_empty(shape: Sequence[int], dtype: str) -> Array:
    """As ``aligned_empty``, but where a large array of NumPy's starts: two words, which the C
    library keeps in front of it, behind the start of a page.
    """
    header = 2 * ctypes.sizeof(ctypes.c_size_t)
    return _empty_behind(header, shape, dtype, BUFFER_ALIGNMENT)


def _empty_behind(header: int, shape: Sequence[int], dtype: str, alignment: int) -> Array:
    size = int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
    block = np.empty(header + size + alignment, dtype=np.uint8)
    start = header + -block.ctypes.data % alignment
    return block[start : start + size].view(dtype).reshape(shape)


def aligned_copy(array: Array, empty: Allocator = aligned_empty) -> Array:
    """A copy of ``array`` in aligned memory, that of ``empty``."""
    copy = empty(array.shape, str(array.dtype))
    copy[...] = array
    return copy


class LoadedKernel:
    """A kernel in memory with its arguments; keeps the arrays alive.

    Attributes:
        arrays: one per argument of the kernel, in its order, then the workspace.
        constants: copies of the constants, by position among the arrays; the first is in
            ``arrays``.
        blocks: argument blocks, one per set of copies of the constants.
        outputs: how many of them are outputs; they are the last before the workspace.
        passed_on: what passes through the caches before a run in a network, as ``hand_over`` takes
            it: the outputs' memory, which an earlier value was in, values of others, the inputs.
    """

    def __init__(
        self,
        kernel: Kernel,
        arrays: Sequence[Array],
        constants: Mapping[int, Sequence[Array]],
        others: Array | None = None,
    ) -> None:
        """``others``: stands for the values of other kernels; None: there are none."""
        self.library: Library = load([kernel])
        self.address = self.library.address(kernel.symbol)
        self.arrays = tuple(arrays)
        self.constants = dict(constants)
        self.outputs = sum(argument.scope == "output" for argument in kernel.arguments)
        sets = max((len(copies) for copies in constants.values()), default=1)
        self.blocks = tuple(self._block(number) for number in range(sets))
        bound = list(zip(self.arrays, kernel.arguments, strict=False))
        written = [array for array, argument in bound if argument.scope == "output"]
        read = [array for array, argument in bound if argument.scope == "input"]
        # What a product walks is its first operand, which has just been computed; what is added to
        # its result is older.
        self.passed_on = _spans([*written, *([] if others is None else [others]), *reversed(read)])
        self._turn = 0

    def _block(self, number: int) -> ctypes.Array[ctypes.c_void_p]:
        pointers = [array.ctypes.data for array in self.arrays]
        for position, copies in self.constants.items():
            pointers[position] = copies[number % len(copies)].ctypes.data
        return (ctypes.c_void_p * len(pointers))(*pointers)

    def next_block(self) -> ctypes.Array[ctypes.c_void_p]:
        """The argument block whose constants were used longest ago."""
        self._turn = (self._turn + 1) % len(self.blocks)
        return self.blocks[self._turn]


def _spans(arrays: Sequence[Array]) -> ctypes.Array[ctypes.c_int64]:
    """(address, bytes) of each array, and zeros."""
    ends = [np.lib.array_utils.byte_bounds(array) for array in arrays]
    numbers = [number for low, high in ends for number in (low, high - low)]
    return (ctypes.c_int64 * (len(numbers) + 2))(*numbers)


class Harness:
    """Native timing loop, threads and cache helpers, made once per process.

    Attributes:
        waited: whether a thread had to give its core to something else during the last run.
    """

    def __init__(
        self, target: Target, cores: Sequence[int] = (), denormals: Denormals = "flush"
    ) -> None:
        """Compile the timing loop and start the threads.

        Args:
            target: of the kernels.
            cores: bind worker k to ``cores[k]``; the calling thread is left alone.
            denormals: what becomes of denormal numbers while kernels run.
        """
        self.waited = False
        self._flush_denormals = flush_flag(denormals)
        kernels = [build_driver(target)]
        if target.threads > 1:
            kernels.append(build_hand_over(target))
        self._library = load(kernels)
        self._team = Team(target.threads, cores) if target.threads > 1 else None
        signature = ctypes.CFUNCTYPE(
            None,
            ctypes.c_void_p,
            ctypes.c_void_p,
            ctypes.c_int64,
            ctypes.c_void_p,
            ctypes.c_void_p,
            ctypes.c_int,
        )
        on_memory = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)
        for_team = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)
        self._hand_over = (
            None if self._team is None else for_team(self._library.address(HAND_OVER_SYMBOL))
        )
        self._time = signature(self._library.address("time_kernel"))
        self._flush = on_memory(self._library.address("flush_lines"))

    def run(self, kernel: LoadedKernel, runs: int, state: CacheState) -> float:
        """Mean seconds of ``runs`` executions one after another, after preparing the caches.

        In a network the activations of a layer were just written, its constants were last read one
        inference ago: "l2_cold" takes the copy of the constants that was used longest ago, which
        the copies used since have pushed out of every core's L2.
        """
        constants = constant_state(state)
        block = kernel.next_block() if constants == "l2_cold" else kernel.blocks[0]
        if constants == "dram_cold":
            for copies in kernel.constants.values():
                self._flush(copies[0].ctypes.data, copies[0].nbytes)
        nanoseconds = np.zeros(1, dtype=np.int64)
        team = 0 if self._team is None else self._team.address
        arguments, times = ctypes.addressof(block), nanoseconds.ctypes.data
        if of_network(state) and self._hand_over is not None:
            self._hand_over(ctypes.addressof(kernel.passed_on), team)
        switches = _involuntary_switches()
        self._time(kernel.address, arguments, runs, times, team, self._flush_denormals)
        self.waited = _involuntary_switches() != switches
        return max(float(nanoseconds[0]), 1.0) * 1e-9 / runs


def _involuntary_switches() -> int:
    """How often the system took a core from a thread of this process, so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw
