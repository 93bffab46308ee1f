"""Kernels run with every buffer between pages that cannot be touched.

A read or write one element outside an argument, a constant or the workspace ends the process that
runs the kernel, which is not this one: the test fails with the signal's name.  Each kernel runs
twice, with its buffers flush to the end of their pages and to the start, so that both sides are
watched.  What is left of the pages holds canaries, which must be there afterwards; inputs and
constants cannot be written; outputs and the workspace begin as garbage (NaN, for floats).
"""

from __future__ import annotations

import atexit
import ctypes
import math
import mmap
import os
import pickle
import select
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import IO, Any, Final, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from codegen.kernel import Kernel
from codegen.llvm.jit import call, load
from sketch.lang.dtypes import numpy_dtype
from tests.support.teams import team_address

Array = NDArray[Any]
Side = Literal["end", "start"]

SIDES: Final[tuple[Side, ...]] = get_args(Side)
GARBAGE: Final = 0xFF  # a NaN as every float, -1 as every integer
_CANARY: Final = 0xCB
_READ, _READ_WRITE = mmap.PROT_READ, mmap.PROT_READ | mmap.PROT_WRITE
_TIMEOUT_S: Final = 120.0
_PR_SET_PDEATHSIG: Final = 1
_ROOT: Final = Path(__file__).parents[2]


class KernelFault(AssertionError):
    """A kernel touched memory that is not its own, or did not return."""


@cache
def _libc() -> ctypes.CDLL:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    return libc


class GuardedBuffer:
    """``size`` bytes with untouchable pages in front of and behind them.

    ``side``: where the bytes lie flush with those pages; towards the other one there are canaries,
    unless the size is a multiple of the page's.  The untouchable part is at least as long as the
    buffer, so that an overrun by the whole array is seen too.
    """

    def __init__(self, size: int, side: Side) -> None:
        page = mmap.PAGESIZE
        self._body = max(page, -(-size // page) * page)
        guard = self._body + 256 * page
        self._map = mmap.mmap(-1, self._body + 2 * guard)
        start = ctypes.addressof(ctypes.c_char.from_buffer(self._map))
        self._address = start + guard
        self._protect(start, guard, 0)
        self._protect(self._address + self._body, guard, 0)
        pages = np.frombuffer(self._map, np.uint8, self._body, guard)
        pages[:] = _CANARY
        first = self._body - size if side == "end" else 0
        self.bytes: Array = pages[first : first + size]
        self._slack = (pages[:first], pages[first + size :])

    @staticmethod
    def _protect(address: int, size: int, mode: int) -> None:
        if _libc().mprotect(address, size, mode) != 0:
            raise OSError(ctypes.get_errno(), "mprotect")

    def forbid_writing(self) -> None:
        """Writing the buffer ends the process from now on."""
        self._protect(self._address, self._body, _READ)

    def is_intact(self) -> bool:
        """Whether nobody wrote beside the buffer within its pages."""
        return all(bool((part == _CANARY).all()) for part in self._slack)


@dataclass(frozen=True, slots=True)
class _Job:
    kernel: Kernel
    inputs: Mapping[str, Array]


def _execute(job: _Job) -> dict[str, Array] | str:
    """Outputs by argument name, the same of a run on either side, or what is wrong."""
    library = load([job.kernel])  # whose code lives as long as it
    address = library.address(job.kernel.symbol)
    first, second = (_run(job, address, side) for side in SIDES)
    if isinstance(first, str) or isinstance(second, str):
        return first if isinstance(first, str) else second
    for name, array in first.items():
        if array.tobytes() != second[name].tobytes():
            return f"{name} differs from run to run"
    return first


def _run(job: _Job, address: int, side: Side) -> dict[str, Array] | str:
    """Outputs by argument name, or what is wrong, of a run on one side."""
    kernel = job.kernel
    buffers: list[GuardedBuffer] = []
    arrays: list[Array] = []
    for argument in kernel.arguments:
        dtype = numpy_dtype(argument.dtype)
        buffer = GuardedBuffer(math.prod(argument.shape) * dtype.itemsize, side)
        array = buffer.bytes.view(dtype).reshape(argument.shape)
        if argument.scope == "output":
            buffer.bytes[:] = GARBAGE
        else:
            array[...] = job.inputs[argument.name].reshape(argument.shape)
            buffer.forbid_writing()
        buffers.append(buffer)
        arrays.append(array)
    workspace = GuardedBuffer(kernel.workspace_bytes, side)
    workspace.bytes[:] = GARBAGE
    call(address, arrays, workspace.bytes, team_address(kernel.target.threads))
    names = [*(argument.name for argument in kernel.arguments), "the workspace"]
    for name, buffer in zip(names, [*buffers, workspace], strict=True):
        if not buffer.is_intact():
            return f"wrote beside {name}, which is flush to the {side} of its pages"
    pairs = zip(kernel.arguments, arrays, strict=True)
    return {a.name: array.copy() for a, array in pairs if a.scope == "output"}


def serve() -> None:
    """Run kernels that come through standard input, until it is closed.

    A child runs them, and after a kernel that has ended it the next one: loading what they need
    takes a hundred times as long as a fork.
    """
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    while True:
        child = os.fork()
        if child == 0:
            _libc().prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
            _serve_until_closed(answers)
            os._exit(0)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if status == 0:
            return
        cause = signal.Signals(-status).name if status < 0 else str(status)
        pickle.dump(f"ended its process: {cause}", answers)
        answers.flush()


def _serve_until_closed(answers: IO[bytes]) -> None:
    while True:
        try:
            job = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        pickle.dump(_execute(job), answers)
        answers.flush()


class _Worker:
    """The process whose children run kernels; a new one follows one that was stopped."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None

    def run(self, job: _Job) -> dict[str, Array]:
        process = self._process or self._start()
        assert process.stdin is not None and process.stdout is not None
        pickle.dump(job, process.stdin)
        process.stdin.flush()
        answer = self._answer(process.stdout)
        if isinstance(answer, str):
            raise KernelFault(f"kernel {job.kernel.name}: {answer}")
        return answer

    def _start(self) -> subprocess.Popen[bytes]:
        code = f"import sys; sys.path.insert(0, {str(_ROOT)!r})\n"
        code += "from tests.support.guard_pages import serve\nserve()"
        pipe = subprocess.PIPE
        command = [sys.executable, "-c", code]
        self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe)
        return self._process

    def _answer(self, answers: IO[bytes]) -> dict[str, Array] | str:
        if not select.select([answers], [], [], _TIMEOUT_S)[0]:
            self.stop()
            return f"did not return within {_TIMEOUT_S:.0f} s"
        answer: dict[str, Array] | str = pickle.load(answers)
        return answer

    def stop(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.communicate()


@cache
def _worker() -> _Worker:
    worker = _Worker()
    atexit.register(worker.stop)
    return worker


def run_guarded(kernel: Kernel, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """Run a kernel between guard pages, on either side.

    Args:
        kernel: for this machine; any number of threads.
        inputs: inputs and constants by name, as they are stored (packed constants packed).

    Returns:
        Outputs by name, in the arguments' shapes; garbage where the kernel wrote nothing.

    Raises:
        KernelFault: the kernel touched memory that is not its own, wrote an input, hung, or gave
            two results for the same inputs.
    """
    given = {
        argument.name: np.ascontiguousarray(inputs[argument.name])
        for argument in kernel.arguments
        if argument.scope != "output"
    }
    return _worker().run(_Job(kernel, given))
