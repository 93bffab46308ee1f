"""Modules as files: a zip of the plan, the machine code and the packed constants.

``module.json``: program, target, format version; ``constants.bin``: the constants' segment, byte
for byte; ``objects/NAME.o``: relocatable objects, one a kernel; ``host/NAME.onnx``: ONNX models
that host steps evaluate; ``manifest.json``: size and digest of every other member, and a signature
of these.  Nothing is compressed, so that no member is larger than the file.

Trust: whoever wrote the file decides what machine code runs.  The signature, made with a key of
this user on this machine (``user_key``), tells files that were saved here from all others, which
are refused unless the caller trusts them.  Digests and checks of plan and objects find damage
before anything of it is mapped or linked; they are no defence against an author.
"""

from __future__ import annotations

import hashlib
import json
import stat
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from autosched.runtime.backend import runtime_of
from autosched.runtime.errors import ModuleFileError, UntrustedModuleError
from autosched.runtime.memory import allocate
from autosched.runtime.plan_check import check_program
from autosched.runtime.program import ExecutionPlan
from autosched.runtime.program_json import program_json, program_of
from autosched.runtime.user_key import is_signed, signature
from autosched.system.replaced_file import replaced_file
from sketch.errors import AutoschedError

_MANIFEST: Final = "manifest.json"
_PLAN: Final = "module.json"
_CONSTANTS: Final = "constants.bin"
_OBJECTS: Final = "objects/"
_HOST, _HOST_SUFFIX = "host/", ".onnx"
# Larger pieces would stay with the process: the allocator keeps what was freed for the next ones.
_CHUNK_BYTES: Final = 1 << 20
_ENCRYPTED: Final = 1  # a flag of a zip's member

Contents = tuple[ExecutionPlan, NDArray[np.uint8], dict[str, bytes], dict[str, bytes]]


def write_archive(
    path: Path,
    program: ExecutionPlan,
    constants: NDArray[np.uint8],
    objects: Mapping[str, bytes],
    payloads: Mapping[str, bytes] | None = None,
) -> None:
    """Write a module; an existing file is replaced only when all is written.

    It is signed with the key of this user, which is made where there is none.

    Args:
        path: of the file.
        program: buffers and steps.
        constants: packed, one block of bytes.
        objects: machine code by kernel.
        payloads: ONNX models of the host steps.

    Raises:
        ModuleFileError: the file cannot be written.
    """
    members: dict[str, Any] = {_PLAN: json.dumps(program_json(program), indent=1).encode()}
    suffix = runtime_of(program.target).suffix
    members |= {f"{_OBJECTS}{name}{suffix}": code for name, code in objects.items()}
    members |= {f"{_HOST}{name}{_HOST_SUFFIX}": data for name, data in (payloads or {}).items()}
    members[_CONSTANTS] = constants.data
    manifest = {name: [len(data), _digest(data)] for name, data in members.items()}
    sealed = {"members": manifest, "signature": signature(_canonical(manifest), create=True)}
    try:
        with (
            replaced_file(path) as partial,
            zipfile.ZipFile(partial, "w", zipfile.ZIP_STORED) as archive,
        ):
            archive.writestr(_MANIFEST, json.dumps(sealed, indent=1))
            for name, data in members.items():
                with archive.open(name, "w", force_zip64=name == _CONSTANTS) as stream:
                    stream.write(data)
    except OSError as error:
        raise ModuleFileError(
            f"cannot write the module: {error.strerror or error}", str(path)
        ) from error


def read_archive(path: Path, trusted: bool = False) -> Contents:
    """The program, its constants' segment (in huge-page memory), its objects and host payloads.

    Nothing of it is executed or linked.

    Raises:
        UntrustedModuleError: another user or another machine wrote it, and ``trusted`` is false.
        ModuleFileError: no such file, no module, damaged, or another format version.
    """
    where = str(path)
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise ModuleFileError("this is no regular file", where)
        with zipfile.ZipFile(path) as archive:
            return _Reader(archive, path.stat().st_size).contents(trusted)
    except OSError as error:
        raise ModuleFileError(f"cannot read the module: {error}", where) from error
    except AutoschedError as error:
        if isinstance(error, ModuleFileError):
            place = f"{where}: {error.where}" if error.where else where
            raise type(error)(error.what, place, error.hint) from error
        raise
    except Exception as error:  # whatever zipfile and json make of damage
        raise ModuleFileError(
            f"the file is no module, or it is damaged: {error}",
            where,
            "write it again with Module.save",
        ) from error


