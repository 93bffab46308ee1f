"""Whether an object file can be handed to a linker, which believes what it reads.

LLVM's linker in memory follows offsets and indices without a look, and ends the process where a
symbol is nowhere to be found.  Every number that it uses is checked here; what our own compiler
never writes (unwind tables, thread-local or common symbols, ...) is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from codegen.elf.layout import (
    ADDRESS_SIGNIFICANCE,
    ALLOC,
    FILE,
    FIRST_RESERVED,
    HEADER,
    LOCAL,
    NOBITS,
    PROGBITS,
    RELA,
    RELOCATION,
    SECTION,
    STRTAB,
    SYMBOL,
    SYMTAB,
    UNDEFINED,
    ObjectFile,
    Section,
)
from codegen.elf.read import read_object
from codegen.errors import ObjectFileError

_KINDS: Final = (0, PROGBITS, SYMTAB, STRTAB, RELA, NOBITS, ADDRESS_SIGNIFICANCE)
_ENTRY_BYTES: Final = {SYMTAB: SYMBOL.itemsize, RELA: RELOCATION.itemsize}
_SYMBOL_KINDS: Final = (0, 1, 2, 3, 4)  # none, object, function, section, file
_BINDINGS: Final = (0, 1, 2)  # local, global, weak
_SECTION_SYMBOL: Final = 3
_FLAGS: Final = 0xF7  # write, alloc, execute, merge, strings, info link, link order
_MOST_ALIGNMENT: Final = 1 << 16
_MOST_ZEROS: Final = 1 << 28  # bytes that a section takes in memory without being in the file
_MOST_ADDEND: Final = 1 << 31
_NEVER_WRITTEN: Final = (".eh_frame", ".init_array", ".fini_array", ".ctors", ".dtors")

# Bytes that a relocation changes, by the machine's number and the relocation's type.
_WIDTHS: Final[Mapping[int, Mapping[int, int]]] = {
    62: {1: 8, 24: 8} | dict.fromkeys((2, 4, 9, 41, 42), 4),
    183: {257: 8, 260: 8}
    | dict.fromkeys((258, 261, 274, 275, 276, 277, 278, 282, 283, 284, 285, 286, 299, 311, 312), 4),
}
# Those that reach 2 or 4 GB and that no linker helps to reach further.
_NEAR: Final = (2, 258, 261, 274, 275, 276, 277, 278, 284, 285, 286, 299)
_X86_64, _AARCH64 = 62, 183
_MACHINES: Final = {"x86_64": _X86_64, "aarch64": _AARCH64}


@dataclass(frozen=True, slots=True)
class Linkable:
    """Names that a sound object defines for others, and names that others must define."""

    defined: frozenset[str]
    undefined: frozenset[str]


def check_object(code: bytes, architecture: str, where: str = "") -> Linkable:
    """Check an object for a machine, "x86_64" or "aarch64".

    Raises:
        ObjectFileError: it is truncated, inconsistent, of another machine, or not like those that
            our own compiler writes.
    """
    try:
        _check_header(code, architecture)
        item = read_object(code, where)
        _check_sections(item, len(code))
        _check_symbols(item)
        for section in item.sections:
            if int(section.header["type"]) == RELA:
                _check_relocations(item, section.header, section.content)
        return _linkable(item)
    except ObjectFileError as error:
        raise ObjectFileError(error.what, where, error.hint) from error
    except (ValueError, IndexError, OverflowError, MemoryError) as error:
        raise ObjectFileError(f"the object file is damaged: {error}", where) from error


def _check_header(code: bytes, architecture: str) -> None:
    if len(code) < HEADER.itemsize:
        raise ObjectFileError("the object file is cut off")
    header = np.frombuffer(code[: HEADER.itemsize], HEADER)[0]
    wanted = _MACHINES.get(architecture)
    if int(header["machine"]) != wanted:
        raise ObjectFileError(f"code of machine {int(header['machine'])}, expected {wanted}")
    start, count = int(header["shoff"]), int(header["shnum"])
    sizes = (int(header["ehsize"]), int(header["shentsize"]), int(header["phnum"]))
    if sizes != (HEADER.itemsize, SECTION.itemsize, 0):
        raise ValueError(f"headers of sizes {sizes}")
    if not 0 < count < FIRST_RESERVED or start + count * SECTION.itemsize > len(code):
        raise ValueError(f"{count} sections from {start} on in {len(code)} bytes")
    if int(header["shstrndx"]) >= count:
        raise ValueError("its names are in no section")


def _check_sections(item: ObjectFile, size_bytes: int) -> None:
    first = item.sections[0]
    if int(first.header["type"]) or first.content.size:
        raise ValueError("the first section is not empty")
    zeros = 0
    for section in item.sections[1:]:
        _check_section(section, size_bytes)
        if int(section.header["type"]) == NOBITS:
            zeros += int(section.header["size"])
    if zeros > _MOST_ZEROS:
        raise ValueError(f"{zeros} bytes of zeros")
    for section in item.sections:
        _check_links(item, section.header)


def _check_section(section: Section, size_bytes: int) -> None:
    header, name = section.header, section.name
    kind, alignment = int(header["type"]), int(header["addralign"])
    if kind not in _KINDS or name.startswith(_NEVER_WRITTEN) or int(header["addr"]):
        raise ValueError(f"section {name!r} of type {kind}")
    if alignment & (alignment - 1) or alignment > _MOST_ALIGNMENT:
        raise ValueError(f"section {name!r} is aligned to {alignment} bytes")
    if int(header["flags"]) & ~_FLAGS:
        raise ValueError(f"section {name!r} has flags {int(header['flags']):#x}")
    entry = _ENTRY_BYTES.get(kind)
    if entry and (int(header["entsize"]) != entry or len(section.content) % entry):
        raise ValueError(f"section {name!r} has entries of {int(header['entsize'])} bytes")
    if kind != NOBITS and int(header["offset"]) + int(header["size"]) > size_bytes:
        raise ValueError(f"section {name!r} ends behind the file")


def _check_links(item: ObjectFile, header: Any) -> None:
    kind, link = int(header["type"]), int(header["link"])
    if link >= len(item.sections):
        raise ValueError(f"a link to section {link}")
    wanted = {SYMTAB: STRTAB, RELA: SYMTAB}.get(kind)
    if wanted is not None and int(item.sections[link].header["type"]) != wanted:
        raise ValueError(f"a link to section {link} of another type")
    if kind == SYMTAB and int(header["info"]) > len(item.symbols):
        raise ValueError("more local symbols than there are")


def _check_symbols(item: ObjectFile) -> None:
    if item.symbols[:1].tobytes().strip(b"\0"):
        raise ValueError("the first symbol is not empty")
    seen: set[str] = set()
    for row, name in zip(item.symbols[1:], item.names[1:], strict=True):
        kind = int(row["info"]) & 15
        if kind not in _SYMBOL_KINDS or int(row["info"]) >> 4 not in _BINDINGS:
            raise ValueError(f"symbol {name!r} of kind {kind}")
        if kind == FILE:
            continue
        if kind != _SECTION_SYMBOL:
            if not name or name in seen:  # the linker finds local ones by name, too
                raise ValueError(f"symbol {name!r} has no name of its own")
            seen.add(name)
        _check_symbol(item, row, name)


def _check_symbol(item: ObjectFile, row: Any, name: str) -> None:
    """That a symbol lies in a section that is loaded, or in another object."""
    section = int(row["section"])
    if section >= len(item.sections):
        raise ValueError(f"symbol {name!r} in section {section}")
    header = item.sections[section].header
    size = int(header["size"]) if section else 0
    if int(row["value"]) + int(row["size"]) > size:
        raise ValueError(f"symbol {name!r} ends behind its section")
    if section and int(row["info"]) & 15 != _SECTION_SYMBOL and not int(header["flags"]) & ALLOC:
        raise ValueError(f"symbol {name!r} in a section that is not loaded")
    if section == UNDEFINED and int(row["info"]) >> 4 == LOCAL:
        raise ValueError(f"symbol {name!r} is local and undefined")


def _check_relocations(item: ObjectFile, header: Any, content: Any) -> None:
    target, widths = int(header["info"]), _WIDTHS[item.machine]
    if not 0 < target < len(item.sections):
        raise ValueError(f"relocations of section {target}")
    changed = item.sections[target].header
    if int(changed["type"]) != PROGBITS or not int(changed["flags"]) & ALLOC:
        raise ValueError(f"relocations of section {target}, of type {int(changed['type'])}")
    for row in content.view(RELOCATION):
        kind, offset, symbol = int(row["type"]), int(row["offset"]), int(row["symbol"])
        if kind not in widths:
            raise ValueError(f"a relocation of type {kind}")
        if offset + widths[kind] > int(changed["size"]):
            raise ValueError("a relocation behind its section")
        if not 0 < symbol < len(item.symbols):
            raise ValueError(f"a relocation to symbol {symbol} of {len(item.symbols)}")
        if int(item.symbols[symbol]["info"]) & 15 == FILE:
            raise ValueError("a relocation to the name of a file")
        place = item.sections[target].content[offset : offset + widths[kind]]
        if item.machine == _X86_64 and place.any():
            raise ValueError("a relocation of what is not zero")  # the linker adds it
        if kind in _NEAR and int(item.symbols[symbol]["section"]) == UNDEFINED:
            raise ValueError(f"a relocation of type {kind} to another object")
        _check_goal(item, item.symbols[symbol], int(row["addend"]))


def _check_goal(item: ObjectFile, symbol: Any, addend: int) -> None:
    """That a relocation leads into the section of its symbol, or just before or behind it."""
    section = int(symbol["section"])
    slack = 64  # instructions are shorter, and subtract their own length from what they mean
    size = int(item.sections[section].header["size"]) if section else 0
    goal = int(symbol["value"]) + addend
    if abs(addend) > _MOST_ADDEND or not -slack <= goal <= size + slack:
        raise ValueError(f"a relocation {goal} bytes into a section of {size}")


def _linkable(item: ObjectFile) -> Linkable:
    defined, undefined = set(), set()
    for row, name in zip(item.symbols[1:], item.names[1:], strict=True):
        if int(row["section"]) == UNDEFINED:
            undefined.add(name)
        elif int(row["info"]) >> 4 != LOCAL:
            if name in defined:
                raise ValueError(f"symbol {name!r} is defined twice")
            defined.add(name)
    return Linkable(frozenset(defined), frozenset(undefined))
