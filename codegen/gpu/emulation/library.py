"""CUDA programs as shared libraries for this CPU: numerics without a GPU.

What depends on the order of threads between two barriers can go unnoticed in one order, so tests
run a program in both.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from threading import Lock, Thread
from typing import Final

import numpy as np
from numpy.typing import NDArray

from codegen.cuda.kernel import CudaSource, Launch
from codegen.errors import CodegenError
from codegen.file_cache import FileCache
from codegen.gpu.errors import DeviceMemoryError
from codegen.kernel import SYMBOL

EMULATION: Final = "emulation"
"""The name of the cache of compiled programs."""
FOLDER: Final = Path(__file__).parent
"""Where the headers are."""
_HEADERS: Final = tuple(
    FOLDER / name for name in ("cuda_cpu.h", "fibres.h", "list.h", "tile_units.h", "warp_units.h")
)
LANGUAGE: Final = ("-std=c++17", "-nostdinc++", "-w", "-fno-strict-aliasing")
_LEVEL: Final = "-O1"
_FLAGS: Final = ("-shared", "-fPIC", "-ftrivial-auto-var-init=pattern")
_MOST_LOG: Final = 4000
_WAITING: Final = ("__syncthreads(", "__shfl_", "__trap(", "load_matrices<", "multiply_together<")
_STATUS: Final = {
    1: "some threads do not reach a barrier",
    2: "a thread stops with a trap",
    3: "a thread exchanges values with threads that do not take part",
}
# The threads of a kernel are static variables of its library: one launch at a time.
_RUNNING: Final = Lock()


class EmulationError(CodegenError):
    """A kernel does what no GPU allows."""


@lru_cache(maxsize=1)
def compiler() -> str | None:
    """The C++ compiler of this machine, or None where there is none."""
    return shutil.which("c++") or shutil.which("g++") or shutil.which("clang++")


def missing_emulator() -> str | None:
    """Why nothing can be emulated here, or None where it can."""
    return None if compiler() else "the emulated device needs a C++ compiler: install g++ or clang"


def emulated_library(source: CudaSource, cache: FileCache) -> Path:
    """The library of one program; compiled unless ``cache`` has it.

    Raises:
        CodegenError: there is no compiler, or it refuses the program.
    """
    text = translation_unit([canonical(source)])
    headers = (header.read_text() for header in _HEADERS)
    known = hashlib.sha256("\0".join((text, *headers, _LEVEL, *_FLAGS)).encode())
    return cache.file(f"{known.hexdigest()}.so", lambda path: compile_unit(text, path))


def canonical(source: CudaSource) -> CudaSource:
    """The same program with kernels ``kernel_0``, ...: what was measured is known in a network."""
    text, launches = source.text, []
    for number, launch in enumerate(source.launches):
        symbol = f"{SYMBOL}_{number}"
        text = re.sub(rf"\b{re.escape(launch.symbol)}\b", symbol, text)
        launches.append(replace(launch, symbol=symbol))
    return replace(source, text=text, launches=tuple(launches))


@dataclass(frozen=True, slots=True, eq=False)
class EmulatedLaunch:
    """A launch in the libraries that run its blocks, a part each."""

    launch: Launch
    libraries: tuple[ctypes.CDLL, ...]

    def run(self, addresses: Sequence[int]) -> None:
        """Run all threads; see ``run_launch``."""
        run_launch(self.libraries, self.launch, addresses)


def load_launches(source: CudaSource, cache: FileCache) -> tuple[EmulatedLaunch, ...]:
    """The launches of one program, whose library is loaded once for each CPU that it may use.

    All but the first are copies: each has threads and shared memory of its own.

    Raises:
        CodegenError: there is no compiler, or it refuses the program.
        OSError: a library cannot be written or loaded.
    """
    library = emulated_library(source, cache)
    names = [f"{library.stem}-{number}.so" for number in range(1, len(os.sched_getaffinity(0)))]
    more = [cache.file(name, lambda path: shutil.copyfile(library, path)) for name in names]
    libraries = tuple(ctypes.CDLL(str(path)) for path in (library, *more))
    return tuple(EmulatedLaunch(launch, libraries) for launch in canonical(source).launches)


def translation_unit(sources: Sequence[CudaSource]) -> str:
    """C++ of programs, with a function ``run_<symbol>_<number>`` for each of their launches."""
    parts = ['#include "cuda_cpu.h"']
    for number, source in enumerate(sources):
        # With C linkage, kernels of the same name would be one function.
        text = source.text.replace('extern "C" ', "")
        parts.append(f"namespace program_{number} {{\n{text}\n}}")
        bodies = _kernels(text)
        parts += [_wrapper(each, number, _waits(bodies, each)) for each in source.launches]
    return "\n".join(parts)


def compile_unit(text: str, library: Path, level: str = _LEVEL) -> None:
    """Compile what ``translation_unit`` made; raises CodegenError.

    ``level``: of the compiler's optimisations; without any it takes a third of the time.
    """
    build_unit(text, library, (level, *_FLAGS))


def build_unit(text: str, result: Path, flags: Sequence[str]) -> None:
    """Compile C++ that includes a header of this folder.

    Raises:
        CodegenError: there is no compiler, or it refuses the text.
    """
    command = compiler()
    if command is None:
        raise CodegenError(str(missing_emulator()), "the emulated device")
    program = result.with_suffix(".cpp")
    program.write_text(text, encoding="utf-8")
    include = f"-I{FOLDER}"
    arguments = [command, *LANGUAGE, *flags, include, str(program), "-o", str(result)]
    done = subprocess.run(arguments, capture_output=True, text=True)
    program.unlink()
    if done.returncode != 0:
        raise CodegenError(f"{command} refuses the program: {done.stderr[:_MOST_LOG].strip()}")


def _kernels(text: str) -> list[str]:
    """What stands before the first kernel, and each kernel."""
    return text.split("__global__")


def _waits(kernels: Sequence[str], launch: Launch) -> bool:
    """Whether a thread of a launch may wait for others, or stop."""
    own = [kernel for kernel in kernels[1:] if re.search(rf"\b{launch.symbol}\(", kernel)]
    return any(call in text for text in (kernels[0], *own) for call in _WAITING)


def _wrapper(launch: Launch, number: int, waits: bool) -> str:
    casts = ", ".join(f"({kind})args[{i}]" for i, kind in enumerate(launch.parameters))
    name = f"{launch.symbol}_{number}"
    run = f"emulator::launch(body_{name}, args, " if waits else "emulator::launch_free(kernel, "
    return (
        f"static void body_{name}(void **args) {{ program_{number}::{launch.symbol}({casts}); }}\n"
        f'extern "C" int run_{name}(\n'
        "    void **args, int first, int stop, int threads, int reverse) {\n"
        f"  const auto kernel = [=] {{ body_{name}(args); }};\n"
        f"  return {run}{{first, stop}}, threads, reverse);\n}}"
    )


def host_memory(size: int) -> NDArray[np.uint8]:
    """Memory of this machine that stands for memory of a device.

    Raises:
        DeviceMemoryError: this machine has less than the device would have.
    """
    try:
        return np.empty(size, np.uint8)
    except MemoryError as error:
        raise DeviceMemoryError(
            f"{size} bytes are wanted, this machine has fewer",
            "emulated device",
            "use smaller shapes, or a machine with more memory",
        ) from error


def run_launch(
    libraries: ctypes.CDLL | Sequence[ctypes.CDLL],
    launch: Launch,
    addresses: Sequence[int],
    number: int = 0,
    reverse: bool = False,
) -> None:
    """Run all threads of a launch.

    Args:
        libraries: of a translation unit; of several, each runs a part of the blocks in a thread of
            its own.
        launch: one of its launches.
        addresses: of the buffers, in the order of ``launch.buffers``.
        number: which of the unit's programs it belongs to.
        reverse: threads and blocks in descending order.

    Raises:
        EmulationError: a barrier that not all threads reach, a trap, or an exchange of values with
            threads that do not take part.
    """
    own = [libraries] if isinstance(libraries, ctypes.CDLL) else libraries[: launch.grid]
    pointers = (ctypes.c_void_p * max(1, len(addresses)))(*addresses)
    bounds = [launch.grid * part // len(own) for part in range(len(own) + 1)]
    found = [0] * len(own)

    def run(part: int) -> None:
        function = getattr(own[part], f"run_{launch.symbol}_{number}")
        found[part] = function(pointers, *bounds[part : part + 2], launch.block, int(reverse))

    with _RUNNING:
        others = [Thread(target=run, args=(part,)) for part in range(1, len(own))]
        for thread in others:
            thread.start()
        run(0)
        for thread in others:
            thread.join()
    status = next(filter(None, found), 0)
    if status:
        raise EmulationError(f"{launch.symbol}: {_STATUS[status]}")