class _Reader:
    """One archive that is being read; ``size_bytes`` of the whole file."""

    def __init__(self, archive: zipfile.ZipFile, size_bytes: int) -> None:
        self._archive = archive
        self._members = _sound_members(archive, size_bytes)
        self._digests: dict[str, str] = {}

    def contents(self, trusted: bool) -> Contents:
        """All of it, checked."""
        self._open_manifest(trusted)
        program = program_of(_parse(self._read(_PLAN)))
        runtime = runtime_of(program.target)
        objects = self._read_all(_OBJECTS, runtime.suffix)
        payloads = self._read_all(_HOST, _HOST_SUFFIX)
        check_program(program, runtime.signatures(objects, program.target), payloads)
        return program, self._read_constants(program.constants_bytes), objects, payloads

    def _open_manifest(self, trusted: bool) -> None:
        if _MANIFEST not in self._members:
            if _PLAN not in self._members:
                raise ValueError(f"it has no {_MANIFEST}")
            program_of(_parse(self._archive.read(_PLAN)))  # says that it is of another version
        sealed = _parse(self._archive.read(_MANIFEST))
        manifest, signed = sealed["members"], sealed["signature"]
        if not trusted and not is_signed(_canonical(manifest), signed):
            raise UntrustedModuleError(
                "the module was not saved by this user on this machine, and to load it is to run "
                "the machine code in it",
                hint="if you trust whoever made it, say so: load(path, trusted=True), or --trusted",
            )
        sizes = {name: item.file_size for name, item in self._members.items()}
        if sizes != {name: size for name, (size, _) in manifest.items()} | {
            _MANIFEST: sizes[_MANIFEST]
        }:
            raise ValueError("its members are not those that were written")
        self._digests = {name: digest for name, (_, digest) in manifest.items()}

    def _read(self, name: str) -> bytes:
        data = self._archive.read(name)
        self._check_digest(name, _digest(data))
        return data

    def _read_all(self, folder: str, suffix: str) -> dict[str, bytes]:
        names = [n for n in self._digests if n.startswith(folder) and n.endswith(suffix)]
        return {name[len(folder) :].removesuffix(suffix): self._read(name) for name in names}

    def _check_digest(self, name: str, found: str) -> None:
        if found != self._digests[name]:
            raise ValueError(f"{name} has changed since it was written")

    def _read_constants(self, size_bytes: int) -> NDArray[np.uint8]:
        stored = self._members[_CONSTANTS].file_size
        if stored != size_bytes:
            raise ValueError(f"{_CONSTANTS} has {stored} bytes, expected {size_bytes}")
        memory = allocate(size_bytes)
        window, digest, filled = memory.data, hashlib.sha256(), 0
        with self._archive.open(_CONSTANTS) as stream:
            while filled < size_bytes:
                chunk = stream.read(min(size_bytes - filled, _CHUNK_BYTES))
                if not chunk:
                    raise EOFError(f"{_CONSTANTS} is cut off")
                window[filled : filled + len(chunk)] = chunk
                digest.update(chunk)
                filled += len(chunk)
        self._check_digest(_CONSTANTS, digest.hexdigest())
        return memory


def _sound_members(archive: zipfile.ZipFile, size_bytes: int) -> dict[str, zipfile.ZipInfo]:
    """The members by name: each once, stored as it is, all together no larger than the file."""
    members = archive.infolist()
    found = {item.filename: item for item in members}
    if len(found) < len(members):
        raise ValueError("two members have one name")
    for item in members:
        stored = item.compress_type == zipfile.ZIP_STORED and item.file_size == item.compress_size
        if not stored or item.flag_bits & _ENCRYPTED:
            raise ValueError(f"{item.filename} is compressed or encrypted")
    if sum(item.file_size for item in members) > size_bytes:
        raise ValueError("its members are larger than the file")
    return found


def _parse(data: bytes) -> Any:
    def refuse(text: str) -> None:
        raise ValueError(f"{text} is no number of a plan")

    return json.loads(data, parse_constant=refuse)


def _canonical(manifest: Any) -> bytes:
    return json.dumps(manifest, sort_keys=True).encode()


def _digest(data: bytes | memoryview) -> str:
    return hashlib.sha256(data).hexdigest()
