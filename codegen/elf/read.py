"""From bytes to an object, and an object made of data."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from codegen.elf.layout import (
    ALLOC,
    GLOBAL,
    HEADER,
    HIDDEN,
    IDENT,
    NOBITS,
    OBJECT,
    PROGBITS,
    RELOCATABLE,
    SECTION,
    SYMBOL,
    SYMTAB,
    ObjectFile,
    Section,
    null_section,
    section_header,
)
from codegen.errors import ObjectFileError

_PAGE_BYTES = 4096


def read_object(code: bytes, where: str = "") -> ObjectFile:
    """Take an object file apart.

    Raises:
        ObjectFileError: no 64-bit little-endian relocatable ELF object, or damaged.
    """
    data = np.frombuffer(code, np.uint8)
    if not code.startswith(IDENT) or len(code) < HEADER.itemsize:
        raise ObjectFileError("no 64-bit little-endian ELF object", where)
    header = data[: HEADER.itemsize].view(HEADER)[0]
    if int(header["type"]) != RELOCATABLE:
        raise ObjectFileError(f"ELF file of type {int(header['type'])}, not relocatable", where)
    try:
        return _parse(data, header)
    except (ValueError, IndexError) as error:
        raise ObjectFileError(f"the object file is damaged: {error}", where) from error


def _parse(data: NDArray[np.uint8], header: Any) -> ObjectFile:
    start, count = int(header["shoff"]), int(header["shnum"])
    headers = data[start : start + count * SECTION.itemsize].view(SECTION)
    contents = [_content(data, item) for item in headers]
    names = contents[int(header["shstrndx"])].tobytes()
    sections = tuple(
        Section(_text(names, int(item["name"])), item.copy(), content)
        for item, content in zip(headers, contents, strict=True)
    )
    tables = [number for number, item in enumerate(headers) if int(item["type"]) == SYMTAB]
    if len(tables) != 1:
        raise ValueError(f"{len(tables)} symbol tables")
    symbols = contents[tables[0]].view(SYMBOL)
    strings = contents[int(headers[tables[0]]["link"])].tobytes()
    symbol_names = tuple(_text(strings, int(symbol["name"])) for symbol in symbols)
    return ObjectFile(int(header["machine"]), int(header["flags"]), sections, symbols, symbol_names)


def _content(data: NDArray[np.uint8], header: Any) -> NDArray[np.uint8]:
    if int(header["type"]) == NOBITS:
        return data[:0]
    start, size = int(header["offset"]), int(header["size"])
    if start + size > len(data):
        raise ValueError("a section ends behind the file")
    return data[start : start + size]


def _text(strings: bytes, start: int) -> str:
    return strings[start : strings.index(b"\0", start)].decode()


def data_object(symbol: str, content: NDArray[np.uint8], like: ObjectFile) -> ObjectFile:
    """An object for the machine of ``like``: read-only bytes, page-aligned, called ``symbol``.

    The bytes are not copied.
    """
    section = Section(".rodata", section_header(PROGBITS, ALLOC, _PAGE_BYTES), content)
    symbols = np.zeros(2, SYMBOL)
    symbols[1] = (0, GLOBAL << 4 | OBJECT, HIDDEN, 1, 0, len(content))
    return ObjectFile(like.machine, like.flags, (null_section(), section), symbols, ("", symbol))
