"""Modules as files: a zip of the plan, the machine code and the packed constants.

``module.json``: program, target, format version; ``constants.bin``: the constants' segment, byte
for byte; ``objects/NAME.o``: relocatable objects, one a kernel; ``host/NAME.onnx``: ONNX models
that host steps evaluate.
"""

from __future__ import annotations

import json
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from autosched.replaced_file import replaced_file
from autosched.runtime.errors import ModuleFileError
from autosched.runtime.memory import allocate
from autosched.runtime.program import Program

_PLAN: Final = "module.json"
_CONSTANTS: Final = "constants.bin"
_OBJECTS: Final = "objects/"
_HOST: Final = "host/"

Contents = tuple[Program, NDArray[np.uint8], dict[str, bytes], dict[str, bytes]]


def write_archive(
    path: Path,
    program: Program,
    constants: NDArray[np.uint8],
    objects: Mapping[str, bytes],
    payloads: Mapping[str, bytes] | None = None,
) -> None:
    """Write a module; an existing file is replaced only when all is written.

    Raises:
        ModuleFileError: the file cannot be written.
    """
    try:
        with (
            replaced_file(path) as partial,
            zipfile.ZipFile(partial, "w", zipfile.ZIP_STORED) as archive,
        ):
            archive.writestr(_PLAN, json.dumps(program.to_json(), indent=1))
            for symbol, code in objects.items():
                archive.writestr(f"{_OBJECTS}{symbol}.o", code)
            for name, payload in (payloads or {}).items():
                archive.writestr(f"{_HOST}{name}.onnx", payload)
            with archive.open(_CONSTANTS, "w", force_zip64=True) as stream:
                stream.write(constants.data)
    except OSError as error:
        raise ModuleFileError(
            f"cannot write the module: {error.strerror or error}", str(path)
        ) from error


def read_archive(path: Path) -> Contents:
    """The program, its constants' segment (in huge-page memory), its objects and host payloads.

    Raises:
        ModuleFileError: no such file, no module, damaged, or another format version.
    """
    where = str(path)
    try:
        with zipfile.ZipFile(path) as archive:
            program = Program.from_json(json.loads(archive.read(_PLAN)))
            constants = _read_constants(archive, program.constants_bytes)
            objects, payloads = _read_all(archive, _OBJECTS), _read_all(archive, _HOST)
            for step in program.host_steps:
                payloads[step.payload]  # a missing one is damage
    except ModuleFileError as error:
        raise ModuleFileError(error.what, error.where or where, error.hint) from error
    except OSError as error:
        raise ModuleFileError(f"cannot read the module: {error}", where) from error
    except (zipfile.BadZipFile, zlib.error, KeyError, ValueError, EOFError) as error:
        raise ModuleFileError(
            f"the file is no module, or it is damaged: {error}",
            where,
            "write it again with Module.save",
        ) from error
    return program, constants, objects, payloads


def _read_all(archive: zipfile.ZipFile, folder: str) -> dict[str, bytes]:
    names = [name for name in archive.namelist() if name.startswith(folder)]
    return {Path(name).stem: archive.read(name) for name in names}


def _read_constants(archive: zipfile.ZipFile, size_bytes: int) -> NDArray[np.uint8]:
    stored = archive.getinfo(_CONSTANTS).file_size
    if stored != size_bytes:
        raise ValueError(f"{_CONSTANTS} has {stored} bytes, expected {size_bytes}")
    memory = allocate(size_bytes)
    window = memory.data
    with archive.open(_CONSTANTS) as stream:
        filled = 0
        while filled < size_bytes:
            chunk = stream.read(min(size_bytes - filled, 1 << 24))
            if not chunk:
                raise EOFError(f"{_CONSTANTS} is cut off")
            window[filled : filled + len(chunk)] = chunk
            filled += len(chunk)
        stream.read(1)  # the checksum is verified at the end of the stream
    return memory
