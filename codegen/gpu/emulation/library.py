"""CUDA programs as shared libraries for this CPU: numerics without a GPU.

What depends on the order of threads between two barriers can go unnoticed in one order, so tests
run a program in both.
"""

from __future__ import annotations

import ctypes
import hashlib
import shutil
import subprocess
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from threading import Lock
from typing import Final

from codegen.cuda.kernel import CudaSource, Launch
from codegen.errors import CodegenError
from codegen.gpu.cache import FileCache

EMULATION: Final = "emulation"
"""The name of the cache of compiled programs."""
_HEADER: Final = Path(__file__).parent / "cuda_cpu.h"
_LANGUAGE: Final = ("-std=c++17", "-w", "-fno-strict-aliasing")
_FLAGS: Final = ("-O1", "-shared", "-fPIC", "-ftrivial-auto-var-init=pattern")
_MOST_LOG: Final = 4000
_STATUS: Final = {
    1: "some threads do not reach a barrier",
    2: "a thread stops with a trap",
    3: "a thread exchanges values with threads that do not take part",
}
# The threads of a kernel are static variables of its library: one launch at a time.
_RUNNING: Final = Lock()


class EmulationError(CodegenError):
    """A kernel does what no GPU forgives."""


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
    text = translation_unit([source])
    known = hashlib.sha256("\0".join((text, _HEADER.read_text(), *_FLAGS)).encode())
    return cache.file(f"{known.hexdigest()}.so", lambda path: compile_unit(text, path))


def translation_unit(sources: Sequence[CudaSource]) -> str:
    """C++ of programs, with a function ``run_<symbol>_<number>`` for each of their launches."""
    parts = ['#include "cuda_cpu.h"']
    for number, source in enumerate(sources):
        # With C linkage, kernels of the same name would be one function.
        text = source.text.replace('extern "C" ', "")
        parts.append(f"namespace program_{number} {{\n{text}\n}}")
        parts += [_wrapper(launch, number) for launch in source.launches]
    return "\n".join(parts)


def compile_unit(text: str, library: Path) -> None:
    """Compile what ``translation_unit`` made; raises CodegenError."""
    build_unit(text, library, _FLAGS)


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
    include = f"-I{_HEADER.parent}"
    arguments = [command, *_LANGUAGE, *flags, include, str(program), "-o", str(result)]
    done = subprocess.run(arguments, capture_output=True, text=True)
    program.unlink()
    if done.returncode != 0:
        raise CodegenError(f"{command} refuses the program: {done.stderr[:_MOST_LOG].strip()}")


def _wrapper(launch: Launch, number: int) -> str:
    casts = ", ".join(f"({kind})args[{i}]" for i, kind in enumerate(launch.parameters))
    name = f"{launch.symbol}_{number}"
    return (
        f"static void body_{name}(void **args) {{ program_{number}::{launch.symbol}({casts}); }}\n"
        f'extern "C" int run_{name}(void **args, int grid, int threads, int reverse) {{\n'
        f"  return emulator::launch(body_{name}, args, grid, threads, reverse);\n}}"
    )


def run_launch(
    library: ctypes.CDLL,
    launch: Launch,
    addresses: Sequence[int],
    number: int = 0,
    reverse: bool = False,
) -> None:
    """Run all threads of a launch.

    Args:
        library: of a translation unit.
        launch: one of its launches.
        addresses: of the buffers, in the order of ``launch.buffers``.
        number: which of the unit's programs it belongs to.
        reverse: threads and blocks in descending order.

    Raises:
        EmulationError: a barrier that not all threads reach, a trap, or an exchange of values with
            threads that do not take part.
    """
    run = getattr(library, f"run_{launch.symbol}_{number}")
    pointers = (ctypes.c_void_p * max(1, len(addresses)))(*addresses)
    with _RUNNING:
        status = run(pointers, launch.grid, launch.block, int(reverse))
    if status:
        raise EmulationError(f"{launch.symbol}: {_STATUS[status]}")
