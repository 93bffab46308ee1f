"""Reading counters before and after steps."""

from __future__ import annotations

import ctypes
import os
from functools import cache
from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from codegen.llvm.jit import Library
    from sketch.target.target import Target

_VALUES: Final = 3
_RUN: Final = ctypes.CFUNCTYPE(
    None,
    ctypes.c_void_p,
    ctypes.c_int64,
    ctypes.c_void_p,
    ctypes.c_int64,
    ctypes.c_void_p,
    ctypes.c_void_p,
    ctypes.c_int,
)


class Reader(Protocol):
    """Readings are int64 ``[files, 3]``: count, nanoseconds enabled, nanoseconds running."""

    def read(self) -> NDArray[np.int64]:
        """All counters now."""
        ...

    def run_plan(self, plan: int, count: int, team: int, flush: int) -> NDArray[np.int64]:
        """Run the ``count`` steps at address ``plan`` with a team, or none (0); readings before the
        first and after each, int64 ``[count + 1, files, 3]``.

        Args:
            plan: address of the steps.
            count: number of steps.
            team: address of the threads that help; 0: none.
            flush: 1: denormal numbers become 0; 0: they are kept.
        """
        ...


class FileReader:
    """Reads open counters; between kernels without Python."""

    def __init__(self, files: tuple[int, ...], target: Target) -> None:
        self._files = np.array(files, np.int32)
        self._library = _counting_library(target)
        self._run: Any = _RUN(self._library.address("run_plan_counted"))

    def read(self) -> NDArray[np.int64]:
        size = _VALUES * 8
        data = b"".join(os.read(int(file), size) for file in self._files)
        return np.frombuffer(data, np.int64).reshape(len(self._files), _VALUES)

    def run_plan(self, plan: int, count: int, team: int, flush: int) -> NDArray[np.int64]:
        """See ``Reader``.

        Args:
            plan: address of the steps.
            count: number of steps.
            team: address of the threads that help; 0: none.
            flush: 1: denormal numbers become 0; 0: they are kept.
        """
        readings = np.zeros((count + 1, len(self._files), _VALUES), np.int64)
        files, out = self._files.ctypes.data, readings.ctypes.data
        self._run(plan, count, files, len(self._files), out, team, flush)
        return readings


@cache
def _counting_library(target: Target) -> Library:
    from codegen.counting import build_counting_driver
    from codegen.llvm.jit import load

    return load([build_counting_driver(target)])
