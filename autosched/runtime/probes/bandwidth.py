"""The bandwidth of the machine, measured: every thread streams through its share of a block.

It reads its share, or copies one half of it to the other: a line that is written comes from where
it lies and goes back there, so that writing may take several times as long as reading.
"""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Final

from autosched.runtime.memory import allocate
from autosched.runtime.probes.pinned_threads import best_seconds
from codegen.backend import check_runs
from codegen.kernel import Kernel
from codegen.llvm.jit import load
from codegen.llvm.machine import emit_object
from sketch.target.target import Target

_SYMBOL: Final = "stream"
_UNROLL: Final = 8  # independent loads: enough to keep every cache level busy
_LEAST_BYTES, _MOST_BYTES = 1 << 16, 1 << 28
# Sizes differ by a quarter at most: what just fits a cache is not measured where it does not.
_SIGNIFICANT_BITS: Final = 3
_BYTES_A_REPEAT: Final = 1 << 30  # milliseconds, so that handing out the work does not show
_REPEATS: Final = 5


def measured_bandwidth(target: Target, working_bytes: int) -> float:
    """Bytes a second that all threads of ``target`` together read from a working set.

    The threads read their shares of it again and again, with vector loads and nothing else to do.
    So the size decides which caches serve them, as it does for a network of that size.  Takes a
    second at most; sizes are rounded up to few digits, within 64 kB and 256 MB.

    Raises:
        TargetError: not a CPU, or not this one.
    """
    check_runs(target, "measure the bandwidth")
    return _known(target, rounded_size(working_bytes))


def measured_write_bandwidth(target: Target, working_bytes: int) -> float:
    """Bytes a second that all threads of ``target`` together write into a working set.

    From copies of one half of it to the other, less the time in which that half is read (a quarter
    of that at least: both may go on at once).  Takes a second at most.

    Raises:
        TargetError: not a CPU, or not this one.
    """
    check_runs(target, "measure the bandwidth")
    size = rounded_size(working_bytes)
    reading = 1.0 / _known(target, size)
    return 1.0 / max(1.0 / _known_copies(target, size) - reading, reading / 4)


