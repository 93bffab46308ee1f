"""Compiles CUDA programs to PTX and runs them in the interpreter."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from codegen.cuda.kernel import CudaSource
from tests.support.ptx.interpreter import run_kernel
from tests.support.ptx.memory import Region
from tests.support.ptx.program import PtxError, parse_ptx


def ptx_of(text: str, arch: str = "") -> str:
    """NVRTC's PTX of a translation unit; ``arch``: "": the one that has what it calls."""
    from cuda.bindings import nvrtc

    arch = arch or ("compute_90a" if "wgmma_" in text else "compute_90")
    status, program = nvrtc.nvrtcCreateProgram(text.encode(), b"kernel.cu", 0, [], [])
    assert int(status) == 0
    try:
        options = [f"--gpu-architecture={arch}".encode(), b"--std=c++17"]
        if int(nvrtc.nvrtcCompileProgram(program, len(options), options)[0]) != 0:
            log = bytes(nvrtc.nvrtcGetProgramLogSize(program)[1])
            nvrtc.nvrtcGetProgramLog(program, log)
            raise PtxError(log.decode())
        ptx = bytes(nvrtc.nvrtcGetPTXSize(program)[1])
        nvrtc.nvrtcGetPTX(program, ptx)
        return ptx.decode().rstrip("\0")
    finally:
        nvrtc.nvrtcDestroyProgram(program)


def run_ptx(
    source: CudaSource, ptx: str, arrays: Mapping[str, NDArray[Any]]
) -> dict[str, NDArray[Any]]:
    """Outputs by name, from inputs and constants by name.

    Raises:
        MemoryFault, DivergenceError: a kernel does what a GPU does not allow.
        PtxError: the text is not understood.
    """
    kernels = parse_ptx(ptx)
    memory: dict[str, NDArray[Any]] = {
        name: np.full(size, 0xFF, np.uint8) for name, size in source.workspaces
    }
    for argument in source.arguments:
        if argument.scope == "output":
            memory[argument.name] = np.empty(argument.shape, argument.dtype)
        else:
            given = np.ravel(arrays[argument.name]).astype(argument.dtype).reshape(argument.shape)
            memory[argument.name] = np.ascontiguousarray(given)
    given_names = {a.name for a in source.arguments if a.scope != "output"}
    regions = {
        name: Region.of(name, 0, values, name not in given_names, name in given_names)
        for name, values in memory.items()
    }
    for launch in source.launches:
        kernel = kernels[launch.symbol]
        buffers = [regions[name] for name in launch.buffers]
        run_kernel(kernel, launch.grid, launch.block, buffers, launch.shared_bytes)
    return {a.name: memory[a.name] for a in source.arguments if a.scope == "output"}
