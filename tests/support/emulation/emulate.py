"""Compiles the text of CUDA programs for the CPU and runs it: numerics without a GPU.

Only what depends on the order of threads between two barriers can go unnoticed, so every program
should run in both orders.
"""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from codegen.cuda.kernel import CudaSource, Launch

COMPILER = shutil.which("c++") or shutil.which("g++") or shutil.which("clang++")
_HEADERS = Path(__file__).parent
_FLAGS = (
    *("-O1", "-std=c++17", "-shared", "-fPIC", "-w", "-fno-strict-aliasing"),
    "-ftrivial-auto-var-init=pattern",
)
_MARGIN = 64  # elements around every buffer, which must stay as they are


class EmulationError(AssertionError):
    """A program does what a GPU does not forgive."""


def compile_programs(sources: Sequence[CudaSource], folder: Path) -> list[Program]:
    """Build all programs as one shared library in ``folder``."""
    assert COMPILER is not None
    parts = ['#include "cuda_cpu.h"']
    for number, source in enumerate(sources):
        # With C linkage, kernels of the same name would be one function.
        text = source.text.replace('extern "C" ', "")
        parts.append(f"namespace program_{number} {{\n{text}\n}}")
        parts += [_wrapper(launch, number) for launch in source.launches]
    program = folder / "programs.cpp"
    program.write_text("\n".join(parts), encoding="utf-8")
    library = folder / "programs.so"
    command = [COMPILER, *_FLAGS, f"-I{_HEADERS}", str(program), "-o", str(library)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[:4000]
    loaded = ctypes.CDLL(str(library))
    return [Program(source, number, loaded) for number, source in enumerate(sources)]


def _wrapper(launch: Launch, number: int) -> str:
    casts = ", ".join(f"({kind})args[{i}]" for i, kind in enumerate(launch.parameters))
    name = f"{launch.symbol}_{number}"
    return (
        f"static void body_{name}(void **args) {{ program_{number}::{launch.symbol}({casts}); }}\n"
        f'extern "C" int run_{name}(void **args, int grid, int threads, int reverse) {{\n'
        f"  return emulator::launch(body_{name}, args, grid, threads, reverse);\n}}"
    )


@dataclass(frozen=True)
class Program:
    """One program of a library."""

    source: CudaSource
    number: int
    library: ctypes.CDLL

    def run(self, arrays: Mapping[str, np.ndarray], reverse: bool = False) -> dict[str, np.ndarray]:
        """Outputs by name, from inputs and constants by name."""
        memory = {a.name: _padded(a.shape, a.dtype) for a in self.source.arguments}
        memory |= {name: _padded((size,), "uint8") for name, size in self.source.workspaces}
        for argument in self.source.arguments:
            if argument.scope != "output":
                _inside(memory[argument.name])[...] = np.ravel(arrays[argument.name])
        before = {name: _outside(array).tobytes() for name, array in memory.items()}
        for launch in self.source.launches:
            self._launch(launch, memory, reverse)
        for name, array in memory.items():
            if _outside(array).tobytes() != before[name]:
                raise EmulationError(f"{self.source.name} writes outside {name}")
        return {
            a.name: _inside(memory[a.name]).reshape(a.shape)
            for a in self.source.arguments
            if a.scope == "output"
        }

    def _launch(self, launch: Launch, memory: Mapping[str, np.ndarray], reverse: bool) -> None:
        run = getattr(self.library, f"run_{launch.symbol}_{self.number}")
        addresses = [_inside(memory[name]).ctypes.data for name in launch.buffers]
        pointers = (ctypes.c_void_p * max(1, len(addresses)))(*addresses)
        if run(pointers, launch.grid, launch.block, int(reverse)):
            raise EmulationError(f"{launch.symbol}: some threads do not reach a barrier")


def _padded(shape: tuple[int, ...], dtype: str) -> np.ndarray:
    """Memory full of ones in all bits: NaN, -1."""
    count = int(np.prod(shape, dtype=np.int64)) + 2 * _MARGIN
    return np.full(count * np.dtype(dtype).itemsize, 0xFF, np.uint8).view(dtype)


def _inside(array: np.ndarray) -> np.ndarray:
    return array[_MARGIN : len(array) - _MARGIN]


def _outside(array: np.ndarray) -> np.ndarray:
    return np.concatenate([array[:_MARGIN], array[len(array) - _MARGIN :]])
