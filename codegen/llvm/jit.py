"""Loading object code into this process and calling it."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import cache

import llvmlite.binding as llvm
import numpy as np
from numpy.typing import NDArray

from codegen.kernel import Kernel
from codegen.llvm.machine import create_machine, initialize, triple_of
from sketch.errors import TargetError
from sketch.target import Target

_OPENMP = "libgomp.so.1"
_MATHEMATICS = "libm.so.6"


@cache
def load_openmp() -> ctypes.CDLL:
    """The OpenMP runtime, visible to jitted code.

    Not through LLVM's ``load_library_permanently``, which unmaps it under spinning workers.
    """
    try:
        return ctypes.CDLL(_OPENMP, mode=ctypes.RTLD_GLOBAL)
    except OSError as error:
        raise TargetError(
            f"cannot load {_OPENMP}: {error}",
            hint="install libgomp (Debian: apt install libgomp1, Fedora: dnf install libgomp), "
            "or use a target with threads=1",
        ) from error


@cache
def load_mathematics() -> ctypes.CDLL:
    """The C mathematics library, visible to jitted code.  Raises TargetError where it is missing.

    Python need not be linked with it, and its extension modules keep their libraries private.
    """
    try:
        return ctypes.CDLL(_MATHEMATICS, mode=ctypes.RTLD_GLOBAL)
    except OSError as error:
        raise TargetError(f"cannot load {_MATHEMATICS}: {error}", hint="install glibc") from error


@cache
def _host_features() -> frozenset[str]:
    initialize()
    return frozenset(name for name, has in llvm.get_host_cpu_features().items() if has)


def check_host(target: Target) -> None:
    """Raise TargetError unless this machine can run code made for ``target``."""
    triple = triple_of(target)
    host = llvm.get_default_triple()
    if triple.split("-")[0] != host.split("-")[0]:
        raise TargetError(f"code for {triple} cannot run here", host, "compile for this machine")
    needed = {part[1:] for part in target.features.split(",") if part.startswith("+")}
    missing = sorted(needed - _host_features())
    if missing:
        raise TargetError(
            f"this machine lacks {', '.join(missing)}",
            f"code for {target.arch}",
            "compile for the host's own target",
        )


class Library:
    """Loaded kernels.  The code lives as long as this object."""

    def __init__(self, engine: llvm.ExecutionEngine) -> None:
        self._engine = engine

    def address(self, symbol: str) -> int:
        """The address of a function; raises TargetError when it is not there."""
        address = int(self._engine.get_function_address(symbol))
        if address == 0:
            raise TargetError(f"symbol {symbol!r} is not in this library")
        return address


def load(kernels: Sequence[Kernel]) -> Library:
    """Link kernels into this process.

    Raises:
        TargetError: the machine lacks an instruction set, or the OpenMP runtime is missing.
    """
    for kernel in kernels:
        check_host(kernel.target)
    if any(kernel.target.threads > 1 for kernel in kernels):
        load_openmp()
    load_mathematics()
    return Library(_engine(kernels))


def _engine(kernels: Sequence[Kernel]) -> llvm.ExecutionEngine:
    initialize()
    host = llvm.get_host_cpu_name()
    machine = create_machine(host, "", llvm.get_default_triple())  # the engine owns it
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)
    for kernel in kernels:
        engine.add_object_file(llvm.ObjectFileRef.from_data(kernel.object_code))
    engine.finalize_object()
    return engine


def aligned_workspace(size: int) -> NDArray[np.uint8]:
    """``size`` bytes that start at a 64-byte boundary (at least one byte)."""
    raw = np.empty(max(size, 1) + 64, np.uint8)
    start = -raw.ctypes.data % 64
    return raw[start : start + max(size, 1)]


def pointers(
    arrays: Sequence[NDArray[np.generic]], workspace: NDArray[np.uint8]
) -> ctypes.Array[ctypes.c_void_p]:
    """The argument block of a kernel."""
    addresses = [array.ctypes.data for array in arrays]
    return (ctypes.c_void_p * (len(arrays) + 1))(*addresses, workspace.ctypes.data)


def call(address: int, arrays: Sequence[NDArray[np.generic]], workspace: NDArray[np.uint8]) -> None:
    """Run a kernel once: ``arrays`` in argument order, stored dense, as their dtypes."""
    function = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(address)
    block = pointers(arrays, workspace)  # must stay alive during the call
    function(ctypes.addressof(block))
