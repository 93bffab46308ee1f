"""The records of 64-bit little-endian ELF files, as NumPy types, and the numbers in them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

HEADER: Final = np.dtype([
    ("ident", "S16"), ("type", "<u2"), ("machine", "<u2"), ("version", "<u4"), ("entry", "<u8"),
    ("phoff", "<u8"), ("shoff", "<u8"), ("flags", "<u4"), ("ehsize", "<u2"), ("phentsize", "<u2"),
    ("phnum", "<u2"), ("shentsize", "<u2"), ("shnum", "<u2"), ("shstrndx", "<u2"),
])  # fmt: skip
SECTION: Final = np.dtype([
    ("name", "<u4"), ("type", "<u4"), ("flags", "<u8"), ("addr", "<u8"), ("offset", "<u8"),
    ("size", "<u8"), ("link", "<u4"), ("info", "<u4"), ("addralign", "<u8"), ("entsize", "<u8"),
])  # fmt: skip
SYMBOL: Final = np.dtype([
    ("name", "<u4"), ("info", "u1"), ("other", "u1"), ("section", "<u2"), ("value", "<u8"),
    ("size", "<u8"),
])  # fmt: skip
RELOCATION: Final = np.dtype([
    ("offset", "<u8"), ("type", "<u4"), ("symbol", "<u4"), ("addend", "<i8"),
])  # fmt: skip

IDENT: Final = b"\x7fELF\x02\x01\x01"
RELOCATABLE: Final = 1
# Types of sections.
PROGBITS, SYMTAB, STRTAB, RELA, NOBITS = 1, 2, 3, 4, 8
UNWIND, ADDRESS_SIGNIFICANCE = 0x70000001, 0x6FFF4C03
# Flags of sections.
ALLOC, LINK_ORDER = 2, 0x80
# Symbols: binding in the upper half of ``info``, type in the lower; special sections.
LOCAL, GLOBAL = 0, 1
OBJECT, FILE = 1, 4
UNDEFINED, FIRST_RESERVED = 0, 0xFF00
HIDDEN: Final = 2


@dataclass(frozen=True, slots=True, eq=False)
class Section:
    """A section: its name, header (a ``SECTION`` scalar) and bytes, uint8 (none for NOBITS)."""

    name: str
    header: Any
    content: NDArray[np.uint8]


@dataclass(frozen=True, slots=True, eq=False)
class ObjectFile:
    """A relocatable object.

    Attributes:
        machine: number of the instruction set.
        flags: of the machine.
        sections: by index; the first is the null section.
        symbols: a ``SYMBOL`` array; the first is the null symbol.
        names: of the symbols.
    """

    machine: int
    flags: int
    sections: tuple[Section, ...]
    symbols: NDArray[Any]
    names: tuple[str, ...]


def section_header(kind: int, flags: int = 0, alignment: int = 1, entry_bytes: int = 0) -> Any:
    """A header without name, place and size, which are filled in when it is written.

    Args:
        kind: SHT_ number of the section.
        flags: SHF_ bits.
        alignment: of its start, in bytes.
        entry_bytes: size of an entry of a table; 0: no table.
    """
    return np.array((0, kind, flags, 0, 0, 0, 0, 0, alignment, entry_bytes), SECTION)[()]


def null_section() -> Section:
    """The section that every object begins with."""
    return Section("", section_header(0, alignment=0), np.empty(0, np.uint8))
