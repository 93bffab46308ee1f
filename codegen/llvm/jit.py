"""Loading object code into this process and calling it."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Sequence
from functools import cache, lru_cache

import llvmlite.binding as llvm
import numpy as np
from numpy.typing import NDArray

from codegen.elf.read import read_object
from codegen.kernel import BUFFER_ALIGNMENT, Kernel
from codegen.llvm.machine import create_machine, initialize, triple_of
from codegen.llvm.permission import usable_features
from codegen.llvm.team_region import team_text
from sketch.errors import TargetError
from sketch.target.target import Target

_MATHEMATICS = "libm.so.6"


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
    found = usable_features(llvm.get_host_cpu_features())
    return frozenset(name for name, has in found.items() if has)


@lru_cache(maxsize=64)
def missing_instructions(target: Target) -> str | None:
    """Why this machine cannot run code made for ``target``, as a sentence; None where it can."""
    triple = triple_of(target)
    host = llvm.get_default_triple()
    if triple.split("-")[0] != host.split("-")[0]:
        return f"this machine is {host}, the code is for {triple}"
    missing = sorted(target.has - _host_features())
    return f"this machine lacks {', '.join(missing)}" if missing else None


def check_host(target: Target) -> None:
    """Raise TargetError unless this machine can run code made for ``target``."""
    missing = missing_instructions(target)
    if missing is not None:
        raise TargetError(missing, f"code for {target.arch}", "compile for this machine")


class Library:
    """Loaded kernels.  The code lives as long as this object."""

    def __init__(self, engine: llvm.ExecutionEngine) -> None:
        self._engine = engine
        # Known addresses are not asked for again: an exception that a signal handler raises inside
        # LLVM's binding leaves its lock held.
        self._addresses: dict[str, int] = {}

    def address(self, symbol: str) -> int:
        """The address of a function; raises TargetError when it is not there."""
        if symbol not in self._addresses:
            address = int(self._engine.get_function_address(symbol))
            if address == 0:
                raise TargetError(f"symbol {symbol!r} is not in this library")
            self._addresses[symbol] = address
        return self._addresses[symbol]


def load(kernels: Sequence[Kernel]) -> Library:
    """Link kernels into this process.

    Raises:
        TargetError: the machine lacks an instruction set.
    """
    for kernel in kernels:
        check_host(kernel.target)
    load_mathematics()
    shared = any(kernel.target.threads > 1 for kernel in kernels)
    objects = [kernel.object_code for kernel in kernels]
    return Library(_engine([*objects, _regions()] if shared else objects))


def load_regions() -> Library:
    """The code that starts teams and stops them."""
    return Library(_engine([_regions()]))


@cache
def _regions() -> bytes:
    """Object code of the region and its teams, for this machine."""
    initialize()
    triple = llvm.get_default_triple()
    machine = create_machine(llvm.get_host_cpu_name(), "", triple)
    module = llvm.parse_assembly(team_text(triple))
    try:
        return bytes(machine.emit_object(module))
    finally:
        module.close()


def missing_functions(names: Iterable[str], target: Target) -> list[str]:
    """Which of the functions that code for ``target`` calls are nowhere: LLVM ends the process."""
    load_mathematics()
    process = ctypes.CDLL(None)
    regions = read_object(_regions()).names if target.threads > 1 else ()
    return sorted(name for name in names if name not in regions and not hasattr(process, name))


def _engine(objects: Sequence[bytes]) -> llvm.ExecutionEngine:
    initialize()
    host = llvm.get_host_cpu_name()
    # Owned by the engine, which compiles nothing but its own empty module.
    machine = create_machine(host, "", llvm.get_default_triple(), effort=0)
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)
    for code in objects:
        engine.add_object_file(llvm.ObjectFileRef.from_data(code))
    engine.finalize_object()
    return engine


def aligned_workspace(size: int) -> NDArray[np.uint8]:
    """``size`` bytes that start where a workspace may (at least one byte)."""
    raw = np.empty(max(size, 1) + BUFFER_ALIGNMENT, np.uint8)
    start = -raw.ctypes.data % BUFFER_ALIGNMENT
    return raw[start : start + max(size, 1)]


def pointers(
    arrays: Sequence[NDArray[np.generic]], workspace: NDArray[np.uint8]
) -> ctypes.Array[ctypes.c_void_p]:
    """The argument block of a kernel."""
    addresses = [array.ctypes.data for array in arrays]
    return (ctypes.c_void_p * (len(arrays) + 1))(*addresses, workspace.ctypes.data)


def call(
    address: int,
    arrays: Sequence[NDArray[np.generic]],
    workspace: NDArray[np.uint8],
    team: int = 0,
) -> None:
    """Run a kernel once.

    Args:
        address: of the function.
        arrays: in argument order, stored dense, as their dtypes.
        workspace: scratch memory, of at least the kernel's size.
        team: address of the threads that share the work; 0: the calling thread does it all.
    """
    function = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(address)
    block = pointers(arrays, workspace)  # must stay alive during the call
    function(ctypes.addressof(block), team)