def rounded_size(working_bytes: int) -> int:
    """The size that ``measured_bandwidth`` takes for a working set."""
    step = 1 << max((working_bytes - 1).bit_length() - _SIGNIFICANT_BITS, 0)
    return min(max(-(-working_bytes // step) * step, _LEAST_BYTES), _MOST_BYTES)


@cache
def _known(target: Target, size: int) -> float:
    return streamed_bandwidth(target, size)


@cache
def _known_copies(target: Target, size: int) -> float:
    return _streamed(Stream(target, size, copy_stream(target.vector_bytes))) / 2.0


def streamed_bandwidth(target: Target, size: int) -> float:
    """Bytes a second that all threads of this machine read from ``size`` bytes, measured anew."""
    return _streamed(Stream(target, size))


def _streamed(stream: Stream) -> float:
    passes = max(1, _BYTES_A_REPEAT // stream.size)
    seconds = best_seconds(lambda n: stream.walk(n, passes), stream.threads, _REPEATS)
    return stream.size * passes / seconds


class Stream:
    """A block of memory, and the code with which each thread of a target walks its share of it.

    Attributes:
        size: of the block, bytes.
        threads: how many shares it has.
    """

    def __init__(self, target: Target, size: int, text: str = "") -> None:
        """Fill the block and compile the code.

        Args:
            target: this machine.
            size: of the block, in bytes; it is rounded down to whole shares.
            text: LLVM IR, as of ``read_stream``, which is the default.
        """
        code = emit_object(text or read_stream(target.vector_bytes), target)
        self._library = load([Kernel(_SYMBOL, _SYMBOL, code, (), 0, target, _UNROLL)])
        self.threads = target.threads
        line = 2 * _UNROLL * target.vector_bytes
        self._share = max(size // target.threads // line, 1) * line
        self.size = self._share * target.threads
        self._memory = allocate(self.size)
        self._memory[...] = 1  # pages that were never written are all the same one

    def walk(self, worker: int, passes: int = 1) -> None:
        """Read (or copy) the share of thread ``worker`` so many times."""
        run = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)(
            self._library.address(_SYMBOL)
        )
        run(self._memory.ctypes.data + worker * self._share, self._share, passes)


def read_stream(vector_bytes: int) -> str:
    """LLVM IR of a function from memory, bytes (a multiple of 8 vectors) and passes to int32."""
    vector, parts = f"<{vector_bytes // 4} x i32>", range(_UNROLL)
    phis = [f"  %x{n} = phi {vector} [%w{n}, %pass], [%y{n}, %loop]" for n in parts]
    loads = [
        line
        for n in parts
        for line in (
            f"  %at{n} = getelementptr i8, ptr %at, i64 {n * vector_bytes}",
            f"  %v{n} = load {vector}, ptr %at{n}, align {vector_bytes}",
            f"  %y{n} = xor {vector} %x{n}, %v{n}",
        )
    ]
    kept = [f"  %w{n} = phi {vector} [zeroinitializer, %entry], [%y{n}, %end]" for n in parts]
    sums = [f"  %s{n} = xor {vector} {'%y0' if n == 1 else f'%s{n - 1}'}, %y{n}" for n in parts[1:]]
    return "\n".join([
        f"define i32 @{_SYMBOL}(ptr %memory, i64 %bytes, i64 %passes) {{",
        "entry:",
        "  br label %pass",
        "pass:",
        "  %p = phi i64 [0, %entry], [%p.next, %end]",
        *kept,
        "  br label %loop",
        "loop:",
        "  %i = phi i64 [0, %pass], [%i.next, %loop]",
        *phis,
        "  %at = getelementptr i8, ptr %memory, i64 %i",
        *loads,
        f"  %i.next = add i64 %i, {_UNROLL * vector_bytes}",
        "  %more = icmp slt i64 %i.next, %bytes",
        "  br i1 %more, label %loop, label %end",
        "end:",
        "  %p.next = add i64 %p, 1",
        "  %again = icmp slt i64 %p.next, %passes",
        "  br i1 %again, label %pass, label %done",
        "done:",
        *sums,
        f"  %result = extractelement {vector} %s{_UNROLL - 1}, i32 0",
        "  ret i32 %result",
        "}",
    ])  # fmt: skip


def copy_stream(vector_bytes: int) -> str:
    """LLVM IR of a function as that of ``read_stream``, which copies the first half to the second.

    ``bytes``: of both halves, a multiple of 16 vectors.
    """
    vector, parts = f"<{vector_bytes // 4} x i32>", range(_UNROLL)
    moves = [
        line
        for n in parts
        for line in (
            f"  %at{n} = getelementptr i8, ptr %at, i64 {n * vector_bytes}",
            f"  %v{n} = load {vector}, ptr %at{n}, align {vector_bytes}",
            f"  %to{n} = getelementptr i8, ptr %to, i64 {n * vector_bytes}",
            f"  store {vector} %v{n}, ptr %to{n}, align {vector_bytes}",
        )
    ]
    return "\n".join([
        f"define i32 @{_SYMBOL}(ptr %memory, i64 %bytes, i64 %passes) {{",
        "entry:",
        "  %half = lshr i64 %bytes, 1",
        "  %there = getelementptr i8, ptr %memory, i64 %half",
        "  br label %pass",
        "pass:",
        "  %p = phi i64 [0, %entry], [%p.next, %end]",
        "  br label %loop",
        "loop:",
        "  %i = phi i64 [0, %pass], [%i.next, %loop]",
        "  %at = getelementptr i8, ptr %memory, i64 %i",
        "  %to = getelementptr i8, ptr %there, i64 %i",
        *moves,
        f"  %i.next = add i64 %i, {_UNROLL * vector_bytes}",
        "  %more = icmp slt i64 %i.next, %half",
        "  br i1 %more, label %loop, label %end",
        "end:",
        "  %p.next = add i64 %p, 1",
        "  %again = icmp slt i64 %p.next, %passes",
        "  br i1 %again, label %pass, label %done",
        "done:",
        "  ret i32 0",
        "}",
    ])  # fmt: skip
