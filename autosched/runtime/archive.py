"""Modules as files: a zip of the plan, the machine code and the packed constants.

``module.json``: program, target, format version; ``constants.bin``: the constants' segment, byte
for byte; ``objects/NAME.o``: relocatable objects, one a kernel; ``host/NAME.onnx``: ONNX models
that host steps evaluate; ``manifest.json``: size and digest of every other member, and a signature
of these.  Nothing is compressed, so that no member is larger than the file.  A file of several
modules (``MultiShapeModule``) has all but the manifest of each in a folder, ``0/``, ``1/``, ...
Constants begin at a multiple of a page, so that processes may map them instead of reading them.

Trust: whoever wrote the file decides what machine code runs.  The signature, made with a key of
this user on this machine (``user_key``), tells files that were saved here from all others, which
are refused unless the caller trusts them.  Digests and checks of plan and objects find damage
before anything of it is mapped or linked; they are no defence against an author.
"""

from __future__ import annotations

import hashlib
import json
import stat
import struct
import zipfile
from collections.abc import Mapping, Sequence
from itertools import count, takewhile
from pathlib import Path
from typing import Any, BinaryIO, Final

import numpy as np
from numpy.typing import NDArray

from autosched.runtime.backend import runtime_of
from autosched.runtime.errors import ModuleFileError, UntrustedModuleError
from autosched.runtime.memory import allocate, mapped
from autosched.runtime.plan_check import check_program
from autosched.runtime.program import ExecutionPlan
from autosched.runtime.program_json import program_json, program_of
from autosched.runtime.user_key import is_signed, key_file, signature
from autosched.system.user_warnings import notify
from sketch.errors import AutoschedError
from sketch.replaced_file import replaced_file

_MANIFEST: Final = "manifest.json"
_PLAN: Final = "module.json"
_CONSTANTS: Final = "constants.bin"
_OBJECTS: Final = "objects/"
_HOST, _HOST_SUFFIX = "host/", ".onnx"
# Larger pieces would stay with the process: the allocator keeps what was freed for the next ones.
_CHUNK_BYTES: Final = 1 << 20
_ENCRYPTED: Final = 1  # a flag of a zip's member
_PAGE_BYTES: Final = 4096
# A local header of a zip ends with the lengths of the name and of the extra fields that follow it;
# zipfile puts the sizes of a large member into an extra field.
_HEADER_BYTES: Final = 30
_LENGTHS: Final = struct.Struct("<HH")
_SIZES_BYTES: Final = 20
_PADDING: Final = struct.Struct("<HHH")  # an extra field: its kind, its bytes, the alignment
_PADDING_KIND: Final = 0xD935  # as zipalign writes it

Contents = tuple[ExecutionPlan, NDArray[np.uint8], dict[str, bytes], dict[str, bytes]]


def write_archive(path: Path, modules: Sequence[Contents]) -> None:
    """Write one module or several; an existing file is replaced only when all is written.

    It is signed with the key of this user, which is made where there is none.  Warns where none
    can be kept: only this process knows the file then.

    Raises:
        ModuleFileError: the file cannot be written.
    """
    members: dict[str, Any] = {}
    for number, contents in enumerate(modules):
        folder = f"{number}/" if len(modules) > 1 else ""
        members |= {folder + name: data for name, data in _members(*contents).items()}
    manifest = {name: [len(data), _digest(data)] for name, data in members.items()}
    signed = signature(_canonical(manifest))
    sealed = {"members": manifest, "signature": signed.text}
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with (
            replaced_file(path) as partial,
            partial.open("wb") as stream,
            zipfile.ZipFile(stream, "w", zipfile.ZIP_STORED) as archive,
        ):
            archive.writestr(zipfile.ZipInfo(_MANIFEST), json.dumps(sealed, indent=1))
            for name, data in members.items():
                aligned = name.endswith(_CONSTANTS)
                item = _padded(name, stream.tell()) if aligned else zipfile.ZipInfo(name)
                with archive.open(item, "w", force_zip64=aligned) as member:
                    member.write(data)
    except OSError as error:
        raise ModuleFileError(
            f"cannot write the module: {error.strerror or error}", str(path), "choose another file"
        ) from error
    if signed.unkept:
        known = f"{path} is known to this process alone, others have to be told to trust it"
        notify([f"no key can be kept ({signed.unkept}): {known}"])


def _members(
    program: ExecutionPlan,
    constants: NDArray[np.uint8],
    objects: Mapping[str, bytes],
    payloads: Mapping[str, bytes],
) -> dict[str, Any]:
    """The files of one module, by name."""
    suffix = runtime_of(program.target).suffix
    return {
        _PLAN: json.dumps(program_json(program), indent=1).encode(),
        **{f"{_OBJECTS}{name}{suffix}": code for name, code in objects.items()},
        **{f"{_HOST}{name}{_HOST_SUFFIX}": data for name, data in payloads.items()},
        _CONSTANTS: constants.data,
    }


