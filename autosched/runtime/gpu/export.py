"""A program for a GPU as files without Python: C source on the driver API, cubins, constants."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from autosched.runtime.c_header import device_header_text, identifier
from autosched.runtime.errors import ExportError
from autosched.runtime.export import check_exportable
from autosched.runtime.gpu.driver_source import declarations, source_text
from autosched.runtime.program import ExecutionPlan, TensorSpec
from autosched.runtime.table import size_text
from autosched.system.release import __version__
from codegen.cuda.compile import compiled
from codegen.cuda.kernel import CudaKernel
from codegen.cuda.kernel_files import stored_kernels
from sketch.replaced_file import replaced_file

_SUFFIXES: Final = (".c", ".h", ".json")


@dataclass(frozen=True, slots=True)
class ExportedSource:
    """Files of an exported program for a GPU.

    Attributes:
        name: prefix of the C functions.
        source, header: to be compiled with the header of the driver API, and linked with -lcuda.
        manifest: what the program takes and gives, and the size and SHA-256 of every file.
        files: code and constants, which ``NAME_init`` reads.
    """

    name: str
    source: Path
    header: Path
    manifest: Path
    files: tuple[Path, ...]

    def __str__(self) -> str:
        sizes = sum(path.stat().st_size for path in self.files)
        return (
            f"{self.source}, {self.header.name}, {self.manifest.name}\n"
            f"{len(self.files)} files of code and constants: {size_text(sizes)}\n"
            f"compile: cc -c {self.source.name}; link with -lcuda"
        )


def export_source(
    program: ExecutionPlan,
    constants: NDArray[np.uint8],
    objects: Mapping[str, bytes],
    path: Path,
    name: str | None = None,
) -> ExportedSource:
    """Write ``path.c``, ``path.h``, ``path.json``, ``path.constants`` and cubins ``path.N.cubin``.

    Args:
        program: what to run; none of its steps may run on the host.
        constants: the packed constants, uint8 ``[constants_bytes]``.
        objects: the kernels' files by name.
        path: of the files without suffix; folders are made.
        name: prefix of the C functions and name of the header; default: the last part of ``path``.

    Raises:
        ExportError: operators run on the host, or a file cannot be written.
        TargetError: the program is for the emulated device, and NVRTC is not installed.
    """
    check_exportable(program)
    base = path.with_suffix("") if path.suffix in _SUFFIXES else path
    if base.name in ("", ".."):
        raise ExportError("this names no file", str(path), "give the path of the files to write")
    prefix = identifier(name or base.name)
    stored = stored_kernels(objects, program.target)
    used = dict.fromkeys(step.symbol for step in program.kernel_steps)
    kernels = {symbol: stored[symbol].kernel for symbol in used}
    files = {symbol: f"{prefix}.{number}.cubin" for number, symbol in enumerate(kernels)}
    files[""] = f"{prefix}.constants"
    contents = {files[symbol]: _cubin(kernel) for symbol, kernel in kernels.items()}
    contents[files[""]] = constants.tobytes()
    texts = {
        f"{prefix}.c": source_text(program, kernels, prefix, files),
        f"{prefix}.h": device_header_text(program, prefix, __version__, declarations(prefix)),
    }
    contents |= {file: text.encode() for file, text in texts.items()}
    manifest = _manifest(program, kernels, contents)
    contents[f"{prefix}.json"] = json.dumps(manifest, indent=1).encode()
    folder = base.parent
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for file, data in contents.items():
            with replaced_file(folder / file) as partial:
                partial.write_bytes(data)
    except OSError as error:
        raise ExportError(f"cannot write the files: {error.strerror}", str(base)) from error
    source, header, about = (folder / f"{prefix}{suffix}" for suffix in _SUFFIXES)
    return ExportedSource(
        prefix, source, header, about, tuple(folder / file for file in files.values())
    )


def _cubin(kernel: CudaKernel) -> bytes:
    """Its machine code, which kernels for the emulated device come without."""
    return kernel.cubin or compiled(kernel.source, kernel.target.arch)[0]


def _manifest(
    program: ExecutionPlan, kernels: Mapping[str, CudaKernel], contents: Mapping[str, bytes]
) -> dict[str, Any]:
    return {
        "name": program.name,
        "arch": program.target.arch,
        "inputs": [_spec(spec) for spec in program.inputs],
        "outputs": [_spec(spec) for spec, _ in program.outputs],
        "arena_bytes": program.arena_bytes,
        "constants_bytes": program.constants_bytes,
        "kernels": [
            {"symbol": launch.symbol, "grid": launch.grid, "block": launch.block}
            for kernel in kernels.values()
            for launch in kernel.source.launches
        ],
        "files": {
            file: {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
            for file, data in contents.items()
        },
    }


def _spec(spec: TensorSpec) -> dict[str, Any]:
    return {"name": spec.name, "shape": list(spec.shape), "dtype": spec.dtype}
