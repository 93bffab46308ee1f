"""Runs the text of CUDA programs on the CPU, many programs in one library, with margins around all
buffers that must stay as they are.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from codegen.cuda.kernel import CudaSource
from codegen.gpu.emulation.library import (
    EmulationError,
    compile_unit,
    compiler,
    run_launch,
    translation_unit,
)

COMPILER = compiler()
_MARGIN = 64  # elements around every buffer, which must stay as they are


def compile_programs(sources: Sequence[CudaSource], folder: Path) -> list[Program]:
    """Build all programs as one shared library in ``folder``."""
    library = folder / "programs.so"
    compile_unit(translation_unit(sources), library, "-O0")  # each runs a few times only
    loaded = ctypes.CDLL(str(library))
    return [Program(source, number, loaded) for number, source in enumerate(sources)]


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
            addresses = [_inside(memory[name]).ctypes.data for name in launch.buffers]
            run_launch(self.library, launch, addresses, self.number, reverse)
        for name, array in memory.items():
            if _outside(array).tobytes() != before[name]:
                raise EmulationError(f"{self.source.name} writes outside {name}")
        return {
            a.name: _inside(memory[a.name]).reshape(a.shape)
            for a in self.source.arguments
            if a.scope == "output"
        }


def _padded(shape: tuple[int, ...], dtype: str) -> np.ndarray:
    """Memory full of ones in all bits: NaN, -1."""
    count = int(np.prod(shape, dtype=np.int64)) + 2 * _MARGIN
    return np.full(count * np.dtype(dtype).itemsize, 0xFF, np.uint8).view(dtype)


def _inside(array: np.ndarray) -> np.ndarray:
    return array[_MARGIN : len(array) - _MARGIN]


def _outside(array: np.ndarray) -> np.ndarray:
    return np.concatenate([array[:_MARGIN], array[len(array) - _MARGIN :]])