def _padded(name: str, offset: int) -> zipfile.ZipInfo:
    """A member whose header is written at ``offset``, and whose data begin at a page."""
    item = zipfile.ZipInfo(name)
    begin = offset + _HEADER_BYTES + len(name) + _SIZES_BYTES + _PADDING.size
    padding = -begin % _PAGE_BYTES
    item.extra = _PADDING.pack(_PADDING_KIND, 2 + padding, _PAGE_BYTES) + bytes(padding)
    return item


def read_archive(path: Path, trusted: bool = False, shared: bool = False) -> list[Contents]:
    """Of each module of a file: the program, its constants' segment, its objects, host payloads.

    Nothing of it is executed or linked.

    Args:
        path: of the file.
        trusted: whoever wrote it is trusted.
        shared: constants are those pages that the system keeps of the file, for all processes;
            else they are a copy in huge-page memory.

    Raises:
        UntrustedModuleError: another user or another machine wrote it, and ``trusted`` is false.
        ModuleFileError: no such file, no module, damaged, or another format version.
    """
    where = str(path)
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise ModuleFileError("this is no regular file")
        with path.open("rb") as stream, zipfile.ZipFile(stream) as archive:
            reader = _Reader(archive, stream, path.stat().st_size)
            return reader.modules(trusted, shared)
    except OSError as error:
        why = error.strerror or error
        raise ModuleFileError(f"cannot read the module: {why}", where) from error
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
    """One archive that is being read from ``stream``; ``size_bytes`` of the whole file."""

    def __init__(self, archive: zipfile.ZipFile, stream: BinaryIO, size_bytes: int) -> None:
        self._archive, self._stream = archive, stream
        self._members = _sound_members(archive, size_bytes)
        self._digests: dict[str, str] = {}

    def modules(self, trusted: bool, shared: bool) -> list[Contents]:
        """All of it, checked."""
        self._open_manifest(trusted)
        numbers = takewhile(lambda n: f"{n}/{_PLAN}" in self._digests, count())
        folders = [""] if _PLAN in self._digests else [f"{number}/" for number in numbers]
        if not folders:
            raise ValueError(f"it has no {_PLAN}")
        return [self._module(folder, shared) for folder in folders]

    def _module(self, folder: str, shared: bool) -> Contents:
        program = program_of(_parse(self._read(folder + _PLAN)))
        runtime = runtime_of(program.target)
        objects = self._read_all(folder + _OBJECTS, runtime.suffix)
        payloads = self._read_all(folder + _HOST, _HOST_SUFFIX)
        check_program(program, runtime.signatures(objects, program.target), payloads)
        fill = self._map_constants if shared else self._read_constants
        name, size_bytes = folder + _CONSTANTS, program.constants_bytes
        if self._members[name].file_size != size_bytes:
            raise ValueError(
                f"{name} has {self._members[name].file_size} bytes, expected {size_bytes}"
            )
        return program, fill(name, size_bytes), objects, payloads

    def _open_manifest(self, trusted: bool) -> None:
        if _MANIFEST not in self._members:
            if _PLAN not in self._members:
                raise ValueError(f"it has no {_MANIFEST}")
            program_of(_parse(self._archive.read(_PLAN)))  # says that it is of another version
        sealed = _parse(self._archive.read(_MANIFEST))
        manifest, signed = sealed["members"], sealed["signature"]
        if not trusted and not is_signed(_canonical(manifest), signed):
            raise UntrustedModuleError(
                f"{_foreign()}, and to load it is to run the machine code in it",
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

    def _read_constants(self, name: str, size_bytes: int) -> NDArray[np.uint8]:
        memory = allocate(size_bytes)
        window, digest, filled = memory.data, hashlib.sha256(), 0
        with self._archive.open(name) as member:
            while filled < size_bytes:
                chunk = member.read(min(size_bytes - filled, _CHUNK_BYTES))
                if not chunk:
                    raise EOFError(f"{name} is cut off")
                window[filled : filled + len(chunk)] = chunk
                digest.update(chunk)
                filled += len(chunk)
        self._check_digest(name, digest.hexdigest())
        return memory

    def _map_constants(self, name: str, size_bytes: int) -> NDArray[np.uint8]:
        if not size_bytes:
            return self._read_constants(name, size_bytes)
        self._archive.open(name).close()  # its header is where it must be
        header = self._members[name].header_offset
        self._stream.seek(header + _HEADER_BYTES - _LENGTHS.size)
        lengths = _LENGTHS.unpack(self._stream.read(_LENGTHS.size))
        begin = header + _HEADER_BYTES + sum(lengths)
        if begin % _PAGE_BYTES:
            raise ModuleFileError(
                "its constants cannot be shared: an earlier release wrote it",
                hint="load it without shared=True and save it again",
            )
        memory = mapped(self._stream, begin, size_bytes)
        self._check_digest(name, _digest(memory.data))
        return memory


def _foreign() -> str:
    """Why a module is not known.  What its writer noted is not told: nobody has verified it."""
    place = key_file()
    key = "who has no home to keep one in" if place is None else f"which is {place}"
    return f"the module is not signed with the key of this user on this machine, {key}"


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
