"""A program as a native library: an object file, a C header, and a shared library.

The object is written by us, so that it needs no assembler and no linker: kernels, entry and
constants are merged into one relocatable ELF file whose only visible symbols are the C functions.
The constants are a section of that file, written straight from memory, whatever their size.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from autosched.runtime.c_header import C_TYPES, header_text, identifier, interface_signature
from autosched.runtime.cpp_header import cpp_header_text
from autosched.runtime.errors import ExportError
from autosched.runtime.linker import link_shared
from autosched.runtime.program import Argument, ExecutionPlan, Place
from autosched.runtime.table import size_text
from autosched.system.release import __version__
from sketch.replaced_file import replaced_file

if TYPE_CHECKING:
    from codegen.elf.merge import Merged
    from codegen.entry import MovingOperand, Operand

# Kernels address their constants relative to themselves, in 32 bits with sign.
_MOST_CONSTANTS: Final = (1 << 31) - (1 << 26)
_SUFFIXES: Final = (".o", ".h", ".hpp", ".so")
_NOT_INCLUDED: Final = re.compile(r'["\r\n]')
_OPENMP: Final = ("GOMP_", "omp_")


@dataclass(frozen=True, slots=True)
class ExportedLibrary:
    """Files of an exported library.

    Attributes:
        name: prefix of the C functions.
        object_file, header, cpp_header: always there.
        shared_library: None where no linker was found, or it failed.
        note: what linked the shared library, or why there is none.
    """

    name: str
    object_file: Path
    header: Path
    cpp_header: Path
    shared_library: Path | None
    note: str

    def __str__(self) -> str:
        files = [self.object_file, self.header, self.cpp_header]
        files += [self.shared_library] if self.shared_library is not None else []
        lines = [f"{path}: {size_text(path.stat().st_size)}" for path in files]
        return "\n".join([*lines, self.note])


def export_program(
    program: ExecutionPlan,
    constants: NDArray[np.uint8],
    objects: Mapping[str, bytes],
    path: Path,
    name: str | None = None,
) -> ExportedLibrary:
    """Write ``path.o``, ``path.h``, ``path.hpp`` and, where a linker is found, ``path.so``.

    Args:
        program: what to run; none of its steps may run on the host.
        constants: the packed constants, uint8 ``[constants_bytes]``.
        objects: machine code by symbol.
        path: of the files without suffix; folders are made.
        name: prefix of the C functions; default: the last part of ``path``.

    Raises:
        ExportError: operators run on the host, the constants are too large for an object file, or
            a file cannot be written.
    """
    from codegen.llvm.machine import foreign_machine

    check_exportable(program)
    if program.constants_bytes > _MOST_CONSTANTS:
        raise ExportError(
            f"the packed constants have {program.constants_bytes / 1e9:.2f} GB, an object file "
            f"takes {_MOST_CONSTANTS / 1e9:.2f} GB",
            program.name,
            "use Module.save, or cut the model in two",
        )
    base = path.with_suffix("") if path.suffix in _SUFFIXES else path
    if base.name in ("", ".."):
        raise ExportError("this names no file", str(path), "give the path of the files to write")
    if _NOT_INCLUDED.search(base.name):
        raise ExportError(
            "no header can include this name", ascii(str(path)), "leave quotes and line ends out"
        )
    prefix = identifier(name or base.name)
    merged = _merge(program, constants, objects, prefix)
    object_file, header, cpp_header, shared = (_with_suffix(base, suffix) for suffix in _SUFFIXES)
    try:
        base.parent.mkdir(parents=True, exist_ok=True)
        with ExitStack() as written:  # all or none: an old header would not fit a new object
            object_part, header_part, cpp_part = (
                written.enter_context(replaced_file(file))
                for file in (object_file, header, cpp_header)
            )
            _write(merged, object_part)
            _write_text(header_text(program, prefix, __version__), header_part)
            _write_text(cpp_header_text(program, prefix, header.name), cpp_part)
        shared.unlink(missing_ok=True)  # one of an earlier export would no longer fit the header
    except OSError as error:
        raise ExportError(f"cannot write the library: {error.strerror}", str(base)) from error
    needs_openmp = any(symbol.startswith(_OPENMP) for symbol in merged.undefined)
    result = link_shared(object_file, shared, needs_openmp, foreign_machine(program.target))
    linked = shared if result.written else None
    return ExportedLibrary(prefix, object_file, header, cpp_header, linked, result.note)


def check_exportable(program: ExecutionPlan) -> None:
    """Raise ExportError, naming all obstacles, unless a program can run without Python."""
    if program.host_steps:
        names = [f"{s.info.op} ({', '.join(s.info.layers) or s.info.name})"
                 for s in program.host_steps]  # fmt: skip
        raise ExportError(
            f"{len(names)} operators run on the host, in Python: {'; '.join(names)}",
            program.name,
            "use Module.save, or take these operators out of the model",
        )
    specs = (*program.inputs, *(spec for spec, _ in program.outputs))
    foreign = [str(spec) for spec in specs if spec.dtype not in C_TYPES]
    if foreign:
        raise ExportError(f"C has no type for {'; '.join(foreign)}", program.name)


def _merge(
    program: ExecutionPlan, constants: NDArray[np.uint8], objects: Mapping[str, bytes], prefix: str
) -> Merged:
    from codegen.elf.merge import merge_objects
    from codegen.elf.read import data_object, read_object
    from codegen.entry import CONSTANTS_SYMBOL, Entry, Repetition, build_entry, entry_symbols
    from codegen.llvm.machine import emit_object, triple_of
    from codegen.llvm.openmp_region import openmp_text

    entry = Entry(
        prefix,
        [(step.symbol, [_argument(argument) for argument in step.arguments])
         for step in program.kernel_steps],
        len(program.inputs),
        [(_operand(place), spec.size_bytes)
         for spec, place in program.outputs],
        program.arena_bytes,
        [Repetition(loop.first, loop.count, loop.trips) for loop in program.loops],
        program.denormals,
        interface_signature(program),
        frozenset(n for n, spec in enumerate(program.inputs) if not spec.size_bytes),
    )  # fmt: skip
    start = read_object(build_entry(entry, program.target), "entry")
    used = dict.fromkeys(step.symbol for step in program.kernel_steps)
    kernels = [read_object(objects[symbol], symbol) for symbol in used]
    if program.target.threads > 1:
        text = openmp_text(triple_of(program.target))
        kernels.append(read_object(emit_object(text, program.target), "regions"))
    data = data_object(CONSTANTS_SYMBOL, constants, like=start)
    return merge_objects([start, *kernels, data], entry_symbols(prefix))


def _argument(argument: Argument) -> Operand | MovingOperand:
    from codegen.entry import MovingOperand

    if isinstance(argument, Place):
        return _operand(argument)
    first = None if argument.first is None else _operand(argument.first)
    place, start, stride = _operand(argument.place), argument.start, argument.stride
    return MovingOperand(place, start, stride, argument.period, first)


def _operand(place: Place) -> Operand:
    from codegen.entry import Operand

    assert place.segment != "host"  # check_exportable
    return Operand(place.segment, place.offset)


def _write(merged: Merged, path: Path) -> None:
    from codegen.elf.write import write_object

    with path.open("wb") as stream:
        write_object(merged, stream)


def _write_text(text: str, path: Path) -> None:
    """As UTF-8, but for what a name of a file holds that is none."""
    path.write_bytes(text.encode("utf-8", errors="surrogateescape"))


def _with_suffix(base: Path, suffix: str) -> Path:
    return base.with_name(base.name + suffix)
